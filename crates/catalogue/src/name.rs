//! Names of GPUs, as people and drivers write them.

/// Words that say nothing about which GPU it is.
const EMPTY_WORDS: [&str; 6] = ["nvidia", "geforce", "tesla", "generation", "gpu", "graphics"];

/// A name without case, spaces, punctuation and empty words.
pub fn plain(name: &str) -> String {
    let lower = name.to_lowercase();
    lower
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !EMPTY_WORDS.contains(word))
        .flat_map(str::chars)
        .collect::<String>()
        .replace("nvidia", "")
        .replace("geforce", "")
}

/// How many letters must be changed, added or taken away to make one name of another.
pub fn distance(first: &str, second: &str) -> usize {
    let second: Vec<char> = second.chars().collect();
    let mut row: Vec<usize> = (0..=second.len()).collect();
    for (index, letter) in first.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in second.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[second.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_spaces_and_brands_do_not_matter() {
        for name in ["RTX 3060", "rtx3060", "NVIDIA GeForce RTX 3060", "geforce-rtx-3060", "GeForceRTX3060"] {
            assert_eq!(plain(name), "rtx3060");
        }
        assert_eq!(plain("Tesla V100-SXM2-16GB"), "v100sxm216gb");
        assert_eq!(plain("NVIDIA RTX 6000 Ada Generation"), "rtx6000ada");
    }

    #[test]
    fn distance_counts_letters() {
        assert_eq!(distance("rtx3060", "rtx3060"), 0);
        assert_eq!(distance("rtx3060", "rtx3070"), 1);
        assert_eq!(distance("h10", "h100"), 1);
        assert_eq!(distance("", "h100"), 4);
    }
}
