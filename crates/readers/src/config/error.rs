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
    /// A family that no template can describe.
    #[error("model_type: {found} is not modelled: {why}")]
    Refused {
        /// What it says.
        found: String,
        /// Why.
        why: &'static str,
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
    /// A field that is not known.
    #[error("{field} = {found}: this field of {family} is not known, so what it does is not modelled")]
    UnknownField {
        /// Its name.
        field: String,
        /// Its value.
        found: String,
        /// The family.
        family: String,
    },
    /// The sizes exceed 64 bits.
    #[error("the sizes of the model exceed 64 bits")]
    TooLarge,
    /// A template is damaged.
    #[error("the template {name} cannot be used")]
    Template {
        /// Its name.
        name: String,
        /// Why it cannot be unpacked; `None` if there is none of that name or it cannot be expanded.
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}
