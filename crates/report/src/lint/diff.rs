//! A unified diff of two texts.

use std::time::Duration;

use similar::TextDiff;

/// A diff of files with little in common takes long to minimise. After this it need not be the shortest one.
const MINIMISE_FOR: Duration = Duration::from_secs(2);

/// The changes from `old` to `new`; empty if there are none.
pub fn diff(name: &str, old: &str, new: &str) -> String {
    // Not `from_lines`, which also ends a line at a lone carriage return: patch tools do not.
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let diff = TextDiff::configure().newline_terminated(true).timeout(MINIMISE_FOR).diff_slices(&old, &new);
    diff.unified_diff().header(name, name).to_string()
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
        assert_eq!(diff("x.py", "a1\nb2\n", "b2\n"), "--- x.py\n+++ x.py\n@@ -1,2 +1 @@\n-a1\n b2\n");
    }

    #[test]
    fn line_ends_are_shown_as_they_are() {
        assert_eq!(
            diff("x.py", "a\r\nb\rc\r\n", "a\r\nb\rC\r\n"),
            "--- x.py\n+++ x.py\n@@ -1,2 +1,2 @@\n a\r\n-b\rc\r\n+b\rC\r\n"
        );
        let text = diff("x.py", "a\nb", "a\nc");
        let last = "\n\\ No newline at end of file\n";
        assert_eq!(text, format!("--- x.py\n+++ x.py\n@@ -1,2 +1,2 @@\n a\n-b{last}+c{last}"));
    }
}
