//! The monitor on machines that do not exist: the whole binary against the NVML stand-in.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod faults;
mod flags;
mod http;
mod ordinary;
mod serve;
mod standin;
