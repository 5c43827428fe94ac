//! Samples the state of the GPUs through NVML, AMD's sysfs and the operating system's process list, with deadlines.
//! Nothing here draws or prints.
//!
//! A [`Source`](source::Source) answers one question about one GPU at a time. The [`Sampler`](sampler::Sampler) queries all
//! GPUs in parallel, within its [`Limits`](sampler::Limits), and assembles the answers into a
//! [`Sample`](sample::Sample). A value without an answer has a [`Missing`](reading::Missing) reason, never a zero.

mod assemble;
pub mod feed;
pub mod history;
mod lanes;
pub mod platform;
mod plausible;
mod process;
mod pytorch;
mod question;
pub mod reading;
pub mod recording;
pub mod sample;
pub mod sampler;
pub mod source;
