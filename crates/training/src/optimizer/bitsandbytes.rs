//! The optimizers of bitsandbytes: states of 8 bits in blocks, each with a scale, and states in managed memory.
//!
//! `Optimizer8bit.step` goes weight by weight. Its kernels allocate nothing. Contiguous weights and gradients stay where
//! they are; others are not modelled.

use std::cell::OnceCell;

use smallvec::SmallVec;

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Storage;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::layout::Layout;

use super::{Algorithm, Quantized, Route, State, Work};

/// Smaller weights have states of 32 bits (`min_8bit_size`).
const LEAST_ELEMENTS_OF_8_BITS: i64 = 4096;
/// Smaller states are never in managed memory.
const LEAST_ELEMENTS_OF_PAGES: i64 = 100_000;
/// Elements that share a scale.
const BLOCK: i64 = 256;
/// Entries of a table of the values that 8 bits stand for.
const VALUES: u64 = 256;

pub struct Blockwise {
    quantized: Quantized,
    /// The tables of values (`name2qmap`), one for each state, moved to the GPU for the first weight that needs them.
    tables: OnceCell<SmallVec<[Storage; 2]>>,
}

impl Blockwise {
    pub fn new(quantized: Quantized) -> Blockwise {
        Blockwise { quantized, tables: OnceCell::new() }
    }

    fn has_8_bits(&self, elements: i64) -> bool {
        self.quantized.has_8_bits && elements >= LEAST_ELEMENTS_OF_8_BITS
    }

    fn is_paged(&self, elements: i64) -> bool {
        self.quantized.is_paged && elements >= LEAST_ELEMENTS_OF_PAGES
    }

    /// Bytes of one state of a weight.
    fn state_bytes(&self, elements: i64) -> u64 {
        let each = if self.has_8_bits(elements) { 1 } else { Dtype::Float32.bytes() };
        elements.cast_unsigned() * each
    }
}

impl Algorithm for Blockwise {
    fn make_state(&self, context: &mut Context, tensor: &Tensor, _gradient: &Layout) -> State {
        let elements = tensor.layout().elements();
        let states = self.quantized.states;
        let has_8_bits = self.has_8_bits(elements);
        let float = Dtype::Float32.bytes();
        if has_8_bits {
            self.tables.get_or_init(|| (0..states).map(|_| context.storage(VALUES * float)).collect());
        }
        let mut state = State::new();
        if !self.is_paged(elements) {
            state.extend((0..states).map(|_| context.storage(self.state_bytes(elements))));
        }
        if has_8_bits {
            let blocks = ((elements + BLOCK - 1) / BLOCK).cast_unsigned();
            state.extend((0..states).map(|_| context.storage(blocks * float)));
        }
        state
    }

    fn step(&self, _context: &mut Context, _route: Route, _work: &mut Work<'_>) {}

    fn shared(&self) -> &[Storage] {
        self.tables.get().map_or(&[], |tables| tables)
    }

    fn managed_bytes(&self, weight: &Layout) -> u64 {
        let elements = weight.elements();
        if self.is_paged(elements) { self.quantized.states as u64 * self.state_bytes(elements) } else { 0 }
    }
}
