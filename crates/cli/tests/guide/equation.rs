//! Equations in the prose: `109,483,778 × 4 B = 437,935,112 B = 418 MiB`.

/// Whether code is meant as an equation: numbers, units and signs around an equals sign.
pub fn is_one(code: &str) -> bool {
    let signs = [" × ", " + ", " − ", " / "];
    code.contains(" = ")
        && signs.iter().any(|sign| code.contains(sign))
        && code.split_whitespace().all(|word| {
            let word = word.trim_matches(['(', ')']);
            is_number(word) || factor(word).is_some() || ["×", "+", "−", "/", "="].contains(&word)
        })
}

fn is_number(word: &str) -> bool {
    word.starts_with(|letter: char| letter.is_ascii_digit())
        && word.chars().all(|letter| letter.is_ascii_digit() || matches!(letter, '.' | ','))
}

/// Checks that all sides are equal, to the digits that are shown.
pub fn check(text: &str) -> Result<(), String> {
    let sides: Vec<Side> = text.split(" = ").map(side).collect::<Result<_, _>>()?;
    for pair in sides.windows(2) {
        let (left, right) = (&pair[0], &pair[1]);
        let slack = left.slack + right.slack + 1e-9 * left.value.abs();
        if (left.value - right.value).abs() > slack {
            return Err(format!("{} is not {}", left.value, right.value));
        }
    }
    Ok(())
}

struct Side {
    value: f64,
    /// Half of the last digit, where the side is a single number with decimals or a unit.
    slack: f64,
}

fn side(text: &str) -> Result<Side, String> {
    let spaced = text.replace('(', "( ").replace(')', " )");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let value = sum(&words, &mut at)?;
    if at < words.len() {
        return Err(format!("found `{}`", words[at]));
    }
    let is_single = words.iter().filter(|word| is_number(word)).count() == 1;
    let decimals = words[0].split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let unit = words.get(1).and_then(|word| factor(word)).unwrap_or(1.0);
    let is_rounded = is_single && (decimals > 0 || unit > 1.0);
    let slack = if is_rounded { 0.500_001 * unit * 10_f64.powi(-(decimals as i32)) } else { 0.0 };
    Ok(Side { value, slack })
}

fn sum(words: &[&str], at: &mut usize) -> Result<f64, String> {
    let mut value = product(words, at)?;
    while let Some(sign) = words.get(*at).filter(|word| ["+", "−"].contains(word)) {
        *at += 1;
        let next = product(words, at)?;
        value += if *sign == "+" { next } else { -next };
    }
    Ok(value)
}

fn product(words: &[&str], at: &mut usize) -> Result<f64, String> {
    let mut value = atom(words, at)?;
    while let Some(sign) = words.get(*at).filter(|word| ["×", "/"].contains(word)) {
        *at += 1;
        let next = atom(words, at)?;
        value = if *sign == "×" { value * next } else { value / next };
    }
    Ok(value)
}

fn atom(words: &[&str], at: &mut usize) -> Result<f64, String> {
    let word = words.get(*at).ok_or("a number is missing")?;
    *at += 1;
    let mut value = if *word == "(" {
        let inner = sum(words, at)?;
        if words.get(*at) != Some(&")") {
            return Err("`)` is missing".to_owned());
        }
        *at += 1;
        inner
    } else {
        word.replace(',', "").parse().map_err(|_| format!("found `{word}`, needed a number"))?
    };
    if let Some(factor) = words.get(*at).and_then(|word| factor(word)) {
        *at += 1;
        value *= factor;
    }
    Ok(value)
}

fn factor(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "%" => 0.01,
        _ => return None,
    })
}

#[test]
fn equations_hold_to_the_digits_that_are_shown() {
    assert!(is_one("109,483,778 × 4 B = 437,935,112 B = 418 MiB"));
    assert!(!is_one("x = 3") && !is_one("--vram 3"));
    assert_eq!(check("109,483,778 × 4 B = 437,935,112 B = 418 MiB"), Ok(()));
    assert_eq!(check("(64 + 1) × 2 = 130"), Ok(()));
    assert!(check("109,483,778 × 4 B = 437,935,112 B = 419 MiB").is_err());
    assert!(check("2 × 2 = 5").is_err());
}
