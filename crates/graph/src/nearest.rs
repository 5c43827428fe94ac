//! Suggestions for a mistyped name.

/// The names within a small edit distance of `name`, or that contain it or are contained in it: at most three, the nearest
/// first.
///
/// ```
/// use vramfit_graph::nearest::nearest;
///
/// assert_eq!(nearest("resnet5", ["bert", "resnet50"]), ["resnet50"]);
/// ```
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = plain(name);
    let rate = |candidate: &'a str| {
        let other = plain(candidate);
        let is_part = wanted.len() > 2 && (other.contains(&wanted) || wanted.contains(&other));
        let distance = strsim::levenshtein(&wanted, &other);
        (distance <= 1 + wanted.len() / 4 || is_part).then_some((distance, candidate))
    };
    let mut found: Vec<(usize, &str)> = known.into_iter().filter_map(rate).collect();
    found.sort();
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Lower-case letters and digits only: `Conv2D` and `conv_2d` are the same.
fn plain(name: &str) -> String {
    name.chars().take(64).filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_letter_too_few_or_other_punctuation_is_near_and_another_word_is_not() {
        let known = ["Conv1d", "Conv2d", "BatchNorm2d", "Linear"];
        assert_eq!(nearest("conv_2d", known), ["Conv2d", "Conv1d"]);
        assert_eq!(nearest("Liner", known), ["Linear"]);
        assert_eq!(nearest("Norm", known), ["BatchNorm2d"]);
        assert!(nearest("Attention", known).is_empty());
    }
}
