//! What commands need to answer over the network: a small HTTP server ([`server`]), and the calculator in the browser
//! ([`calculator`]): its page, and the API behind it with its limits.
//!
//! Nothing here simulates. Whoever serves the calculator brings the answers, as a [`calculator::Calculator`].

pub mod calculator;
pub mod recent;
#[cfg(not(target_family = "wasm"))]
pub mod server;
