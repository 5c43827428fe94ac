//! Names of GPUs that NVIDIA does not make, so that they are called what they are.

/// Makers with the beginnings of their names, in lower case.
const MAKERS: [(&str, &[&str]); 5] = [
    ("AMD", &["amd", "radeon", "instinct", "mi", "rx", "7900xt", "9070xt"]),
    ("Apple", &["apple", "m1", "m2", "m3", "m4", "m5", "mps"]),
    ("Intel", &["intel", "arc", "gaudi", "habana"]),
    ("Google", &["google", "tpu"]),
    ("Huawei", &["huawei", "ascend", "昇腾", "910b", "910c"]),
];

/// What may follow a name and its number.
const ENDINGS: [&str; 14] = ["", "x", "xt", "xtx", "gre", "a", "b", "c", "h", "t", "pro", "max", "ultra", "v"];

/// The maker of a GPU that is not NVIDIA's, by one of the name's words.
pub(crate) fn maker(name: &str) -> Option<&'static str> {
    let lower = name.to_lowercase();
    let words = || lower.split(|letter: char| !letter.is_alphanumeric());
    if words().any(|word| word == "nvidia") {
        return None;
    }
    let is_of = |beginnings: &[&str]| words().any(|word| beginnings.iter().any(|beginning| begins(word, beginning)));
    MAKERS.iter().find(|(_, beginnings)| is_of(beginnings)).map(|(maker, _)| *maker)
}

/// Whether a word is this one, with a number or a few letters behind it: `mi300x` and `m2max`, but neither `m40` nor `rxtreme`.
fn begins(word: &str, beginning: &str) -> bool {
    let Some(rest) = word.strip_prefix(beginning) else { return false };
    let letters = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_number_longer = beginning.ends_with(|letter: char| letter.is_ascii_digit()) && letters != rest;
    !is_number_longer && (!beginning.is_ascii() || ENDINGS.contains(&letters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_of_other_makers_are_known_by_their_names() {
        for (name, expected) in [
            ("mi300x", "AMD"),
            ("MI250", "AMD"),
            ("AMD Instinct MI210", "AMD"),
            ("Radeon RX 7900 XTX", "AMD"),
            ("rx7900xtx", "AMD"),
            ("7900xtx", "AMD"),
            ("M2 Ultra", "Apple"),
            ("m3max", "Apple"),
            ("Arc A770", "Intel"),
            ("gaudi2", "Intel"),
            ("tpu-v4", "Google"),
            ("昇腾910B", "Huawei"),
        ] {
            assert_eq!(maker(name), Some(expected), "{name}");
        }
        for name in ["RTX 3065", "M2000", "M40", "M60", "M10", "", "x", "NVIDIA RX", "archive", "rxtreme", "A100"] {
            assert_eq!(maker(name), None, "{name}");
        }
    }
}
