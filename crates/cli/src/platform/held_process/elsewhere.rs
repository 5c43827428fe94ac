//! macOS and others: no process is ever shown that runs on this machine, so none can be held.

use std::convert::Infallible;

use super::Order;

/// There is none.
pub struct HeldProcess(Infallible);

impl HeldProcess {
    /// Never.
    pub fn open(pid: u32, _order: Order) -> Result<HeldProcess, String> {
        Err(format!("process {pid}: processes are told to end on Linux and Windows only"))
    }

    /// Nothing to send to.
    pub fn send(&self, _order: Order) -> Result<(), String> {
        match self.0 {}
    }
}
