//! Why bytes are not a packed model.

use thiserror::Error;

use crate::check::CheckError;

/// Why bytes are not a packed model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// They cannot be inflated, or are too many then.
    #[error("cannot be inflated: {0}")]
    Inflate(#[source] std::io::Error),
    /// What they hold cannot be read.
    #[error("byte {at} of {length}: needed {needed}")]
    Malformed {
        /// Where, once inflated.
        at: usize,
        /// How many there are.
        length: usize,
        /// What should have been there.
        needed: &'static str,
    },
    /// The model in them is inconsistent.
    #[error(transparent)]
    Model(#[from] CheckError),
}
