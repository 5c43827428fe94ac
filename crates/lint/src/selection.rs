//! The selected rules.

use std::collections::BTreeSet;

use crate::rules::RULES;

/// A set of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    codes: BTreeSet<&'static str>,
}

impl Default for Selection {
    fn default() -> Selection {
        Selection { codes: RULES.iter().filter(|rule| rule.is_default).map(|rule| rule.code).collect() }
    }
}

impl Selection {
    /// The rules that `select` names (by default the default rules) without those that `ignore` names.
    pub fn new(select: Option<&[String]>, ignore: &[String]) -> Result<Selection, String> {
        let mut selection = match select {
            None => Selection::default(),
            Some(words) => Selection {
                codes: words
                    .iter()
                    .map(|word| matching(word))
                    .collect::<Result<Vec<_>, _>>()?
                    .concat()
                    .into_iter()
                    .collect(),
            },
        };
        selection.without(ignore)?;
        Ok(selection)
    }

    /// Removes rules.
    pub(crate) fn without(&mut self, ignore: &[String]) -> Result<(), String> {
        for word in ignore {
            for code in matching(word)? {
                self.codes.remove(code);
            }
        }
        Ok(())
    }

    /// Whether a rule is selected.
    pub(crate) fn has(&self, code: &str) -> bool {
        self.codes.contains(code)
    }
}

/// The codes that a word selects: a code, a prefix, or ALL.
fn matching(word: &str) -> Result<Vec<&'static str>, String> {
    let upper = word.trim().to_ascii_uppercase();
    let is_all = upper == "ALL";
    let found: Vec<&'static str> = RULES
        .iter()
        .map(|rule| rule.code)
        .filter(|code| is_all || !upper.is_empty() && code.starts_with(&upper))
        .collect();
    if found.is_empty() {
        return Err(format!(
            "`{word}` is no rule, needed a code such as VF001, the beginning of some such as VF, or ALL"
        ));
    }
    Ok(found)
}
