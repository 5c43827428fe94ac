//! The fields of a query: `model=gpt2&gpu=RTX+3060`.

use super::Problem;

/// Names and values in the order of the query. A name may occur several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Decodes a query as forms and `URLSearchParams` write it.
    ///
    /// # Errors
    /// Percent signs without two hexadecimal digits, bytes that are not UTF-8, control characters.
    pub fn parse(query: &str) -> Result<Fields, Problem> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        decoded.collect::<Result<_, Problem>>().map(Fields)
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of a name that must occur once.
    ///
    /// # Errors
    /// It does not occur, or several times.
    pub fn single(&self, wanted: &str) -> Result<&str, Problem> {
        let mut values = self.iter().filter(|(name, _)| *name == wanted).map(|(_, value)| value);
        match (values.next(), values.next()) {
            (Some(value), None) => Ok(value),
            (None, _) => Err(problem(format!("found no `{wanted}`, needed one"))),
            (Some(_), Some(_)) => Err(problem(format!("found several `{wanted}`, needed one"))),
        }
    }
}

fn problem(error: String) -> Problem {
    Problem::of_question(error, None::<String>)
}

fn decode(text: &str) -> Result<String, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(match first {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let ([high, low, after @ ..], true) = (after, after.len() >= 2) else { return Err(escape(text)) };
                let (Some(high), Some(low)) = (digit(*high), digit(*low)) else { return Err(escape(text)) };
                rest = after;
                (high * 16 + low) as u8
            }
            byte => *byte,
        });
    }
    let decoded = String::from_utf8(bytes).map_err(|_| problem(format!("found `{text}`, needed UTF-8")))?;
    match decoded.chars().any(char::is_control) {
        true => Err(problem(format!("found a control character in `{}`", decoded.escape_debug()))),
        false => Ok(decoded),
    }
}

fn escape(text: &str) -> Problem {
    problem(format!("found `{text}`, needed two hexadecimal digits after each percent sign"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(query: &str) -> Vec<(String, String)> {
        Fields::parse(query).unwrap().0
    }

    #[test]
    fn names_and_values_are_decoded() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            pairs("model=gpt2&gpu=RTX+3060&ema"),
            [pair("model", "gpt2"), pair("gpu", "RTX 3060"), pair("ema", "")]
        );
        assert_eq!(pairs("&size=x%3D1x2&size=%e4%b8%ad&"), [pair("size", "x=1x2"), pair("size", "中")]);
        assert_eq!(pairs("a=b=c"), [pair("a", "b=c")]);
        assert_eq!(pairs(""), []);
    }

    #[test]
    fn what_is_no_query_is_refused() {
        for bad in ["a=%", "a=%4", "a=%zz", "a=%ff", "%00=a", "a=%0a", "a=%c3%28", "a=%+1"] {
            assert!(Fields::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_field_that_is_needed_once_must_occur_once() {
        let fields = Fields::parse("a=1&b=2&b=3").unwrap();
        assert_eq!(fields.single("a"), Ok("1"));
        assert!(fields.single("b").is_err() && fields.single("c").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_decoded_or_refused(query in "\\PC{0,60}|[%&=+0-9a-f]{0,60}") {
            let _ = Fields::parse(&query);
        }

        #[test]
        fn what_is_encoded_is_decoded(value in "\\PC{0,40}") {
            let encoded: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(pairs(&format!("x={encoded}")), [("x".to_owned(), value)]);
        }
    }
}
