//! A GPU beside the one that was measured.

use vramfit_catalogue::Gpu;

/// What the catalogue says of the GPU that was measured, an H200.
const MULTIPROCESSORS: f64 = 132.0;
const BANDWIDTH: f64 = 4800.0;
const SINGLE: f64 = 66.9;
const HALF: f64 = 989.4;
const TENSOR: f64 = 494.7;

/// How much longer work takes than on the H200: an assumption, not a measurement, for every other GPU. A kernel that moves
/// memory takes longer as its bandwidth is less; one that computes does, on each multiprocessor, what an H200's does in a
/// time that follows the rate of one multiprocessor. What a kernel takes at least, and what the CPU does, stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Of work that moves memory.
    pub memory: f64,
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
            compute: [SINGLE / single / multiprocessors, HALF / half / multiprocessors],
            dnn: [TENSOR / tensor / multiprocessors, HALF / half / multiprocessors],
            multiprocessors,
        }
    }

    /// A time of a kernel that moves memory, of which `least` does not depend on the size.
    pub fn moving(&self, time: f64, least: f64) -> f64 {
        let least = least.min(time);
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
        let own = scale("H200");
        assert!((own.memory - 1.0).abs() < 1e-9 && (own.whole(false) - 1.0).abs() < 1e-9);
        assert!((own.whole(true) - 1.0).abs() < 1e-9 && (own.moving(7.0, 2.0) - 7.0).abs() < 1e-9);
        let small = scale("RTX 3060");
        assert!(small.memory > 10.0 && small.whole(false) > 4.0 && small.whole(true) > 10.0);
        assert!((small.moving(2.0, 2.0) - 2.0).abs() < 1e-9);
    }
}
