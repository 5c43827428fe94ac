//! A pickle reader that builds data only.
//!
//! A pickle is a program for a small stack machine. [`machine`] runs it, protocols 2 to 5, and refuses by name every
//! opcode that would import or call something. Lists and dicts live in a [`heap`] and are named by number, so that what
//! the memo shares costs nothing and a list that holds itself is no danger: nothing here walks a value.
//!
//! Memory stays small through [`Condense`]: a dict may be replaced by a record as soon as it is filled.

pub(crate) mod heap;
pub(crate) mod machine;
mod memo;
mod number;
pub(crate) mod opcode;
mod runs;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod value;

pub(crate) use heap::{Condense, Heap};
pub(crate) use machine::load;
pub(crate) use value::{Kind, Value};
