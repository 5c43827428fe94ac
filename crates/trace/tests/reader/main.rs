//! The snapshot reader, from the outside: files it reads, and every way a file can be bad.

#![allow(clippy::unwrap_used)]

mod bad_gzip;
mod bad_pickle;
mod bad_snapshot;
mod hostile;
mod missing_values;
mod pickler;
mod properties;
mod recorded;
mod sound;
mod versions;
