//! Selective checkpointing: which modules to run again so that enough is freed at the least time.
//!
//! [`modules`] finds what may be checkpointed; each kind of module is simulated alone, which tells what it frees, and
//! priced; [`family`] finds for growing savings the subset that costs least, by dynamic programming over the tree of
//! modules. The subsets are candidates like any other: whether one fits, its own simulation says.

mod family;
mod tree;

pub use family::{Member, family};
pub use tree::{ModuleTree, batch_norms, has_batch_norm, modules};
