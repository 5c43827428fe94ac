//! A small HTTP/1.1 server: one request per connection, a limit on open connections and on the size of a request, a
//! deadline for everything a client does.
//!
//! `httparse` and `http` parse requests; the connection loop is our own, because no server crate has these protections:
//! - tiny_http, and rouille on top of it, have no read deadline and no limit on the size of a head.
//! - hyper, and axum and astra on top of it, close a slow connection without a 408, answer HTTP/2.0 and HTTP/1.2 alike with
//!   an empty 400, and leave the connection limit, the write deadline and the draining of unread bytes to the caller:
//!   the same code as here, plus an async runtime (24 crates for hyper, 57 for axum).
//!
//! Both speak the types of `http`, so a [`Site`] would survive a change to hyper.

mod connection;
mod host;
mod listen;
mod request;
mod response;
mod token;

pub use connection::{Admission, Site, Slot, accept};
pub use host::{KnownHosts, is_foreign};
pub use listen::{Listen, ListenError};
pub use request::{Head, Request};
pub use response::Response;
pub use token::{Token, TokenError};
