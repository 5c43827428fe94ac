//! What is on the GPUs now: NVML, AMD's sysfs and the machine's processes, sampled with deadlines. Nothing here draws or prints.
//!
//! A [`Source`](source::Source) answers one question about one GPU at a time; the [`Sampler`](sampler::Sampler) asks all
//! of them side by side, waits no longer than the [`Limits`](sampler::Limits) say, and puts the answers together into a
//! [`Sample`](sample::Sample). What has no answer has a [`Missing`](reading::Missing) reason, never a zero.

mod assemble;
pub mod feed;
pub mod history;
pub mod lanes;
pub mod platform;
pub mod plausible;
pub mod process;
pub mod pytorch;
pub mod question;
pub mod reading;
pub mod recording;
pub mod sample;
pub mod sampler;
pub mod source;
