//! What the user chooses of a model: a value for each symbol, and a variant.
//!
//! [`Sizes`] are made from the command line's flags with [`Sizes::select`]; [`select_variant`] finds the recording for
//! a precision and mode.

mod axis;
mod choice;
mod error;
mod hint;
mod present;
mod sizes;
mod variant;

pub use error::{SizeError, VariantError};
pub use sizes::{SIZE_LIMIT, SizeFlags, Sizes};
pub use variant::choose;
pub use variant::{VariantFlags, select_variant};
