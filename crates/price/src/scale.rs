//! Scales times measured on an H200 to another GPU.

use vramfit_catalogue::Gpu;

use crate::curve::Curve;
use crate::tables::PerPrecision;

/// The catalogue's values of the measured GPU, an H200.
const MULTIPROCESSORS: f64 = 132.0;
const BANDWIDTH: f64 = 4800.0;
const CACHE: f64 = 50.0;
const SINGLE: f64 = 66.9;
const HALF: f64 = 989.4;
const TENSOR: f64 = 494.7;

/// How much longer work takes than on an H200. For other GPUs this is an assumption, not a measurement:
/// memory-bound kernels scale with bandwidth; compute-bound kernels scale with the FLOP rate of one multiprocessor, for
/// the same work per multiprocessor; data that fits into the H200's cache but not into the GPU's is read from memory.
/// The minimum time of a kernel and all CPU times do not change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Time factor of memory-bound work.
    pub memory: f64,
    /// The H200's cache size over the GPU's, at least 1: the gain of a larger cache was not measured.
    cache: f64,
    /// Time factor of one multiprocessor's compute-bound work, in single and half precision.
    compute: PerPrecision<f64>,
    /// The same for cuDNN, which uses tensor cores for single precision if the GPU has them.
    cudnn: PerPrecision<f64>,
    /// The H200's number of multiprocessors over the GPU's.
    pub multiprocessors: f64,
}

impl Scale {
    pub fn of(gpu: &Gpu) -> Scale {
        let multiprocessors = MULTIPROCESSORS / f64::from(gpu.multiprocessors.max(1));
        let rates = &gpu.flop_rates;
        let single = rates.fp32.unwrap_or(SINGLE);
        // A GPU without bfloat16 has fp16's rate: PyTorch's emulation was not measured.
        let half = rates.bf16.or(rates.fp16).unwrap_or(single);
        let tensor = rates.tf32.unwrap_or(single);
        Scale {
            memory: gpu.bandwidth.map_or(1.0, |bandwidth| BANDWIDTH / bandwidth.max(1.0)),
            cache: gpu.cache.map_or(1.0, |cache| (CACHE / cache).max(1.0)),
            compute: [SINGLE / single / multiprocessors, HALF / half / multiprocessors],
            cudnn: [TENSOR / tensor / multiprocessors, HALF / half / multiprocessors],
            multiprocessors,
        }
    }

    /// The time of a memory-bound kernel. The time per element is that of the size which fills the same part of the
    /// H200's cache as `elements` fills of the GPU's.
    pub fn memory_bound(&self, curve: &Curve, elements: f64) -> f64 {
        let time = curve.at(elements).max(curve.at(elements * self.cache) / self.cache);
        let min = curve.min().min(time);
        min + (time - min) * self.memory
    }

    /// The time of a compute-bound kernel, from its time on the H200 for the same work per multiprocessor.
    pub fn compute_bound(&self, time: f64, min: f64, is_half: bool) -> f64 {
        let min = min.min(time);
        min + (time - min) * self.compute[usize::from(is_half)]
    }

    /// Time factor of the whole GPU for compute-bound work in cuDNN.
    pub fn cudnn_factor(&self, is_half: bool) -> f64 {
        self.cudnn[usize::from(is_half)] * self.multiprocessors
    }

    /// Time factor of the whole GPU for other compute-bound work.
    pub fn compute_factor(&self, is_half: bool) -> f64 {
        self.compute[usize::from(is_half)] * self.multiprocessors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramfit_catalogue::Catalogue;

    #[test]
    fn all_factors_of_the_measured_gpu_are_one_and_a_smaller_gpu_is_slower() {
        let catalogue = Catalogue::built_in().expect("the built-in table is valid");
        let scale = |name: &str| Scale::of(catalogue.find(name).expect("the GPU is in the table"));
        // Up to a million elements fit into the cache and are twice as fast.
        let curve = Curve::new([(1e3, 2.0), (1e6, 16.0), (1e7, 320.0), (1e8, 3200.0)]);
        let own = scale("H200");
        assert!((own.memory - 1.0).abs() < 1e-9 && (own.compute_factor(false) - 1.0).abs() < 1e-9);
        assert!((own.compute_factor(true) - 1.0).abs() < 1e-9 && (own.memory_bound(&curve, 1e6) - 16.0).abs() < 1e-9);
        let small = scale("RTX 3060");
        assert!(small.memory > 10.0 && small.compute_factor(false) > 4.0 && small.compute_factor(true) > 10.0);
        assert!((small.memory_bound(&curve, 1e3) - 2.0).abs() < 1e-9);
        // A million elements fit into the H200's cache only; here they take as long per element as ten million.
        assert!((small.memory_bound(&curve, 1e7) / small.memory_bound(&curve, 1e6) - 10.0).abs() < 1.0);
        assert!(own.memory_bound(&curve, 1e7) / own.memory_bound(&curve, 1e6) > 19.0);
    }
}
