//! A hash map with convolutions as keys.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::problem::ConvolutionProblem;

/// Hashes what differs between the convolutions of a model; the rest is only compared.
impl Hash for ConvolutionProblem {
    fn hash<State: Hasher>(&self, state: &mut State) {
        state.write_u64(self.pass as u64);
        for &size in self.image.iter().chain(&self.weight) {
            state.write_i64(size);
        }
    }
}

/// Values by convolution.
pub(super) type ProblemMap<T> = HashMap<ConvolutionProblem, T, BuildHasherDefault<Mixer>>;

/// A fast hash that does not resist attacks: shapes come from a model.
#[derive(Debug, Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number.cast_unsigned());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}
