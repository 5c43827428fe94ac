//! Which products of four-bit weights run as one kernel: bitsandbytes' own choice, by the GPU and the sizes.

use vramfit_catalogue::ComputeCapability;
use vramfit_graph::dtype::Dtype;

/// Up to so many samples the one kernel is always taken, and above so many never.
const ALWAYS: i64 = 4;
const NEVER_ABOVE: i64 = 1536;
/// Elements below which a weight counts as small, and the columns that one thread block computes.
const SMALL_WEIGHT: i64 = 4 << 20;
const TILE: i64 = 64;
/// The most samples of a weight that is not small, and those from which tensor cores are used.
const MOST_OF_LARGE: i64 = 512;
const TENSOR_CORES_FROM: i64 = 8;

/// A product of `samples` rows with a weight of `rows` times `inner`.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// The type of the samples.
    pub dtype: Dtype,
    /// How many rows the input has.
    pub samples: i64,
    /// The weight's rows: the outputs.
    pub rows: i64,
    /// The weight's columns: the inputs.
    pub inner: i64,
    /// How many elements share a scale.
    pub block: i64,
}

impl Product {
    /// Whether one kernel unpacks and multiplies.
    pub fn is_fused(self, compute: ComputeCapability, multiprocessors: i64) -> bool {
        if self.samples > NEVER_ABOVE || self.inner % self.block != 0 {
            return false;
        }
        self.samples <= ALWAYS || self.samples <= self.most(Gpu { compute, multiprocessors })
    }

    /// The most samples for which the kernel is taken; 0 for none of these.
    fn most(self, gpu: Gpu) -> i64 {
        let (major, minor) = (gpu.compute.major, gpu.compute.minor);
        let has_tensor_cores = match (major, minor) {
            _ if self.dtype == Dtype::Float32 => false,
            (..=6, _) => false,
            (7, 5..) => self.dtype == Dtype::Float16,
            (7, _) => false,
            _ => true,
        };
        if !has_tensor_cores {
            return TENSOR_CORES_FROM - 1;
        }
        match (major, minor) {
            (8, 7) | (11, _) => return 0,
            (10, _) => return self.most_on_blackwell_servers(gpu),
            _ => {}
        }
        if self.rows * self.inner < SMALL_WEIGHT {
            return self.most_of_small(gpu);
        }
        if self.samples > MOST_OF_LARGE {
            return 0;
        }
        if self.samples < TENSOR_CORES_FROM {
            return if self.is_slower_for_few(gpu) { 0 } else { self.samples };
        }
        match (major, minor) {
            (7, 5) => self.most_on_turing(gpu),
            (8, 0) => self.most_on_a100(gpu),
            (8, 6) => {
                if gpu.has_waves(self, 1) {
                    128
                } else if self.blocks() >= gpu.multiprocessors / 2 {
                    64
                } else {
                    16
                }
            }
            (9, _) => self.most_on_hopper(gpu),
            (12, 1) if gpu.has_waves(self, 1) => 256,
            (12, 0) => self.most_on_blackwell(gpu),
            _ => self.most_on_others(gpu),
        }
    }

    /// Thread blocks of the kernel.
    fn blocks(self) -> i64 {
        (self.rows + TILE - 1) / TILE
    }

    fn most_on_blackwell_servers(self, gpu: Gpu) -> i64 {
        if gpu.has_waves(self, 3) {
            32
        } else if gpu.has_waves(self, 1) && self.inner < self.rows {
            8
        } else {
            0
        }
    }

    fn most_of_small(self, gpu: Gpu) -> i64 {
        let (blocks, sms) = (self.blocks(), gpu.multiprocessors);
        if self.inner * 2 < self.rows {
            return match gpu.kind() {
                Kind::A100 => either(blocks * 3 < sms, 1536, 512),
                Kind::Hopper => either(blocks * 3 < sms, 512, 320),
                Kind::Turing if gpu.has_waves(self, 3) => 320,
                Kind::Turing if self.inner >= 1024 => 64,
                Kind::Turing if self.inner >= 704 => 96,
                Kind::Turing => 320,
                _ if blocks >= sms => 320,
                _ if blocks * self.inner > sms * 320 => 192,
                _ => 320,
            };
        }
        let is_quarter = blocks * 4 <= sms;
        match gpu.kind() {
            Kind::A100 if is_quarter && self.inner >= self.rows => either(blocks * 8 <= sms, 32, 128),
            Kind::A100 if is_quarter => 384,
            Kind::Turing if blocks < sms && self.samples > TENSOR_CORES_FROM => 64,
            kind if is_quarter => either(self.inner < self.rows || kind.has_hbm(), 32, 23),
            _ if blocks * 2 <= sms => 16,
            _ => 0,
        }
    }

    /// Whether five to seven samples are quicker with the weight unpacked.
    fn is_slower_for_few(self, gpu: Gpu) -> bool {
        let kind = gpu.kind();
        let least = if kind == Kind::Hopper { 36 } else { 48 };
        if !kind.has_hbm() || self.samples < 6 || self.blocks() < least {
            return false;
        }
        let is_below_three_quarters = self.blocks() * 4 < gpu.multiprocessors * 3;
        let is_below_three_fifths = self.blocks() * 5 < gpu.multiprocessors * 3;
        if self.inner > self.rows {
            return is_below_three_quarters;
        }
        self.inner == self.rows
            && match kind {
                Kind::A100 => is_below_three_fifths,
                _ => is_below_three_quarters && !is_below_three_fifths,
            }
    }

