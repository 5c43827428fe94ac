//! Short lists of module names.

/// Joins names that differ in one number: `encoder.layer.{0..5}, head`.
pub(super) fn grouped(names: &[String]) -> String {
    let mut groups: Vec<(String, String, Vec<u64>)> = Vec::new();
    let mut plain: Vec<&str> = Vec::new();
    for name in names {
        let parts: Vec<&str> = name.split('.').collect();
        let Some(at) = parts.iter().position(|part| part.bytes().all(|byte| byte.is_ascii_digit())) else {
            plain.push(name);
            continue;
        };
        let (head, tail) = (parts[..at].join("."), parts[at + 1..].join("."));
        let number = parts[at].parse().unwrap_or(0);
        match groups.iter_mut().find(|(one, other, _)| *one == head && *other == tail) {
            Some((_, _, numbers)) => numbers.push(number),
            None => groups.push((head, tail, vec![number])),
        }
    }
    let mut texts: Vec<String> = groups
        .into_iter()
        .map(|(head, tail, mut numbers)| {
            numbers.sort_unstable();
            let head = if head.is_empty() { head } else { format!("{head}.") };
            let tail = if tail.is_empty() { tail } else { format!(".{tail}") };
            match numbers.as_slice() {
                [one] => format!("{head}{one}{tail}"),
                _ => format!("{head}{{{}}}{tail}", ranges(&numbers)),
            }
        })
        .collect();
    texts.extend(plain.into_iter().map(str::to_owned));
    texts.join(", ")
}

/// Joins sorted numbers: `0..3,7`.
fn ranges(numbers: &[u64]) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut at = 0;
    while at < numbers.len() {
        let first = numbers[at];
        while at + 1 < numbers.len() && numbers[at + 1] == numbers[at] + 1 {
            at += 1;
        }
        texts.push(if numbers[at] == first { first.to_string() } else { format!("{first}..{}", numbers[at]) });
        at += 1;
    }
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_one_number_are_joined() {
        let names: Vec<String> =
            ["h.0", "h.1", "h.2", "h.5", "h.3.mlp", "embed"].iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(grouped(&names), "h.{0..2,5}, h.3.mlp, embed");
    }
}
