//! Reductions: when a sum is split over several blocks of threads, partial results need a buffer.
//!
//! PyTorch decides from the iteration's shape and the GPU's size how a reduction is split (`ATen/native/cuda/Reduce.cuh`).
//! Where one output is shared by several blocks of threads, a buffer for their partial results and one for their
//! semaphores are allocated, in that order, and freed when the kernel has been launched.

use smallvec::SmallVec;
use vramfit_graph::dtype::Dtype;

use super::accumulator::accumulator_dtype;
use vramfit_graph::layout::Layout;

/// The GPU's size, as far as launches depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Streaming multiprocessors.
    pub multiprocessors: i64,
    /// Threads each can hold.
    pub threads_per_multiprocessor: i64,
}

/// What a reduction kernel works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// Bytes of one partial result.
    pub partial_bytes: i64,
    /// How many elements a thread loads at once along the input.
    pub input_vector: i64,
    /// Most threads of a block.
    pub max_threads: i64,
}

impl Reduction {
    /// The largest or smallest element of this type: partial results are elements.
    pub fn comparing(dtype: Dtype) -> Reduction {
        Reduction { partial_bytes: dtype.bytes() as i64, input_vector: 4, max_threads: 512 }
    }

    /// A sum, of numbers of this type.
    pub fn summing(dtype: Dtype) -> Reduction {
        Reduction { partial_bytes: accumulator_dtype(dtype).bytes() as i64, input_vector: 4, max_threads: 512 }
    }
}

/// Bytes of the two buffers of a split reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Partial results.
    pub partials: u64,
    /// Semaphores.
    pub semaphores: u64,
}

/// A dimension of the iteration: its size, and bytes from one element to the next in input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dim {
    size: i64,
    input: i64,
    output: i64,
}

const WARP: i64 = 32;
const MIN_VALUES: i64 = 16;
const MAX_VALUES: i64 = 256;

/// The buffers that reducing `input` over `dims` needs, if any.
pub fn buffers(input: &Layout, dims: &[i64], reduction: Reduction, gpu: Gpu) -> Option<Buffers> {
    let element = input.dtype.bytes() as i64;
    let (iteration, reduced) = iteration(input, dims);
    let outputs: i64 = iteration[reduced..].iter().map(|dim| dim.size).product();
    let inputs: i64 = iteration[..reduced].iter().map(|dim| dim.size).product();
    if iteration.is_empty() || outputs == 0 || inputs == 0 {
        return None;
    }
    let along_input = reduced == iteration.len() || iteration[0].input < iteration[reduced].input;
    let (mut width, height, stride) =
        if along_input { (inputs, outputs, iteration[0].input) } else { (outputs, inputs, iteration[reduced].input) };
    let mut output_vector = 1;
    if stride == element {
        if along_input && width >= 128 && reduced == 1 {
            width /= reduction.input_vector;
        } else if !along_input {
            output_vector = vector_along_output(&iteration, reduced, element);
            width /= output_vector;
        }
    }
    let max_threads = reduction.max_threads / output_vector;
    let (block_width, block_height) = block(width, height, max_threads);
    let threads = block_width * block_height;
    let (mut step_input, mut step_output) = (1, 1);
    if along_input {
        step_input *= block_width;
    } else {
        step_output *= block_width;
    }
    let values = |step: i64| inputs.div_ceil_positive(step);
    let across_warps = values(step_input) >= (block_height * 16).min(MAX_VALUES);
    if across_warps {
        step_input *= block_height;
    } else {
        step_output *= block_height;
    }
    let grid = (outputs / output_vector).div_ceil_positive(step_output);
    let target = gpu.multiprocessors * (gpu.threads_per_multiprocessor / threads);
    if !across_warps || values(step_input) < MAX_VALUES || grid > target {
        return None;
    }
    let enough = target.div_ceil_positive(grid);
    let most = values(step_input).div_ceil_positive(MIN_VALUES);
    let least = values(step_input).div_ceil_positive(MAX_VALUES);
    let blocks = enough.min(most).max(least);
    if blocks <= 1 {
        return None;
    }
    let mut partials = reduction.partial_bytes * outputs * blocks;
    if !along_input {
        partials *= block_width * output_vector;
    }
    Some(Buffers { partials: partials.unsigned_abs(), semaphores: 4 * grid.unsigned_abs() })
}

