//! Sizes as people read them: GiB, MiB, KiB, with the unit always the binary one it says.

/// `bytes` with a unit that leaves one to four digits before the point: `3.47 GiB`, `512 B`.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A size as [`human`] writes it, without its unit where the text that follows ends with the same one: the first of
/// `19.2 of 11.8 GiB`.
pub fn number<'a>(size: &'a str, followed_by: &str) -> &'a str {
    match size.split_once(' ') {
        Some((number, unit)) if followed_by.ends_with(unit) => number,
        _ => size,
    }
}

/// A bare number below this is hardly meant to be bytes.
const FEWEST_BYTES: u64 = 1 << 20;

/// Reads a size: `11GiB`, `11GB`, `11264MiB`, `11g` (GiB), `11811160064B` or a bare number of bytes, if it is a large one.
///
/// # Errors
/// Says what was found and what is needed.
pub fn parse(text: &str) -> Result<u64, String> {
    let complaint = || {
        format!("found size `{text}`, needed a number with a unit such as 11GiB, 11GB, 11264MiB, 11g or 11811160064B")
    };
    let trimmed = text.trim();
    let split = trimmed.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(complaint()),
    };
    if unit.trim().is_empty() && number.parse().is_ok_and(|bytes: f64| bytes > 0.0 && bytes < FEWEST_BYTES as f64) {
        return Err(format!(
            "found `{number}` without a unit, needed one such as {number}GiB; {number} bytes are {number}B"
        ));
    }
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(complaint);
    }
    let value: f64 = number.parse().map_err(|_| complaint())?;
    let bytes = value * factor as f64;
    if bytes.is_finite() && (0.0..u64::MAX as f64).contains(&bytes) {
        Ok(bytes.round() as u64)
    } else {
        Err(complaint())
    }
}

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_in_every_documented_way() {
        for (text, bytes) in [
            ("11GiB", 11 << 30),
            ("11GB", 11_000_000_000),
            ("11264MiB", 11 << 30),
            ("11g", 11 << 30),
            ("11811160064B", 11 << 30),
            ("1.5GiB", 3 << 29),
            (" 2 MiB ", 2 << 20),
            ("512B", 512),
            ("11811160064", 11 << 30),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "GiB", "-1GiB", "11XB", "1e3", "99999999999GiB", "1.2.3MiB", "NaN"] {
            assert!(parse(text).is_err(), "{text}");
        }
        let error = parse("12").unwrap_err();
        assert_eq!(error, "found `12` without a unit, needed one such as 12GiB; 12 bytes are 12B");
        assert!(parse("11.8").is_err() && parse("512").is_err());
    }

    #[test]
    fn sizes_are_shown_with_binary_units() {
        assert_eq!(human(0), "0 B");
        assert_eq!(human(1023), "1023 B");
        assert_eq!(human(1024), "1.00 KiB");
        assert_eq!(human(3 << 30), "3.00 GiB");
        assert_eq!(human(1_500_000_000), "1.40 GiB");
        assert_eq!(human(500 << 20), "500 MiB");
        assert_eq!(human(u64::MAX), "16.0 EiB");
    }
}
