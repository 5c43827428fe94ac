//! What the user chooses: a value for each symbol, and a variant.
//!
//! [`Sizes::select`] turns the command line's flags into sizes; [`select_variant`] finds the variant for a precision and
//! mode.

mod axis;
mod choice;
mod error;
mod flags;
mod hint;
mod present;
mod sizes;
mod variant;

pub use error::{SIZE_LIMIT, SizeError, VariantError};
pub use flags::SizeFlags;
pub use sizes::Sizes;
pub use variant::{VariantFlags, choose, select_variant};
