//! A process that can be signalled. It is identified by the operating system's own handle, not by its PID: if it ends
//! first, another process that gets the same PID is not hit.

mod kill_signal;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(windows, path = "windows.rs")]
#[cfg_attr(not(any(target_os = "linux", windows)), path = "elsewhere.rs")]
mod system;

pub use kill_signal::KillSignal;
pub use system::HeldProcess;
