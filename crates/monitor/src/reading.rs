//! A value, or why there is none.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A value, or the reason why it is missing.
pub type Reading<T> = Result<T, Missing>;

/// Why a value is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// The GPU does not report this.
    NotSupported,
    /// A GPU that is split into MIG devices does not report this for the whole.
    Mig,
    /// The GPU shares main memory and has none of its own.
    UnifiedMemory,
    /// This user has no permission to read it.
    NoPermission,
    /// The process is not visible: another PID namespace, another user's with hidepid, or WSL.
    HiddenProcess,
    /// The process ended while it was read.
    Ended,
    /// The GPU has fallen off the bus.
    Lost,
    /// The driver did not answer in time.
    NoAnswer,
    /// The driver is too old for this query.
    OldDriver,
    /// The value cannot be right.
    Implausible(String),
    /// It was not queried.
    NotAsked,
    /// Any other failure, in the driver's words.
    Failed(String),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Missing::NotSupported => "not supported",
            Missing::Mig => "MIG",
            Missing::UnifiedMemory => "unified memory",
            Missing::NoPermission => "no permission",
            Missing::HiddenProcess => "hidden process",
            Missing::Ended => "process ended",
            Missing::Lost => "GPU is lost",
            Missing::NoAnswer => "no answer in time",
            Missing::OldDriver => "driver too old",
            Missing::NotAsked => "not asked for",
            Missing::Implausible(what) => return write!(f, "implausible: {what}"),
            Missing::Failed(what) => what,
        };
        f.write_str(text)
    }
}
