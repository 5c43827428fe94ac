//! What every trick implements.

use super::role::Role;
use crate::batch_split::SplitCause;
use crate::control::Control;
use crate::parts::Parts;
use crate::printed_loop::PrintedLoop;
use crate::risk::Risk;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// A change to a training that saves memory.
pub trait Trick: Sync {
    /// The name in reports.
    fn name(&self) -> &'static str;

    /// The setting that it changes, as `--keep` names it.
    fn setting(&self) -> &'static str;

    /// How the search combines it.
    fn role(&self) -> Role;

    /// What it risks in a setup. A trick whose risk depends on the model overrides this.
    fn risk(&self, _bench: &Workbench<'_>, _setup: &Setup) -> Risk {
        self.role().risk()
    }

    /// Why micro-batches may not add up to their batch.
    fn split_cause(&self, _bench: &Workbench<'_>, _setup: &Setup) -> Option<SplitCause> {
        None
    }

    /// What it cannot be combined with, in words; empty if nothing.
    fn conflicts(&self) -> &'static str {
        ""
    }

    /// Its code in PyTorch, in a line or two.
    fn code(&self, bench: &Workbench<'_>) -> &'static str;

    /// The setups with this trick applied to `start`.
    ///
    /// # Errors
    /// Why it does not apply, in words.
    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String>;

    /// Whether the search tries an alternative. The others are only in the table of single tricks.
    fn is_searched(&self, _start: &Setup, _alternative: &Setup) -> bool {
        true
    }

    /// The same change in fine steps of round numbers, the smallest change first. Only for batch and sample sizes: the search
    /// takes the first that fits.
    fn round_steps(&self, _bench: &Workbench<'_>, _start: &Setup) -> Vec<Setup> {
        Vec::new()
    }

    /// Findings that are not setups.
    fn findings(&self, _bench: &Workbench<'_>, _start: &Setup, _control: &Control) -> Vec<Finding> {
        Vec::new()
    }

    /// Copies this trick's settings from another setup.
    fn adopt(&self, _bench: &Workbench<'_>, _setup: &mut Setup, _from: &Setup) {}

    /// This trick's settings in a setup, in words.
    fn describe(&self, _bench: &Workbench<'_>, _setup: &Setup) -> String {
        String::new()
    }

    /// A side effect that users of a setup should know about.
    fn warning(&self, _bench: &Workbench<'_>, _setup: &Setup) -> Option<String> {
        None
    }

    /// Writes this trick's settings in a setup into the printed training loop.
    fn write(&self, _bench: &Workbench<'_>, _setup: &Setup, _code: &mut PrintedLoop) {}

    /// Adds what `Plan.apply` needs to change a live model, if the settings in the answer do not say it.
    fn fill(&self, _bench: &Workbench<'_>, _setup: &Setup, _parts: &mut Parts) {}
}

/// A finding of a trick that is not a setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The finding in words.
    pub what: String,
    /// Its bytes; positive if they are saved.
    pub bytes: Option<i64>,
}

/// One trick of a plan, compared with the setup before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The trick's name.
    pub trick: &'static str,
    /// What it risks.
    pub risk: Risk,
    /// The settings before.
    pub before: String,
    /// The settings after.
    pub after: String,
    /// A side effect.
    pub warning: Option<String>,
    /// Why micro-batches may not add up to their batch.
    pub split_cause: Option<SplitCause>,
    /// Peak reserved bytes saved, on top of the changes before it.
    pub saving: i64,
    /// The time for the same work, over the time before it.
    pub slowdown: f64,
}
