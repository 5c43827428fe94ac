//! Groups of weights: an optimizer updates one group after another, and only the weights that are in one.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// What a group begins with whose gradients get weight decay added.
const DECAY: &str = "decay:";

/// Weights that are updated together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Their numbers among the model's weights, in the group's order.
    pub weights: Vec<usize>,
    /// Whether weight decay is added to their gradients.
    pub adds_decay: bool,
}

impl Group {
    /// All weights of a model.
    pub fn all(count: usize, adds_decay: bool) -> Group {
        Group { weights: (0..count).collect(), adds_decay }
    }
}

/// The groups of an optimizer, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Groups {
    written: Arc<str>,
    groups: Arc<[Group]>,
}

impl Groups {
    /// Reads groups such as `decay:*.weight;*`: groups with semicolons between, each a list of names with commas between. A
    /// name may have `*` in it, or be a number or a range of numbers, such as `3-9`, which count `weights` from 0. Each
    /// weight may have several names, and belongs to the first group that names it.
    ///
    /// # Errors
    /// A name is not valid, or of no weight.
    pub fn read(written: &str, weights: &[&[String]]) -> Result<Groups, InvalidGroups> {
        let mut is_taken = vec![false; weights.len()];
        let group = |text: &str| {
            let (adds_decay, names) = match text.strip_prefix(DECAY) {
                Some(names) => (true, names),
                None => (false, text),
            };
            let mut taken = Vec::new();
            for name in names.split(',').map(str::trim) {
                if name.is_empty() {
                    return Err(InvalidGroups::Empty(written.to_owned()));
                }
                let named = named(name, weights)?;
                taken.extend(named.into_iter().filter(|&index| !std::mem::replace(&mut is_taken[index], true)));
            }
            Ok(Group { weights: taken, adds_decay })
        };
        let groups = written.split(';').map(str::trim).map(group).collect::<Result<_, _>>()?;
        Ok(Groups { written: written.into(), groups })
    }

    /// The groups in order.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter()
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.written)
    }
}

/// Why groups are not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidGroups {
    /// A group names nothing.
    #[error("found an empty group or name in `{0}`, needed names of weights")]
    Empty(String),
    /// A range that ends before it begins.
    #[error("found the range {0}, which ends before it begins")]
    Backwards(String),
    /// A name that no weight has.
    #[error("`{name}` names no weight of the model, which has {count}: {first} and so on")]
    NoWeight {
        /// The name.
        name: String,
        /// How many weights there are.
        count: usize,
        /// The first of them.
        first: String,
    },
}

/// The numbers of the weights that a name, number or range is of.
fn named(name: &str, weights: &[&[String]]) -> Result<Vec<usize>, InvalidGroups> {
    let (first, last) = name.split_once('-').unwrap_or((name, name));
    let found: Vec<usize> = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), Ok(last)) if first > last => return Err(InvalidGroups::Backwards(name.to_owned())),
        (Ok(first), Ok(last)) if last < weights.len() => (first..=last).collect(),
        (Ok(_), Ok(_)) => Vec::new(),
        _ => {
            let is_named = |index: &usize| weights[*index].iter().any(|known| matches(name, known));
            (0..weights.len()).filter(is_named).collect()
        }
    };
    if found.is_empty() {
        let first = weights.first().and_then(|names| names.first()).cloned().unwrap_or_default();
        return Err(InvalidGroups::NoWeight { name: name.to_owned(), count: weights.len(), first });
    }
    Ok(found)
}

/// Whether a name matches a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(before) else { return false };
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches(after, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<Vec<String>> {
        ["a.weight", "a.bias", "b.weight", "b.bias"].iter().map(|name| vec![(*name).to_owned()]).collect()
    }

    fn groups(text: &str) -> Result<Vec<(Vec<usize>, bool)>, InvalidGroups> {
        let names = names();
        let names: Vec<&[String]> = names.iter().map(Vec::as_slice).collect();
        let found = Groups::read(text, &names)?;
        assert_eq!(found.to_string(), text);
        Ok(found.iter().map(|group| (group.weights.clone(), group.adds_decay)).collect())
    }

    #[test]
    fn a_weight_belongs_to_the_first_group_that_names_it() {
        assert_eq!(groups("decay:*.weight;*"), Ok(vec![(vec![0, 2], true), (vec![1, 3], false)]));
        assert_eq!(groups("3,0-1;b.*"), Ok(vec![(vec![3, 0, 1], false), (vec![2], false)]));
    }

    #[test]
    fn weights_may_be_in_no_group() {
        assert_eq!(groups("2"), Ok(vec![(vec![2], false)]));
    }

    #[test]
    fn what_names_no_weight_is_refused() {
        assert_eq!(groups("a.*;"), Err(InvalidGroups::Empty("a.*;".to_owned())));
        assert_eq!(groups("3-1"), Err(InvalidGroups::Backwards("3-1".to_owned())));
        for name in ["c.*", "4", "2-4"] {
            let found = groups(name).map_err(|error| error.to_string());
            assert_eq!(found, Err(format!("`{name}` names no weight of the model, which has 4: a.weight and so on")));
        }
    }
}
