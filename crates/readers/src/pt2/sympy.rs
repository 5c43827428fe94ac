//! sympy's text for a size, as an [`Expression`].
//!
//! PyTorch writes sizes as sympy's own code: `Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))`.
//! It is turned into the text that expressions are read from.

use std::fmt::Write;

/// What is wrong with a text.
pub(super) type Message = String;

const DEPTH_LIMIT: usize = 32;

/// The text of the same expression in the notation of [`vramfit_graph::expression`].
pub(super) fn plain(text: &str) -> Result<String, Message> {
    let mut parser = Parser { text, position: 0, depth: 0 };
    let part = parser.part()?;
    parser.skip_spaces();
    if parser.position < text.len() {
        return Err(format!("found `{}` after its end", &text[parser.position..]));
    }
    match part {
        Part::Whole(text) => Ok(text),
        Part::Ratio(..) => Err("found a fraction, needed a whole number".to_owned()),
    }
}

/// A part of an expression.
enum Part {
    Whole(String),
    /// A number that is not whole.
    Ratio(i64, i64),
}

struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn part(&mut self) -> Result<Part, Message> {
        self.depth += 1;
        if self.depth > DEPTH_LIMIT {
            return Err(format!("it nests more than {DEPTH_LIMIT} levels deep"));
        }
        self.skip_spaces();
        let part = match self.rest().chars().next() {
            Some(first) if first == '-' || first.is_ascii_digit() => Part::Whole(self.number()?.to_string()),
            Some(first) if first.is_alphabetic() || first == '_' => {
                let name = self.take(|it| it.is_alphanumeric() || it == '_' || it == '.');
                self.skip_spaces();
                match self.rest().starts_with('(') {
                    true => self.call(name)?,
                    false => Part::Whole(name.to_owned()),
                }
            }
            Some(other) => return Err(format!("found `{other}`, needed a number or a name")),
            None => return Err("it ends too early".to_owned()),
        };
        self.depth -= 1;
        Ok(part)
    }

    fn call(&mut self, name: &str) -> Result<Part, Message> {
        self.expect('(')?;
        match name.rsplit('.').next().unwrap_or(name) {
            "Integer" => {
                let value = self.number()?;
                self.expect(')')?;
                Ok(Part::Whole(value.to_string()))
            }
            "Rational" => {
                let above = self.number()?;
                self.expect(',')?;
                let below = self.number()?;
                self.expect(')')?;
                if below == 0 { Err("a fraction divides by zero".to_owned()) } else { Ok(Part::Ratio(above, below)) }
            }
            "Symbol" => self.symbol(),
            function => {
                let parts = self.parts()?;
                apply(function, parts)
            }
        }
    }

    /// `'s0', positive=True, integer=True)`.
    fn symbol(&mut self) -> Result<Part, Message> {
        self.skip_spaces();
        let quote = self.rest().chars().next().filter(|it| matches!(it, '\'' | '"')).ok_or("a symbol has no name")?;
        self.position += 1;
        let name = self.take(|it| it != quote);
        self.expect(quote)?;
        self.take(|it| it != ')');
        self.expect(')')?;
        Ok(Part::Whole(name.to_owned()))
    }

    fn parts(&mut self) -> Result<Vec<Part>, Message> {
        let mut parts = Vec::new();
        loop {
            self.skip_spaces();
            if self.rest().starts_with(')') {
                self.position += 1;
                return Ok(parts);
            }
            if !parts.is_empty() {
                self.expect(',')?;
            }
            self.skip_spaces();
            // `evaluate=False` and the like say nothing about the value.
            let word = self.rest().find(|it: char| !(it.is_alphanumeric() || it == '_')).unwrap_or(0);
            if word > 0 && self.rest()[word..].starts_with('=') {
                self.take(|it| it != ',' && it != ')');
                continue;
            }
            parts.push(self.part()?);
        }
    }

    fn number(&mut self) -> Result<i64, Message> {
        self.skip_spaces();
        let digits = self.take(|it| it.is_ascii_digit() || it == '-');
        digits.parse().map_err(|_| format!("found `{digits}`, needed a number of 64 bits"))
    }

    fn expect(&mut self, wanted: char) -> Result<(), Message> {
        self.skip_spaces();
        match self.rest().chars().next() {
            Some(found) if found == wanted => {
                self.position += wanted.len_utf8();
                Ok(())
            }
            Some(found) => Err(format!("found `{found}`, needed `{wanted}`")),
            None => Err(format!("it ends where `{wanted}` was needed")),
        }
    }

    fn skip_spaces(&mut self) {
        self.take(|it| it == ' ');
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|it| !belongs(it)).unwrap_or(rest.len());
        self.position += length;
        &rest[..length]
    }

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }
}

