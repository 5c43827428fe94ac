//! Workspaces of common layers on GPUs that were not there: what cuDNN answers for each compute capability.
//!
//! `validation/workspace_grid/pack_capabilities.py` makes the table and describes its layout.

use smallvec::SmallVec;

use super::blocks::Blocks;
use super::layer_key;
use super::lines;
use super::numbers::Numbers;
use super::problem::{ConvolutionPass, ConvolutionProblem};
use crate::TableError;

const PASSES: usize = 3;

/// The layers of the table. The payload may be damaged: lookups then find nothing, or wrong bytes, but do not panic.
#[derive(Debug)]
pub(super) struct LayersByCapability<'t> {
    capabilities: SmallVec<[(u8, u8); 8]>,
    batches: SmallVec<[i64; 64]>,
    layers: Blocks<'t>,
}

impl<'t> LayersByCapability<'t> {
    pub fn read(payload: &'t [u8]) -> Result<LayersByCapability<'t>, TableError> {
        LayersByCapability::parse(payload).ok_or(TableError::Malformed)
    }

    fn parse(payload: &'t [u8]) -> Option<LayersByCapability<'t>> {
        let mut head = Numbers(payload);
        let mut capabilities = SmallVec::new();
        for _ in 0..head.next()? {
            capabilities.push((u8::try_from(head.next()?).ok()?, u8::try_from(head.next()?).ok()?));
        }
        let mut batches = SmallVec::new();
        for _ in 0..head.next()? {
            batches.push(i64::try_from(head.next()?).ok()?);
        }
        Some(LayersByCapability { capabilities, batches, layers: Blocks::read(&mut head)? })
    }

    /// Bytes of the workspace, if cuDNN was asked about this layer at this batch size for this compute capability.
    pub fn workspace(&self, problem: &ConvolutionProblem, capability: (u8, u8)) -> Option<u64> {
        let batch = self.batches.binary_search(problem.image.first()?).ok()?;
        let capability = self.capabilities.iter().position(|&known| known == capability)?;
        let mut layer = self.layers.find(&layer_key::of(problem)?)?;
        let mut lengths: SmallVec<[usize; PASSES * 8]> = SmallVec::new();
        for _ in 0..layer.next()? {
            lengths.push(layer.next_length()?);
        }
        let pass = match problem.pass {
            ConvolutionPass::Forward => 0,
            ConvolutionPass::InputGradient => 1,
            ConvolutionPass::WeightGradient => 2,
        };
        let sum = |lengths: &[usize]| lengths.iter().try_fold(0_usize, |sum, &length| sum.checked_add(length));
        let chosen = *layer.0.get(sum(&lengths)?..)?.get(PASSES * capability + pass)?;
        let skipped = sum(lengths.get(..usize::from(chosen).checked_sub(1)?)?)?;
        lines::bytes_at(Numbers(layer.0.get(skipped..)?), batch as u64, self.batches[batch])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convolution::blocks::tests::block;
    use crate::convolution::problem::tests::square;

    /// One pointwise layer from 1 to 2 channels: for 7.5 it has no plan, for 8.6 ten bytes a batch and 2 more, or 4, 5 and 7.
    fn payload() -> Vec<u8> {
        let key = [16, 1, 2, 1, 5, 5, 1, 1, 1, 1, 0, 0, 1, 1];
        let series = [&[5, 6][..], &[1, 20, 4, 1, 3], &[0, 0, 3, 8, 10, 14]];
        let rest = [&[2], &series.concat()[..], &[0, 0, 0, 1, 2, 1]].concat();
        [&[2, 7, 5, 8, 6, 3, 1, 2, 8], &block(&[(&key, &rest)])[..]].concat()
    }

    fn all(layers: &LayersByCapability<'_>, capability: (u8, u8)) -> Vec<Option<u64>> {
        let passes = [ConvolutionPass::Forward, ConvolutionPass::InputGradient, ConvolutionPass::WeightGradient];
        let at = |pass, batch| {
            let mut problem = ConvolutionProblem { pass, ..square([1, 2], 5, 1, 1, 0) };
            (problem.image[0], problem.result[0]) = (batch, batch);
            layers.workspace(&problem, capability)
        };
        passes.into_iter().flat_map(|pass| [1, 2, 3, 8].map(|batch| at(pass, batch))).collect()
    }

    #[test]
    fn a_layer_has_its_bytes_for_the_capabilities_and_batches_that_were_asked() {
        let payload = payload();
        let layers = LayersByCapability::read(&payload).unwrap();
        let line = [Some(12), Some(22), None, Some(82)];
        let expected = [line, [Some(4), Some(5), None, Some(7)], line].concat();
        assert_eq!(all(&layers, (8, 6)), expected);
        assert_eq!((all(&layers, (7, 5)), all(&layers, (8, 9))), (vec![None; 12], vec![None; 12]));
    }

    #[test]
    fn damaged_payloads_are_refused_or_answered_without_a_panic() {
        let payload = payload();
        for length in 0..payload.len() {
            assert_eq!(LayersByCapability::read(&payload[..length]).err(), Some(TableError::Malformed), "{length}");
        }
        for (index, byte) in (0..payload.len()).flat_map(|index| (0..=255).map(move |byte| (index, byte))) {
            let mut damaged = payload.clone();
            damaged[index] = byte;
            if let Ok(layers) = LayersByCapability::read(&damaged) {
                all(&layers, (8, 6));
            }
        }
    }
}