/// The iteration over `input` as `TensorIterator` lays it out: reduced dimensions first, each group from the smallest
/// stride on, neighbours that form one run joined. And how many dimensions are reduced.
fn iteration(input: &Layout, dims: &[i64]) -> (SmallVec<[Dim; 4]>, usize) {
    let element = input.dtype.bytes() as i64;
    let is_reduced = |dim: usize| dims.contains(&(dim as i64));
    let mut output_stride = element;
    let mut all: SmallVec<[Dim; 4]> = SmallVec::new();
    for dim in (0..input.shape.len()).rev() {
        let size = input.shape[dim];
        let output = if is_reduced(dim) { 0 } else { output_stride };
        if !is_reduced(dim) {
            output_stride *= size;
        }
        all.push(Dim { size, input: input.strides[dim] * element, output: if size == 1 { 0 } else { output } });
    }
    let mut sorted: SmallVec<[Dim; 4]> = all.into_iter().filter(|dim| dim.size != 1).collect();
    sorted.sort_by_key(|dim| (dim.output != 0, dim.output, dim.input));
    let mut joined: SmallVec<[Dim; 4]> = SmallVec::new();
    for dim in sorted {
        match joined.last_mut() {
            Some(last)
                if (last.output == 0) == (dim.output == 0)
                    && last.input * last.size == dim.input
                    && last.output * last.size == dim.output =>
            {
                last.size *= dim.size;
            }
            _ => joined.push(dim),
        }
    }
    let reduced = joined.iter().filter(|dim| dim.output == 0).count();
    (joined, reduced)
}

/// How many outputs a thread loads at once: 4, 2 or 1, as the alignment of all dimensions allows.
fn vector_along_output(iteration: &[Dim], reduced: usize, element: i64) -> i64 {
    let mut vector = 4;
    let mut fit = |number: i64| {
        while number % vector != 0 {
            vector /= 2;
        }
    };
    fit(iteration[reduced].size);
    for (index, dim) in iteration.iter().enumerate() {
        if index != reduced {
            fit(dim.input / element);
        }
    }
    vector
}

/// The shape of a block of threads.
fn block(width: i64, height: i64, max_threads: i64) -> (i64, i64) {
    let power = |number: i64| if number < max_threads { last_power(number) } else { max_threads };
    let (wide, high) = (power(width), power(height));
    let block_height = high.min(max_threads / wide.min(WARP));
    (wide.min(max_threads / block_height), block_height)
}

fn last_power(number: i64) -> i64 {
    if number < 1 { 1 } else { 1 << number.ilog2() }
}

trait DivCeil {
    fn div_ceil_positive(self, other: Self) -> Self;
}

impl DivCeil for i64 {
    fn div_ceil_positive(self, other: i64) -> i64 {
        (self + other - 1) / other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vramfit_graph::dtype::Dtype;

    const H200: Gpu = Gpu { multiprocessors: 132, threads_per_multiprocessor: 2048 };
    const SUM: Reduction = Reduction { partial_bytes: 4, input_vector: 4, max_threads: 512 };

    #[test]
    fn a_small_sum_needs_no_buffer() {
        let layout = Layout::contiguous(Dtype::Float32, &[512, 2048]);
        assert_eq!(buffers(&layout, &[0], SUM, H200), None);
    }

    #[test]
    fn a_mean_over_two_million_elements_is_split_over_256_blocks() {
        // Recorded on an H200: mse_loss over 8,388,608 bytes of float32 allocates 1,024 and 4 bytes.
        let layout = Layout::contiguous(Dtype::Float32, &[2_097_152]);
        assert_eq!(buffers(&layout, &[0], SUM, H200), Some(Buffers { partials: 1024, semaphores: 4 }));
    }
}
