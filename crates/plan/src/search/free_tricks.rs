//! The free tricks, combined with each other.

use crate::alloc_conf::AllocatorSetting;
use crate::setup::Setup;
use crate::tricks::{AllocatorSettings, FREE_TRICKS, Trick};
use crate::workbench::Workbench;

/// A free trick with a setup to adopt it from.
type Adoption = (&'static dyn Trick, Setup);

/// The combinations of free tricks on a start.
pub struct FreeTricks {
    /// All combinations, the empty one first.
    combinations: Vec<Vec<Adoption>>,
    /// All [`FREE_TRICKS`], each with its alternative that needs least memory.
    leanest: Vec<Adoption>,
}

impl FreeTricks {
    /// Combines the alternatives that the free tricks propose for a start.
    pub fn new(bench: &Workbench<'_>, start: &Setup) -> FreeTricks {
        let mut combinations: Vec<Vec<Adoption>> = vec![Vec::new()];
        let mut leanest = Vec::new();
        for trick in FREE_TRICKS {
            let alternatives = trick.alternatives(bench, start).unwrap_or_default();
            // The first alternative needs the least memory.
            leanest.extend(alternatives.first().map(|first| (trick, first.clone())));
            combine(&mut combinations, trick, &alternatives);
        }
        let mut settings = AllocatorSettings.alternatives(bench, start).unwrap_or_default();
        // Rounding sizes up costs memory: report it, but do not search it.
        let rounds_up = |setup: &Setup| setup.alloc_conf.sets(AllocatorSetting::RoundupPower2Divisions);
        settings.retain(|setup| !rounds_up(setup) || rounds_up(start));
        combine(&mut combinations, &AllocatorSettings, &settings);
        FreeTricks { combinations, leanest }
    }

    /// A base setup with all [`FREE_TRICKS`].
    pub fn leanest(&self, bench: &Workbench<'_>, base: &Setup) -> Setup {
        adopted(bench, base, &self.leanest)
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

/// Extends every combination by each of a trick's alternatives.
fn combine(combinations: &mut Vec<Vec<Adoption>>, trick: &'static dyn Trick, alternatives: &[Setup]) {
    let mut more = Vec::new();
    for combination in combinations.iter() {
        for setup in alternatives {
            let mut with = combination.clone();
            with.push((trick, setup.clone()));
            more.push(with);
        }
    }
    combinations.extend(more);
}

fn adopted(bench: &Workbench<'_>, base: &Setup, adoptions: &[Adoption]) -> Setup {
    let mut setup = base.clone();
    for (trick, with) in adoptions {
        trick.adopt(bench, &mut setup, with);
    }
    setup
}
