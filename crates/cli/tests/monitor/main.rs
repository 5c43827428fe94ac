//! The monitor on machines that do not exist: the whole binary against the NVML stand-in.

#![allow(clippy::unwrap_used, reason = "tests")]

mod faults;
mod ordinary;
mod serve;
mod standin;
