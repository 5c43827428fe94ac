//! A unified diff of two texts.

/// Lines of context around a change.
const CONTEXT: usize = 3;

/// What has to change in `old` to make it `new`; empty where nothing has.
pub fn diff(name: &str, old: &str, new: &str) -> String {
    if old == new {
        return String::new();
    }
    let (before, after): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let mut text = format!("--- {name}\n+++ {name}\n");
    for hunk in hunks(&changes(&before, &after)) {
        text += &render(&before, &after, &hunk);
    }
    text
}

/// Replaced lines: first and end in the old text, first and end in the new one.
type Change = (usize, usize, usize, usize);

/// Walks both texts; after a difference it goes on at the nearest line they have in common.
fn changes(before: &[&str], after: &[&str]) -> Vec<Change> {
    let mut found = Vec::new();
    let (mut old, mut new) = (0, 0);
    while old < before.len() || new < after.len() {
        if old < before.len() && new < after.len() && before[old] == after[new] {
            old += 1;
            new += 1;
            continue;
        }
        let (rest_old, rest_new) = (before.len() - old, after.len() - new);
        let meeting = (1..=rest_old + rest_new).find_map(|distance| {
            let sides = 0..=distance.min(rest_old);
            sides.map(|gone| (gone, distance - gone)).find(|&(gone, come)| {
                come <= rest_new
                    && match (before.get(old + gone), after.get(new + come)) {
                        (None, None) => true,
                        (Some(one), Some(two)) => one == two && (one.trim().len() > 1 || distance > 40),
                        _ => false,
                    }
            })
        });
        let (gone, come) = meeting.unwrap_or((rest_old, rest_new));
        found.push((old, old + gone, new, new + come));
        old += gone;
        new += come;
    }
    found
}

/// Changes near each other belong together.
fn hunks(changes: &[Change]) -> Vec<Vec<Change>> {
    let mut hunks: Vec<Vec<Change>> = Vec::new();
    for change in changes {
        match hunks.last_mut() {
            Some(hunk) if hunk.last().is_some_and(|last| change.0 <= last.1 + 2 * CONTEXT) => hunk.push(*change),
            _ => hunks.push(vec![*change]),
        }
    }
    hunks
}

fn render(before: &[&str], after: &[&str], hunk: &[Change]) -> String {
    let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return String::new() };
    let lead = first.0.min(CONTEXT);
    let (start, end) = (first.0 - lead, (last.1 + CONTEXT).min(before.len()));
    let (new_start, new_end) = (first.2 - lead, last.3 + (end - last.1));
    let mut text = format!("@@ -{},{} +{},{} @@\n", start + 1, end - start, new_start + 1, new_end - new_start);
    let mut put = |sign: char, line: &str| {
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    };
    let mut position = start;
    for change in hunk {
        before[position..change.0].iter().for_each(|line| put(' ', line));
        before[change.0..change.1].iter().for_each(|line| put('-', line));
        after[change.2..change.3].iter().for_each(|line| put('+', line));
        position = change.1;
    }
    before[position..end].iter().for_each(|line| put(' ', line));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_changed_with_three_lines_around() {
        let old = "a1\nb2\nc3\nd4\ne5\nf6\ng7\nh8\n";
        let new = "a1\nb2\nc3\nd4\nE5\nf6\ng7\nh8\n";
        assert_eq!(
            diff("x.py", old, new),
            "--- x.py\n+++ x.py\n@@ -2,7 +2,7 @@\n b2\n c3\n d4\n-e5\n+E5\n f6\n g7\n h8\n"
        );
        assert_eq!(diff("x.py", old, old), "");
        assert_eq!(diff("x.py", "a1\nb2\n", "b2\n"), "--- x.py\n+++ x.py\n@@ -1,2 +1,1 @@\n-a1\n b2\n");
    }
}
