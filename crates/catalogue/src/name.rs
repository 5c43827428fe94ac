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

/// A name as people type it: `a100-80g`, `V100 SXM 32GB`, `3060 (12 GB)`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    /// What it is called, in one spelling of each [`folded`] word.
    pub(crate) model: String,
    /// Its memory, where the name has it.
    pub(crate) gib: Option<u64>,
}

impl Typed {
    /// Reads a name.
    pub(crate) fn read(name: &str) -> Typed {
        let lower = name.to_lowercase();
        let mut words: Vec<&str> = words(&lower).collect();
        let unit = |word: &str| matches!(word, "g" | "gb" | "gib");
        let with_unit = words.iter().position(|word| {
            let digits = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
            digits.len() < word.len() && unit(digits)
        });
        let apart = || (1..words.len()).find(|at| unit(words[*at]) && number(words[at - 1]).is_some());
        let (taken, gib) = if let Some(at) = with_unit {
            (at..=at, number(words[at]))
        } else if let Some(at) = apart() {
            (at - 1..=at, number(words[at - 1]))
        } else {
            // `A100 80`, but not the number of a GeForce.
            let last = words.len().saturating_sub(1);
            match words.last().and_then(|word| word.parse().ok()).filter(|gib| last > 0 && *gib < 1000) {
                gib @ Some(_) => (last..=last, gib),
                None => return Typed { model: words.into_iter().map(folded).collect(), gib: None },
            }
        };
        words.drain(taken);
        Typed { model: words.into_iter().map(folded).collect(), gib }
    }
}

/// The number that a word begins with.
fn number(word: &str) -> Option<u64> {
    let end = word.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(word.len());
    word[..end].parse().ok()
}

/// The words of a lower-case name, without noise words.
fn words(lower: &str) -> impl Iterator<Item = &str> {
    lower.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty() && !NOISE_WORDS.contains(word))
}

/// One spelling for words that mean the same.
fn folded(word: &str) -> &str {
    match word {
        "sxm2" | "sxm3" | "sxm4" | "sxm5" => "sxm",
        "mobile" | "notebook" => "laptop",
        _ => word,
    }
}

/// What a GPU may be called by its name: all of it, and without its form and memory, the longest first.
pub(crate) fn shortened(name: &str) -> Vec<String> {
    let lower = name.to_lowercase();
    let mut words: Vec<&str> = words(&lower).map(folded).collect();
    let mut all = vec![words.concat()];
    let is_variant = |word: &str| matches!(word, "sxm" | "pcie" | "nvl" | "laptop") || word.ends_with("gb");
    while words.len() > 1 && words.last().copied().is_some_and(is_variant) {
        words.pop();
        all.push(words.concat());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_out_of_a_name() {
        let typed = |name: &str| {
            let Typed { model, gib } = Typed::read(name);
            (model, gib)
        };
        for name in ["a100-80g", "A100 80GB", "A100 (80 GB)", "NVIDIA A100 80 GiB", "a100 80", "A100_80gb"] {
            assert_eq!(typed(name), ("a100".to_owned(), Some(80)), "{name}");
        }
        assert_eq!(typed("V100-SXM2-32GB"), ("v100sxm".to_owned(), Some(32)));
        assert_eq!(typed("RTX 3060"), ("rtx3060".to_owned(), None));
        assert_eq!((typed(""), typed("80")), ((String::new(), None), ("80".to_owned(), None)));
        assert_eq!(shortened("A100 SXM4 80GB"), ["a100sxm80gb", "a100sxm", "a100"]);
        assert_eq!(shortened("RTX 3060 Ti"), ["rtx3060ti"]);
    }

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