fn apply(function: &str, parts: Vec<Part>) -> Result<Part, Message> {
    let joined = |sign: &str, parts: &[String]| Part::Whole(format!("({})", parts.join(sign)));
    if function == "Mul" {
        return product(parts);
    }
    if function == "Pow" {
        return power(parts);
    }
    let parts = parts.into_iter().map(whole).collect::<Result<Vec<String>, Message>>()?;
    match (function, &parts[..]) {
        ("Add", [_, ..]) => Ok(joined("+", &parts)),
        ("FloorDiv" | "CleanDiv", [above, below]) => Ok(Part::Whole(format!("({above}//{below})"))),
        // In sizes, which are not negative, all of them agree.
        ("Mod" | "PythonMod", [above, below]) => Ok(Part::Whole(format!("({above}-{below}*({above}//{below}))"))),
        ("Max", [_, ..]) => Ok(Part::Whole(format!("max({})", parts.join(",")))),
        ("Min", [_, ..]) => Ok(Part::Whole(format!("min({})", parts.join(",")))),
        ("CeilDiv", [above, below]) => Ok(Part::Whole(format!("(-((-{above})//{below}))"))),
        ("Identity" | "ToFloat" | "TruncToInt" | "FloorToInt" | "RoundToInt" | "CeilToInt", [value]) => {
            Ok(Part::Whole(value.clone()))
        }
        _ => Err(format!("`{function}` with {} arguments is not known", parts.len())),
    }
}

fn whole(part: Part) -> Result<String, Message> {
    match part {
        Part::Whole(text) => Ok(text),
        Part::Ratio(above, below) => Err(format!("found the fraction {above}/{below}, needed a whole number")),
    }
}

/// A product; fractions in it divide what the rest of it is.
fn product(parts: Vec<Part>) -> Result<Part, Message> {
    let mut text = String::new();
    let (mut above, mut below) = (1_i64, 1_i64);
    for part in parts {
        match part {
            Part::Whole(factor) => {
                let _ = write!(text, "{}{factor}", if text.is_empty() { "" } else { "*" });
            }
            Part::Ratio(one, other) => {
                let too_large = || "a fraction is too large".to_owned();
                above = above.checked_mul(one).ok_or_else(too_large)?;
                below = below.checked_mul(other).ok_or_else(too_large)?;
            }
        }
    }
    if text.is_empty() {
        return Ok(if below == 1 { Part::Whole(above.to_string()) } else { Part::Ratio(above, below) });
    }
    if above != 1 {
        text = format!("({above})*{text}");
    }
    Ok(Part::Whole(if below == 1 { format!("({text})") } else { format!("(({text})//{below})") }))
}

fn power(parts: Vec<Part>) -> Result<Part, Message> {
    let [base, exponent] = <[Part; 2]>::try_from(parts).map_err(|_| "`Pow` needs two arguments".to_owned())?;
    let (base, exponent) = (whole(base)?, whole(exponent)?);
    match exponent.parse::<usize>() {
        Ok(count @ 1..=8) => Ok(Part::Whole(format!("({})", vec![base; count].join("*")))),
        _ => Err(format!("found the power {exponent}, needed one from 1 to 8")),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;
    use vramfit_graph::expression::Expression;

    fn value(text: &str, s0: i64) -> i64 {
        let plain = plain(text).expect("it is known");
        let expression = Expression::parse(&plain, |name| (name == "s0").then_some(0)).expect(&plain);
        expression.evaluate(&[s0]).expect("it has a value")
    }

    #[test]
    fn what_torch_writes_is_read() {
        let s0 = "Symbol('s0', positive=True, integer=True)";
        assert_eq!(value(s0, 7), 7);
        assert_eq!(value(&format!("Mul(Integer(12), {s0})"), 7), 84);
        assert_eq!(value(&format!("Add(FloorDiv(Add({s0}, Integer(-1)), Integer(2)), Integer(1))"), 8), 4);
        assert_eq!(value(&format!("Mul(Rational(1, 2), {s0})"), 8), 4);
        assert_eq!(value(&format!("Pow({s0}, Integer(2))"), 5), 25);
        assert_eq!(value(&format!("Max(Integer(1), {s0})"), 5), 5);
        assert_eq!(value(&format!("Mod({s0}, Integer(4))"), 7), 3);
        assert_eq!(value(&format!("Mul(Integer(-1), {s0}, evaluate=False)"), 7), -7);
    }

    #[test]
    fn what_is_not_known_says_so() {
        for (text, message) in [
            ("Piecewise(Integer(1))", "`Piecewise` with 1 arguments is not known"),
            ("Add(Integer(1)", "it ends where `,` was needed"),
            ("Integer(99999999999999999999)", "found `99999999999999999999`, needed a number of 64 bits"),
            ("Rational(1, 2)", "found a fraction, needed a whole number"),
            ("Integer(1))", "found `)` after its end"),
            ("", "it ends too early"),
        ] {
            assert_eq!(plain(text).expect_err(text), message);
        }
        let deep = format!("{}Integer(1){}", "Add(".repeat(40), ")".repeat(40));
        assert!(plain(&deep).expect_err("too deep").contains("32 levels"));
    }
}
