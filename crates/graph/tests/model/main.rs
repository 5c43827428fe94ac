//! Models with numbers: expressions, choices of sizes and variants, binding.

mod bind;
mod captures;
mod expressions;
mod packed;
mod select;
