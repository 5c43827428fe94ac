//! How a page came about: enough to make it again elsewhere.

use super::Section;
use super::parts::command_line;
use crate::page::escape;

/// The command that made a page, and by which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The command line, with files by their names alone.
    pub command: String,
    /// vramfit's version.
    pub version: &'static str,
}

impl Origin {
    /// From the words of a command line, without the program's name. Those that are one of `paths`, alone or after `--flag=`,
    /// lose their folders.
    pub fn new(words: &[String], paths: &[&str], version: &'static str) -> Origin {
        let portable = |word: &String| match paths.iter().find(|path| word.ends_with(**path)) {
            Some(path) if word.as_str() == *path => super::file_name(word).to_owned(),
            Some(path) if word.starts_with("--") && word[..word.len() - path.len()].ends_with('=') => {
                word[..word.len() - path.len()].to_owned() + super::file_name(path)
            }
            _ => word.clone(),
        };
        Origin { command: command(&words.iter().map(portable).collect::<Vec<_>>()), version }
    }

    /// The last section of every page.
    pub(super) fn section(&self, settings: &[(String, String)]) -> Section {
        let rows: String = settings
            .iter()
            .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(value)))
            .collect();
        let settings = match rows.as_str() {
            "" => String::new(),
            rows => format!(
                "<details><summary>All settings, defaults included</summary><dl class=\"facts\">{rows}</dl></details>"
            ),
        };
        let body = format!(
            "<p>vramfit {}, in the folder of the file:</p>{}{settings}",
            escape(self.version),
            command_line(&self.command)
        );
        Section::new("reproduce", "To reproduce", body)
    }
}

/// A command of `vramfit` to paste into a shell.
pub fn command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("vramfit {}", words.join(" "))
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./=:,+@%^".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_files_without_their_folders_and_can_be_pasted() {
        let words =
            ["estimate", "/home/me/a net.vramfit", "--gpu", "RTX 3060", "--html=out/page.html", "--size", "x=1/2"];
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let origin = Origin::new(&words, &["/home/me/a net.vramfit", "out/page.html"], "1.2.3");
        assert_eq!(origin.command, "vramfit estimate 'a net.vramfit' --gpu 'RTX 3060' --html=page.html --size x=1/2");
    }

    #[test]
    fn a_quote_in_a_word_survives_the_shell() {
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$(rm)"), "'$(rm)'");
    }
}