    fn most_on_turing(self, gpu: Gpu) -> i64 {
        if gpu.has_waves(self, 3) {
            if self.inner < self.rows { 128 } else { 64 }
        } else if self.blocks() >= gpu.multiprocessors / 2 {
            64
        } else {
            32
        }
    }

    fn most_on_a100(self, gpu: Gpu) -> i64 {
        let (blocks, sms) = (self.blocks(), gpu.multiprocessors);
        if gpu.has_waves(self, 3) {
            return 128;
        }
        if blocks >= sms {
            return if self.inner < self.rows { 64 } else { 32 };
        }
        if self.inner >= self.rows * 3 && blocks * 4 > sms {
            return 0;
        }
        if self.inner == self.rows && blocks >= 48 && blocks * 5 < sms * 3 {
            return 0;
        }
        if blocks * 2 < sms {
            if self.inner <= self.rows {
                return 128;
            }
            if blocks * 3 >= sms {
                return 0;
            }
        }
        if blocks >= sms / 2 && self.inner < self.rows { 128 } else { 16 }
    }

    fn most_on_hopper(self, gpu: Gpu) -> i64 {
        let (blocks, sms) = (self.blocks(), gpu.multiprocessors);
        match blocks {
            _ if blocks >= sms * 3 => 64,
            _ if blocks >= sms * 2 => 48,
            _ if blocks >= sms => 32,
            _ if blocks < sms / 2 => 0,
            _ if self.inner >= self.rows && blocks * 4 < sms * 3 => 0,
            _ => 16,
        }
    }

    fn most_on_blackwell(self, gpu: Gpu) -> i64 {
        let (blocks, sms) = (self.blocks(), gpu.multiprocessors);
        let is_tall = self.inner > self.rows * 2;
        match blocks {
            _ if blocks >= sms * 3 => 256,
            _ if blocks >= sms * 2 => 128,
            _ if blocks * 5 >= sms * 4 => either(self.inner >= self.rows, 96, 64),
            _ if blocks >= sms / 2 => either(self.inner * 2 >= self.rows && blocks >= 128, 64, 8),
            _ if is_tall && blocks > 64 => 16,
            _ => 8,
        }
    }

    /// Ada, and what is not known by name.
    fn most_on_others(self, gpu: Gpu) -> i64 {
        let (blocks, sms) = (self.blocks(), gpu.multiprocessors);
        let is_tall = self.inner > self.rows * 2;
        match blocks {
            _ if blocks >= sms * 3 => 256,
            _ if blocks >= sms * 2 => 128,
            _ if blocks * 5 >= sms * 4 && (is_tall || blocks >= 200) => 128,
            _ if blocks * 5 >= sms * 4 && self.inner >= self.rows => either(sms >= 60, 128, 32),
            _ if blocks * 5 >= sms * 4 => 64,
            _ if blocks >= sms / 2 && is_tall => 64,
            _ if blocks >= sms / 2 => either(blocks >= 64, 8, 32),
            _ if self.inner > self.rows && blocks <= 48 => either(self.inner >= self.rows * 3, 12, 10),
            _ => either(is_tall || blocks < 48, 16, 8),
        }
    }
}

fn either(is_first: bool, first: i64, second: i64) -> i64 {
    if is_first { first } else { second }
}

/// The GPU, as far as the choice depends on it.
#[derive(Clone, Copy)]
struct Gpu {
    compute: ComputeCapability,
    multiprocessors: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Turing,
    A100,
    Hopper,
    Other,
}

impl Kind {
    /// Whether its memory is stacked on the chip.
    fn has_hbm(self) -> bool {
        matches!(self, Kind::A100 | Kind::Hopper)
    }
}

impl Gpu {
    fn kind(self) -> Kind {
        match (self.compute.major, self.compute.minor) {
            (7, 5) => Kind::Turing,
            (8, 0) => Kind::A100,
            (9, _) => Kind::Hopper,
            _ => Kind::Other,
        }
    }

    /// Whether the kernel has at least so many thread blocks for each multiprocessor.
    fn has_waves(self, product: Product, waves: i64) -> bool {
        product.blocks() >= self.multiprocessors * waves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_fused(compute: (u8, u8), multiprocessors: i64, samples: i64, weight: (i64, i64)) -> bool {
        let product = Product { dtype: Dtype::Bfloat16, samples, rows: weight.0, inner: weight.1, block: 64 };
        product.is_fused(ComputeCapability::new(compute.0, compute.1), multiprocessors)
    }

    #[test]
    fn few_samples_run_as_one_kernel_and_many_do_not() {
        for (compute, multiprocessors) in [((8, 6), 28), ((8, 9), 128), ((9, 0), 132)] {
            assert!(is_fused(compute, multiprocessors, 4, (4096, 4096)));
            assert!(!is_fused(compute, multiprocessors, 2048, (4096, 4096)));
        }
    }

    #[test]
    fn a_weight_whose_rows_are_no_whole_blocks_is_unpacked() {
        assert!(!is_fused((8, 6), 28, 2, (4096, 100)));
    }

    #[test]
    fn gpus_with_fast_memory_unpack_sooner() {
        assert!(is_fused((8, 6), 28, 128, (4096, 4096)));
        assert!(!is_fused((9, 0), 132, 128, (4096, 4096)));
    }

    #[test]
    fn single_precision_has_no_kernel_for_many_samples() {
        let product = Product { dtype: Dtype::Float32, samples: 8, rows: 4096, inner: 4096, block: 64 };
        assert!(!product.is_fused(ComputeCapability::new(8, 9), 128));
    }
}
