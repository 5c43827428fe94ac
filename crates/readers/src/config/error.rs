//! Why a `config.json` gives no model.

use thiserror::Error;

/// Why a `config.json` gives no model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A family that has no template.
    #[error("model_type: found {found}, needed one of {known}")]
    Family {
        /// What it says.
        found: String,
        /// What is known.
        known: String,
    },
    /// An architecture that has no template.
    #[error("architectures: found {found}, needed one of {known}")]
    Architecture {
        /// What it says.
        found: String,
        /// What is known for the family.
        known: String,
    },
    /// A field is missing or not what it should be.
    #[error("{field}: found {found}, needed {needed}")]
    Field {
        /// Its name.
        field: String,
        /// What is there.
        found: String,
        /// What should be.
        needed: String,
    },
    /// A field that changes the model in a way no template has.
    #[error("{field} = {found} is not modelled; what is: {known}")]
    NotModelled {
        /// Its name.
        field: String,
        /// Its value.
        found: String,
        /// The values that are modelled.
        known: String,
    },
    /// A field nobody has heard of.
    #[error("{field} = {found}: this field of {family} is not known, so what it does is not modelled")]
    UnknownField {
        /// Its name.
        field: String,
        /// Its value.
        found: String,
        /// The family.
        family: String,
    },
    /// The sizes pass 64 bits.
    #[error("the sizes of the model pass the largest 64-bit number")]
    TooLarge,
    /// A template is not what it should be.
    #[error("the template {name} cannot be used")]
    Template {
        /// Its name.
        name: String,
    },
}
