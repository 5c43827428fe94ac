//! What a search works on, and its tricks by role.

use crate::control::Control;
use crate::risk::Risk;
use crate::setup::Setup;
use crate::tricks::{self, Role, Trick, differences};
use crate::workbench::Workbench;

/// A search: tricks on a start.
#[derive(Clone, Copy)]
pub struct Search<'a, 'm> {
    /// Simulates and prices setups.
    pub bench: &'a Workbench<'m>,
    /// The tricks to combine, in the order in which changes are listed.
    pub tricks: &'a [&'static dyn Trick],
    /// Settings that must not change, as [`Trick::setting`] names them.
    pub keep: &'a [&'static str],
    /// The setup to start from.
    pub start: &'a Setup,
    /// Progress and cancellation.
    pub control: &'a Control,
}

impl Search<'_, '_> {
    /// Whether a trick's setting must not change.
    pub fn is_kept(&self, trick: &dyn Trick) -> bool {
        self.keep.contains(&trick.setting())
    }

    /// The tricks with a wanted role whose settings may change.
    pub fn with_role(&self, is_wanted: impl Fn(Role) -> bool) -> impl Iterator<Item = &'static dyn Trick> {
        self.tricks.iter().copied().filter(move |trick| is_wanted(trick.role()) && !self.is_kept(*trick))
    }

    /// A trick's alternatives to a setup; empty if it does not apply.
    pub fn alternatives(&self, trick: &dyn Trick, setup: &Setup) -> Vec<Setup> {
        let mut alternatives = trick.alternatives(self.bench, setup).unwrap_or_default();
        alternatives.retain(|alternative| trick.is_searched(setup, alternative));
        alternatives
    }

    /// A setup, followed by it with every combination of alternatives of the tricks with a role.
    pub fn combined(&self, role: Role, setup: &Setup) -> Vec<Setup> {
        let mut setups = vec![setup.clone()];
        for trick in self.with_role(|known| known == role) {
            let with = |setup: Setup| {
                let alternatives = self.alternatives(trick, &setup);
                std::iter::once(setup).chain(alternatives)
            };
            setups = setups.into_iter().flat_map(with).collect();
        }
        setups
    }

    /// What a setup risks, compared with the start.
    pub fn risk(&self, setup: &Setup) -> Risk {
        tricks::risk(self.bench, self.tricks, self.start, setup)
    }

    /// The number of tricks that turn one setup into another.
    pub fn changes(&self, from: &Setup, to: &Setup) -> usize {
        differences(self.bench, self.tricks, from, to).len()
    }
}
