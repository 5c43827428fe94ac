//! Reads `model.toml`: a list of layers named as in torch.nn, for those who only want to sketch. `docs/model-toml.md`
//! describes it.
//!
//! The text becomes a tree of modules (`document`, `call`, `layers`); the tree is run once for each precision and mode
//! without values (`tape`, `run`), and what it would have called is the model.

mod arguments;
mod assemble;
mod call;
mod dimension;
mod document;
pub(crate) mod error;
mod layers;
mod node;
mod tables;
mod tape;
mod tensor;

pub use error::SketchError;

use vramfit_graph::model::Model;

/// Reads the sketch in `text`.
pub(super) fn read(text: &str) -> Result<Model, SketchError> {
    let sketch = document::read(text)?;
    assemble::assemble(sketch)
}
