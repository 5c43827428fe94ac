//! Spellings of GPU names.

/// Words that do not distinguish GPUs.
const NOISE_WORDS: [&str; 6] = ["nvidia", "geforce", "tesla", "generation", "gpu", "graphics"];

/// The name in lower case, without spaces, punctuation and noise words.
pub(crate) fn normalized(name: &str) -> String {
    let lower = name.to_lowercase();
    lower
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !NOISE_WORDS.contains(word))
        .flat_map(str::chars)
        .collect::<String>()
        .replace("nvidia", "")
        .replace("geforce", "")
}

/// The name as the table spells it: without noise words.
pub(crate) fn without_brand(name: &str) -> String {
    let distinguishes = |word: &&str| !NOISE_WORDS.contains(&word.to_lowercase().as_str());
    name.split_whitespace().filter(distinguishes).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_spaces_and_brands_do_not_matter() {
        for name in ["RTX 3060", "rtx3060", "NVIDIA GeForce RTX 3060", "geforce-rtx-3060", "GeForceRTX3060"] {
            assert_eq!(normalized(name), "rtx3060");
        }
        assert_eq!(normalized("Tesla V100-SXM2-16GB"), "v100sxm216gb");
        assert_eq!(normalized("NVIDIA RTX 6000 Ada Generation"), "rtx6000ada");
        assert_eq!(without_brand("NVIDIA RTX 6000 Ada Generation"), "RTX 6000 Ada");
    }
}
