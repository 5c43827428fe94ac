//! Outputs shown in console blocks, with lines left out.

use crate::answers;

/// A block's lines as they should be, and what cannot be found any more.
pub fn renewed(first: usize, lines: &[String]) -> (Vec<String>, Vec<String>) {
    let mut result = Vec::new();
    let mut problems = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(command) = lines[at].strip_prefix("$ ") else {
            return (lines.to_vec(), vec![format!("{}: found `{}`, needed `$ vramfit …`", first + at + 1, lines[at])]);
        };
        result.push(lines[at].clone());
        at += 1;
        let length = lines[at..].iter().position(|line| line.starts_with("$ ")).unwrap_or(lines.len() - at);
        let given = &lines[at..at + length];
        let output: Vec<String> = answers::text(command).lines().map(|line| line.trim_end().to_owned()).collect();
        match excerpt(given, &output) {
            Ok(found) => result.extend(found),
            Err(line) => {
                problems.push(format!("{}: `$ {command}` no longer prints a line like `{line}`", first + at));
                result.extend(given.iter().cloned());
            }
        }
        at += length;
    }
    (result, problems)
}

/// The lines of `output` that `given` shows: each is found by its words, whatever its numbers are.
fn excerpt(given: &[String], output: &[String]) -> Result<Vec<String>, String> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    if !given.iter().any(|line| line.trim() == "…") {
        return Ok(output.to_vec());
    }
    let mut found = Vec::new();
    let mut next = 0;
    for line in given {
        if line.trim() == "…" {
            found.push(line.clone());
            continue;
        }
        let same = output[next..].iter().position(|other| other == line);
        let alike = || output[next..].iter().position(|other| words(other) == words(line));
        let Some(skipped) = same.or_else(alike) else { return Err(line.clone()) };
        // What is left out must be marked.
        if skipped > 0 && found.last().is_some_and(|line: &String| line.trim() != "…") {
            found.push("…".to_owned());
        }
        if skipped > 0 && found.is_empty() {
            found.push("…".to_owned());
        }
        next += skipped;
        found.push(output[next].clone());
        next += 1;
    }
    if next < output.len() && found.last().is_some_and(|line| line.trim() != "…") {
        found.push("…".to_owned());
    }
    Ok(found)
}

/// A line's words, without numbers, units and bars.
fn words(line: &str) -> Vec<&str> {
    const UNITS: [&str; 8] = ["B", "KiB", "MiB", "GiB", "K", "M", "G", "T"];
    let words = line.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic));
    words
        .filter(|word| !UNITS.contains(word) && !word.chars().next().is_some_and(|letter| letter.is_ascii_digit()))
        .collect()
}
