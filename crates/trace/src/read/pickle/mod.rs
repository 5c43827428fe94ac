//! A pickle reader that builds data only.
//!
//! A pickle is a program for a small stack machine. [`machine`] runs it, protocols 2 to 5, and refuses every opcode that
//! would import or call something. Lists and dicts are in a [`heap`] and referred to by number. So sharing through the
//! memo costs nothing, and a list that contains itself does no harm: nothing here walks a value.
//!
//! Memory stays small through [`Condense`]: a dict may be replaced by a record as soon as it is filled.

pub(crate) mod heap;
pub(crate) mod machine;
mod memo;
mod number;
mod runs;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod value;

pub(crate) use heap::{Condense, Heap};
pub(crate) use machine::load;
pub(crate) use value::{Kind, Value};
