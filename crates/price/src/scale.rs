//! Scales times measured on an H200 to another GPU.
//!
//! A kernel's time has two parts. Its floor is the time that its arithmetic takes at the peak FLOP rate, or its traffic at
//! the memory bandwidth, whichever is longer. On another GPU the floor follows from that GPU's own rates, so a kernel can be
//! limited by memory on one GPU and by arithmetic on another. The rest of the time is spent on instructions and latencies,
//! and scales with multiprocessors and clock. The minimum time of a kernel and all CPU times do not change.

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
/// Floating-point units of one of its multiprocessors.
const UNITS: f64 = 128.0;
/// Bytes per microsecond of the largest measured addition: 91 % of the bandwidth.
const TRAFFIC: f64 = 4.39e6;
/// Operations per microsecond of one TFLOP/s.
const TERA: f64 = 1e6;

/// The units that do a kernel's arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// cuBLAS and attention: tensor cores in half precision only.
    Products,
    /// cuDNN: tensor cores, in single precision as TF32 where the GPU has it.
    Convolutions,
    /// Floating-point units outside tensor cores.
    Cores,
}

/// What a kernel has to do on any GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub operations: f64,
    pub units: Units,
    pub is_half: bool,
    /// Bytes read and written once.
    pub bytes: f64,
}

/// What a kernel that moves memory has to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement<'a> {
    /// Its measured times.
    pub curve: &'a Curve,
    pub elements: f64,
    /// Its traffic if bandwidth is not what limited it on the H200.
    pub bytes: Option<f64>,
    /// The number of its blocks, here and in the measurement, if each keeps one multiprocessor busy.
    pub blocks: Option<[f64; 2]>,
}

impl Movement<'_> {
    /// Of a kernel that bandwidth limits.
    pub fn of(curve: &Curve, elements: f64) -> Movement<'_> {
        Movement { curve, elements, bytes: None, blocks: None }
    }
}

impl Load {
    /// The load of a kernel, or of several, that do `factor` times as much.
    pub fn times(self, factor: f64) -> Load {
        Load { operations: self.operations * factor, bytes: self.bytes * factor, ..self }
    }
}

/// Time factors of a GPU relative to the H200. For other GPUs this is an assumption, not a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Whether this is the measured GPU, whose times are used as they are.
    is_measured: bool,
    /// Time factor of memory traffic.
    pub memory: f64,
    /// The H200's cache size over the GPU's, at least 1: the gain of a larger cache was not measured.
    cache: f64,
    /// Time factor of products at the peak FLOP rate, in single and half precision.
    products: PerPrecision<f64>,
    /// The same of convolutions.
    convolutions: PerPrecision<f64>,
    /// Whether convolutions run in tensor cores, in single and half precision.
    has_tensor_cores: PerPrecision<bool>,
    /// The same factor outside tensor cores.
    cores: f64,
    /// Time factor of a multiprocessor's clock cycles.
    clock: f64,
    /// The H200's number of multiprocessors over the GPU's.
    pub multiprocessors: f64,
}

impl Scale {
    pub fn of(gpu: &Gpu) -> Scale {
        let multiprocessors = MULTIPROCESSORS / f64::from(gpu.multiprocessors.max(1));
        let rates = &gpu.flop_rates;
        let single = rates.fp32.unwrap_or(SINGLE);
        // A GPU without bfloat16 has fp16's rate: PyTorch's emulation was not measured. A GPU without fast fp16 converts to
        // fp32 and computes with that.
        let half = rates.bf16.or(rates.fp16).unwrap_or(single).max(single);
        let tensor = rates.tf32.unwrap_or(single);
        let mut scale = Scale {
            is_measured: false,
            memory: gpu.bandwidth.map_or(1.0, |bandwidth| BANDWIDTH / bandwidth.max(1.0)),
            cache: gpu.cache.map_or(1.0, |cache| (CACHE / cache).max(1.0)),
            products: [SINGLE / single, HALF / half],
            convolutions: [TENSOR / tensor, HALF / half],
            // Those without TF32 have more than twice the rate of fp32, which units outside them have at most.
            has_tensor_cores: [rates.tf32.is_some(), rates.tf32.is_some() || half > 2.5 * single],
            cores: SINGLE / single,
            clock: SINGLE / single / multiprocessors * (units(gpu) / UNITS),
            multiprocessors,
        };
        scale.is_measured = scale == Scale { is_measured: false, ..Scale::MEASURED };
        scale
    }

    /// The measured GPU.
    const MEASURED: Scale = Scale {
        is_measured: true,
        memory: 1.0,
        cache: 1.0,
        products: [1.0; 2],
        convolutions: [1.0; 2],
        has_tensor_cores: [true; 2],
        cores: 1.0,
        clock: 1.0,
        multiprocessors: 1.0,
    };

    /// Whether this is the measured GPU.
    pub fn is_measured(&self) -> bool {
        self.is_measured
    }

    /// The time of a kernel that moves memory. The time per element is that of the size which fills the same part of the
    /// H200's cache as the elements fill of the GPU's.
    pub fn memory_bound(&self, movement: Movement<'_>) -> f64 {
        let Movement { curve, elements, bytes, blocks } = movement;
        let time = curve.at(elements).max(curve.at(elements * self.cache) / self.cache);
        let min = curve.min().min(time);
        if self.is_measured {
            return min + (time - min) * self.memory;
        }
        let rest = time - min;
        let floor = bytes.map_or(rest, |bytes| rest.min(bytes / TRAFFIC));
        let available = MULTIPROCESSORS / self.multiprocessors;
        let busy = blocks.map_or(self.multiprocessors, |[here, measured]| {
            measured.min(MULTIPROCESSORS) / here.clamp(1.0, available)
        });
        min + floor * self.memory + (rest - floor) * self.clock * busy
    }

