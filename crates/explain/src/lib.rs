//! What a recorded memory snapshot says about the program that made it.
//!
//! [`explain`] replays a recording and finds out: when memory peaked and who held it, where the training steps are, what
//! leaks from step to step, what an evaluation keeps for a backward pass that never comes, which transient sets the
//! peak, how much is reserved but unusable, and why an allocation failed. A [`Finding`] has numbers and source lines;
//! the words for it are in `vramfit-report`.
//!
//! The data flow: [`history`] is what lived when, [`origin`] whose line a call stack is, [`phases`] what the program was
//! doing, [`steps`] where its training steps begin and end, [`findings`] what follows from that. [`cost`] answers what given
//! lines cost.

pub mod cost;
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
