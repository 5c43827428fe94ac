//! What a recorded memory snapshot says about the program that made it.
//!
//! [`explain`] replays a recording once and reads off: when memory peaked and who held it, which training steps there
//! were, what leaks from step to step, what an evaluation keeps for a backward pass that never comes, which transient
//! sets the peak, how much is reserved but unusable, and why an allocation failed. It finds; [`Finding`]s are facts
//! with numbers and places, and words are found elsewhere.
//!
//! The way of the data: [`history`] is what lived when, [`origin`] whose line a call stack is, [`phases`] what the
//! program was doing, [`steps`] where its training steps begin and end, [`findings`] what follows from all that.

mod explain;
pub mod findings;
pub mod history;
pub mod origin;
pub mod peak;
pub mod phases;
pub mod roles;
pub mod steps;
#[cfg(any(test, feature = "synthetic"))]
pub mod synthetic;
#[cfg(test)]
mod tests;

pub use explain::{Explanation, explain};
pub use findings::{Details, Finding};
