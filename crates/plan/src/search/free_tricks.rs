//! The free tricks, other layouts and the allocator's settings, combined with each other.

use super::by_role::Search;
use crate::setup::Setup;
use crate::tricks::{Role, Trick};
use crate::workbench::Workbench;

/// A trick with a setup to adopt it from.
type Adoption = (&'static dyn Trick, Setup);

/// The combinations of free tricks on a start.
pub struct FreeTricks {
    /// All combinations, the empty one first.
    combinations: Vec<Vec<Adoption>>,
    /// The first alternative of every trick that reduces live bytes.
    leanest: Vec<Adoption>,
    /// Bytes per weight by which `leanest` may exceed another combination.
    bytes_per_weight: u64,
}

impl FreeTricks {
    /// Combines the alternatives that the tricks propose for the start.
    pub fn new(search: &Search<'_, '_>) -> FreeTricks {
        let mut free = FreeTricks { combinations: vec![Vec::new()], leanest: Vec::new(), bytes_per_weight: 0 };
        for trick in search.with_role(|role| matches!(role, Role::Free { .. } | Role::Allocator | Role::Layout)) {
            let alternatives = search.alternatives(trick, search.start);
            if let Role::Free { bytes_per_weight } = trick.role() {
                free.leanest.extend(alternatives.first().map(|first| (trick, first.clone())));
                free.bytes_per_weight += bytes_per_weight;
            }
            free.combine(trick, &alternatives);
        }
        free
    }

    /// Extends every combination by each of a trick's alternatives.
    fn combine(&mut self, trick: &'static dyn Trick, alternatives: &[Setup]) {
        let mut more = Vec::new();
        for combination in &self.combinations {
            for setup in alternatives {
                let mut with = combination.clone();
                with.push((trick, setup.clone()));
                more.push(with);
            }
        }
        self.combinations.extend(more);
    }

    /// A base setup with the tricks that reduce live bytes.
    pub fn leanest(&self, bench: &Workbench<'_>, base: &Setup) -> Setup {
        adopted(bench, base, &self.leanest)
    }

    /// The bytes by which [`FreeTricks::leanest`] may exceed another combination.
    pub fn excess(&self, bench: &Workbench<'_>) -> u64 {
        self.bytes_per_weight * bench.model.parameters.len() as u64
    }

    /// The number of tricks in each combination.
    pub fn combination_sizes(&self) -> impl ExactSizeIterator<Item = usize> {
        self.combinations.iter().map(Vec::len)
    }

    /// A base setup with one of the combinations.
    pub fn applied(&self, bench: &Workbench<'_>, base: &Setup, combination: usize) -> Setup {
        adopted(bench, base, &self.combinations[combination])
    }
}

fn adopted(bench: &Workbench<'_>, base: &Setup, adoptions: &[Adoption]) -> Setup {
    let mut setup = base.clone();
    for (trick, with) in adoptions {
        trick.adopt(bench, &mut setup, with);
    }
    setup
}
