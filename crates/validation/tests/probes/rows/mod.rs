//! What each probe calls.

pub mod activation;
pub mod copy;
pub mod image;
pub mod pointwise;
pub mod product;
pub mod reduction;