    /// The time of a kernel that computes, without its minimum, from its time for the same work on the H200.
    pub fn compute_bound(&self, time: f64, load: Load) -> f64 {
        if self.is_measured {
            return time;
        }
        let precision = usize::from(load.is_half);
        let (rate, factor) = match load.units {
            Units::Products => ([SINGLE, HALF][precision], self.products[precision]),
            Units::Convolutions => ([TENSOR, HALF][precision], self.convolutions[precision]),
            Units::Cores => (SINGLE, self.cores),
        };
        let arithmetic = time.min(load.operations / (rate * TERA));
        let traffic = time.min(load.bytes / TRAFFIC);
        let floor = (arithmetic * factor).max(traffic * self.memory);
        floor + (time - arithmetic.max(traffic)) * self.clock * self.multiprocessors
    }

    /// Whether convolutions gain from images with channels last, which only the kernels of tensor cores want.
    pub fn wants_channels_last(&self, is_half: bool) -> bool {
        self.has_tensor_cores[usize::from(is_half)]
    }

    /// Time factor of recurrent layers, which were measured without their traffic.
    pub fn recurrent_factor(&self, is_half: bool) -> f64 {
        self.convolutions[usize::from(is_half)]
    }

    /// A size of which the H200 gets as much per multiprocessor as this GPU gets of `size`, up to the largest measured one.
    pub fn filling(&self, size: f64, largest: impl FnOnce() -> f64) -> f64 {
        match self.is_measured {
            true => size * self.multiprocessors,
            false => (size * self.multiprocessors).min(largest()),
        }
    }
}

/// Floating-point units of a multiprocessor, from NVIDIA's programming guide.
fn units(gpu: &Gpu) -> f64 {
    match (gpu.compute.major, gpu.compute.minor) {
        (6, 0) | (7, _) | (8, 0) => 64.0,
        _ => 128.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramfit_catalogue::Catalogue;

    fn scale(name: &str) -> Scale {
        Scale::of(
            Catalogue::built_in().expect("the built-in table is valid").find(name).expect("the GPU is in the table"),
        )
    }

    fn product(operations: f64, bytes: f64) -> Load {
        Load { operations, units: Units::Products, is_half: true, bytes }
    }

    #[test]
    fn only_the_measured_gpu_has_the_measured_times() {
        assert_eq!(scale("H200"), Scale::MEASURED);
        for other in ["H100 SXM", "H200 NVL", "A100 SXM4 80GB", "RTX 3060"] {
            assert!(!scale(other).is_measured, "{other}");
        }
        assert_eq!(scale("H200").compute_bound(30.0, product(1e9, 1e6)).to_bits(), 30_f64.to_bits());
    }

    #[test]
    fn convolutions_want_channels_last_where_they_run_in_tensor_cores() {
        let wants = |name: &str| [false, true].map(|is_half| scale(name).wants_channels_last(is_half));
        assert_eq!(wants("GTX 1080 Ti"), [false, false]);
        assert_eq!(wants("GTX 1660"), [false, false]);
        assert_eq!(wants("T4"), [false, true]);
        assert_eq!(wants("V100 SXM2 16GB"), [false, true]);
        assert_eq!(wants("RTX 3060"), [true, true]);
    }

    #[test]
    fn data_that_fits_only_into_the_measured_cache_is_read_from_memory() {
        // Up to a million elements fit into the cache and are twice as fast.
        let curve = Curve::new([(1e3, 2.0), (1e6, 16.0), (1e7, 320.0), (1e8, 3200.0)]);
        let time = |gpu, elements| scale(gpu).memory_bound(Movement::of(&curve, elements));
        assert!((time("RTX 3060", 1e3) - 2.0).abs() < 1e-9);
        assert!((time("RTX 3060", 1e7) / time("RTX 3060", 1e6) - 10.0).abs() < 1.0);
        assert!(time("H200", 1e7) / time("H200", 1e6) > 19.0);
    }

    #[test]
    fn the_floor_scales_with_the_peak_rates_and_the_rest_with_cycles() {
        let (scale, time) = (scale("RTX 3060"), 100.0);
        let cycles = scale.clock * scale.multiprocessors;
        assert!((4.0..7.0).contains(&cycles), "{cycles}");
        // Nothing but arithmetic, nothing but traffic, neither of them.
        let arithmetic = scale.compute_bound(time, product(time * HALF * TERA, 0.0));
        assert!((arithmetic / time - HALF / 25.48).abs() < 1e-6);
        assert!((scale.compute_bound(time, product(0.0, time * TRAFFIC)) / time - scale.memory).abs() < 1e-6);
        assert!((scale.compute_bound(time, product(0.0, 0.0)) / time - cycles).abs() < 1e-6);
    }

    #[test]
    fn a_kernel_with_few_blocks_is_as_fast_on_a_gpu_with_fewer_multiprocessors_but_for_the_clock() {
        let curve = Curve::new([(1e3, 0.01), (1e8, 1000.0)]);
        let scale = scale("RTX 3090");
        let time = |blocks| {
            let blocks = Some([blocks, 64.0]);
            scale.memory_bound(Movement { bytes: Some(0.0), blocks, ..Movement::of(&curve, 1e8) })
        };
        assert!((time(64.0) / 1000.0 - scale.clock).abs() < 1e-3);
        assert!(time(128.0) < 0.8 * time(64.0) && (time(256.0) - time(128.0)).abs() < 1e-6);
    }

    #[test]
    fn half_precision_without_fast_arithmetic_is_computed_in_single_precision() {
        let pascal = scale("GTX 1080 Ti");
        assert!((pascal.products[1] - HALF / 11.34).abs() < 1e-6);
    }
}
