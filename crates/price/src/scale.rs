//! A GPU beside the one that was measured.

use vramfit_catalogue::Gpu;

use crate::curve::Curve;

/// What the catalogue says of the GPU that was measured, an H200.
const MULTIPROCESSORS: f64 = 132.0;
const BANDWIDTH: f64 = 4800.0;
const CACHE: f64 = 50.0;
const SINGLE: f64 = 66.9;
const HALF: f64 = 989.4;
const TENSOR: f64 = 494.7;

/// How much longer work takes than on the H200: an assumption, not a measurement, for every other GPU. A kernel that moves
/// memory takes longer as its bandwidth is less; one that computes does, on each multiprocessor, what an H200's does in a
/// time that follows the rate of one multiprocessor. What an H200 finds in its cache and the GPU's own cannot hold comes from
/// memory there. What a kernel takes at least, and what the CPU does, stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Of work that moves memory.
    pub memory: f64,
    /// How many times the GPU's cache the measured one's is, 1 at least: a larger one may help, which nobody measured.
    cache: f64,
    /// Of computing, on one multiprocessor, in single and half precision.
    compute: [f64; 2],
    /// The same of cuDNN, which computes single precision in tensor cores where there are such.
    dnn: [f64; 2],
    /// How many multiprocessors the measured GPU has for each of this one's.
    pub multiprocessors: f64,
}

impl Scale {
    pub fn of(gpu: &Gpu) -> Scale {
        let multiprocessors = MULTIPROCESSORS / f64::from(gpu.multiprocessors.max(1));
        let rates = &gpu.flop_rates;
        let single = rates.fp32.unwrap_or(SINGLE);
        // A GPU without arithmetic in bfloat16 is asked for fp16; PyTorch emulates bfloat16 there, which nobody measured.
        let half = rates.bf16.or(rates.fp16).unwrap_or(single);
        let tensor = rates.tf32.unwrap_or(single);
        Scale {
            memory: gpu.bandwidth.map_or(1.0, |bandwidth| BANDWIDTH / bandwidth.max(1.0)),
            cache: gpu.cache.map_or(1.0, |cache| (CACHE / cache).max(1.0)),
            compute: [SINGLE / single / multiprocessors, HALF / half / multiprocessors],
            dnn: [TENSOR / tensor / multiprocessors, HALF / half / multiprocessors],
            multiprocessors,
        }
    }

    /// The time of a kernel that moves memory; what its smallest size takes does not depend on the GPU. Of a size that fills as
    /// much of the GPU's cache as a larger one does of the measured one's, each element takes as long.
    pub fn moving(&self, curve: &Curve, elements: f64) -> f64 {
        let time = curve.at(elements).max(curve.at(elements * self.cache) / self.cache);
        let least = curve.least().min(time);
        least + (time - least) * self.memory
    }

    /// A time of a kernel that computes on as much for each multiprocessor.
    pub fn computing(&self, time: f64, least: f64, is_half: bool) -> f64 {
        let least = least.min(time);
        least + (time - least) * self.compute[usize::from(is_half)]
    }

    /// How much longer as much computing takes cuDNN on the whole GPU.
    pub fn dnn(&self, is_half: bool) -> f64 {
        self.dnn[usize::from(is_half)] * self.multiprocessors
    }

    /// How much longer as much computing takes on the whole GPU.
    pub fn whole(&self, is_half: bool) -> f64 {
        self.compute[usize::from(is_half)] * self.multiprocessors
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramfit_catalogue::Catalogue;

    #[test]
    fn the_measured_gpu_is_its_own_measure_and_others_are_slower() {
        let catalogue = Catalogue::built_in().expect("the table can be read");
        let scale = |name: &str| Scale::of(catalogue.find(name).expect("a GPU of the table"));
        // Twice as fast up to a million elements, which the cache holds.
        let curve = Curve::new([(1e3, 2.0), (1e6, 16.0), (1e7, 320.0), (1e8, 3200.0)]);
        let own = scale("H200");
        assert!((own.memory - 1.0).abs() < 1e-9 && (own.whole(false) - 1.0).abs() < 1e-9);
        assert!((own.whole(true) - 1.0).abs() < 1e-9 && (own.moving(&curve, 1e6) - 16.0).abs() < 1e-9);
        let small = scale("RTX 3060");
        assert!(small.memory > 10.0 && small.whole(false) > 4.0 && small.whole(true) > 10.0);
        assert!((small.moving(&curve, 1e3) - 2.0).abs() < 1e-9);
        // What an H200's cache holds and this one's does not: as slow, element by element, as what neither holds.
        assert!((small.moving(&curve, 1e7) / small.moving(&curve, 1e6) - 10.0).abs() < 1.0);
        assert!(own.moving(&curve, 1e7) / own.moving(&curve, 1e6) > 19.0);
    }
}
