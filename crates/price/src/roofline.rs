//! What a GPU can do at most: bytes and operations a second.

use vramfit_catalogue::Gpu;
use vramfit_graph::dtype::Dtype;

/// Rates of a GPU, in operations and bytes a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roofline {
    single: f64,
    half: f64,
    double: f64,
    bandwidth: f64,
}

impl Roofline {
    pub fn of(gpu: &Gpu) -> Roofline {
        let rates = &gpu.flop_rates;
        let single = rates.fp32.unwrap_or(1.0) * 1e12;
        Roofline {
            single,
            half: rates.bf16.or(rates.fp16).map_or(single, |rate| rate * 1e12),
            double: rates.fp64.map_or(single / 32.0, |rate| rate * 1e12),
            bandwidth: gpu.bandwidth * 1e9,
        }
    }

    /// How long a kernel takes at least.
    pub fn seconds(&self, dtype: Dtype, operations: f64, bytes: f64) -> f64 {
        let rate = match dtype {
            Dtype::Float16 | Dtype::Bfloat16 => self.half,
            Dtype::Float64 => self.double,
            _ => self.single,
        };
        (operations / rate).max(bytes / self.bandwidth)
    }
}
