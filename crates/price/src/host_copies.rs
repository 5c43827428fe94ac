//! The time of `save_on_cpu`: copies of saved tensors to host memory and back.

use vramfit_eager::autograd::{HostMemory, HostTraffic};

use crate::queues::Cost;
use crate::tables::TABLES;

/// The copies of what one call saves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HostCopies {
    /// Microseconds in the forward pass, in which Python waits for the GPU and for the copy.
    pub to_host: f64,
    /// The copy in the backward pass.
    pub to_gpu: Cost,
    /// Whether Python waits in the backward pass too.
    pub waits: bool,
}

impl HostCopies {
    pub fn of(traffic: HostTraffic, memory: HostMemory) -> HostCopies {
        if traffic.tensors == 0 {
            return HostCopies::default();
        }
        let tensors = f64::from(traffic.tensors);
        let [to_host, to_gpu] = TABLES.host[usize::from(memory == HostMemory::Pageable)].each_ref().map(|curve| {
            let each = curve.at(traffic.bytes as f64 / tensors);
            (tensors * each, tensors * curve.min())
        });
        let waits = memory == HostMemory::Pageable;
        let to_gpu = match waits {
            true => Cost { cpu: to_gpu.0, gpu: 0.0 },
            // The CPU hands the copy over and goes on.
            false => Cost { cpu: to_gpu.1, gpu: to_gpu.0 },
        };
        HostCopies { to_host: to_host.0, to_gpu, waits }
    }

    pub fn are_any(&self) -> bool {
        self.to_host > 0.0
    }
}
