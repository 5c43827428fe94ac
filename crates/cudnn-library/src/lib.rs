//! Asks an installed cuDNN which workspace it takes for a convolution, for a GPU that need not be there.
//!
//! cuDNN's heuristic only needs the properties of a GPU to choose a plan. [`search`] finds the library of a PyTorch
//! installation or of the system, [`locate`] that of a path. [`Client`] asks it in a child process with deadlines, so a
//! library that hangs or crashes only costs the answer. [`worker`] is that child process. Answers are cached on disk per
//! library file and compute capability.

mod backend;
mod cache;
mod child;
mod client;
#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"))),
    path = "no_cublas_hook.rs"
)]
mod cublas_hook;
mod device;
mod locate;
mod protocol;
mod question;
mod worker;

pub use child::Deadlines;
pub use client::{Client, WorkerCommand};
pub use device::DeviceProperties;
pub use locate::{is_shared_library, locate, search};
pub use worker::worker;
