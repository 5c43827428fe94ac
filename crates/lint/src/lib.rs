//! Finds code that wastes or leaks GPU memory in PyTorch training scripts.
//!
//! A [`Document`] is parsed once. `analysis` interprets the program abstractly, through its functions and loops, and
//! records what happens to its tensors as events. Each of the [`rules`] reads those. Nothing here prints.

mod analysis;
mod check;
mod document;
mod evidence;
pub mod files;
mod finding;
pub mod fix;
mod nesting;
mod project;
mod recorded;
pub mod rules;
mod selection;
pub mod settings;
mod suppress;
mod test_files;

pub use check::{Checked, check, check_among};
pub use document::{Document, Position};
pub use evidence::Open;
pub use finding::{Edit, Finding, Fix, Severity};
pub use project::Project;
pub use recorded::{Recorded, Subject};
pub use ruff_text_size::TextRange;
pub use selection::Selection;
