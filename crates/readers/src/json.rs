//! Reads JSON into types, with errors that say where in the file they are.

mod distinct;
mod read;
mod sections;
mod state;
mod text;
mod values;

pub(crate) use distinct::Distinct;
pub(crate) use read::{List, Object, Read, decode, fields, out_of_range};
pub(crate) use sections::Sections;
pub(crate) use state::ParseState;
pub(crate) use text::TextId;
pub(crate) use values::Named;
