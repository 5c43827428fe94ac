//! Which known names a mistyped one may have meant.

/// The names that differ from `name` in few letters or hold it, the nearest first, three at most.
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
        let distance = distance(&wanted, &other);
        (distance <= 1 + wanted.len() / 4 || is_part).then_some((distance, candidate))
    };
    let mut found: Vec<(usize, &str)> = known.into_iter().filter_map(rate).collect();
    found.sort();
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Small letters and digits only: `Conv2D` and `conv_2d` are the same.
fn plain(name: &str) -> String {
    name.chars().take(64).filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// How many letters are to be put in, left out or changed to make one of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
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
