//! Models with numbers: expressions, choices of sizes and variants, binding.

mod bind;
mod captures;
mod expressions;
mod one_variant;
mod packed;
mod select;
