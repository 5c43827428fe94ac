//! No rules yet: operators of this family are named as not modelled.

use super::Rule;

pub(super) fn rule(_name: &str) -> Option<Rule> {
    None
}
