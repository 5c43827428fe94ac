//! Forward passes: each call of the model, what it leaves behind, and whether a backward pass follows it.

use std::collections::HashMap;

use super::{Evidence, median};
use crate::history::OUTSIDE;
use crate::origin::{Activity, InnerId, SiteId};

/// One call of a model.
#[derive(Clone, Debug)]
pub struct Pass {
    /// Where it was called.
    pub site: SiteId,
    /// The allocations it made, counted among those made by events.
    pub births: std::ops::Range<u32>,
    /// How many backward passes came before it.
    pub stretch: usize,
    /// The allocations still held when the program went on to something else, by number.
    pub left: Vec<u32>,
    /// Whether a backward pass freed them.
    pub is_trained: bool,
}

/// All calls of models. The one in which the recording ends leaves nothing behind: what it would have left is unknown.
pub fn passes(evidence: &Evidence<'_>) -> Vec<Pass> {
    let history = evidence.history;
    let mut passes = Vec::new();
    let mut stretch = 0;
    for span in &evidence.phases.spans {
        stretch += usize::from(span.activity == Activity::Backward);
        if span.activity != Activity::Forward {
            continue;
        }
        let (mut left, mut bytes, mut trained_bytes) = (Vec::new(), 0u64, 0u64);
        for birth in span.first..span.end {
            let index = history.earlier + birth as usize;
            let lifetime = &history.lifetimes[index];
            if lifetime.death >= span.end_event && span.end_event != OUTSIDE {
                left.push(crate::history::number(index));
                bytes += lifetime.size;
                if evidence.phases.is_backward_at(lifetime.death) {
                    trained_bytes += lifetime.size;
                }
            }
        }
        let is_trained = bytes > 0 && trained_bytes * 2 >= bytes;
        passes.push(Pass { site: span.site, births: span.first..span.end, stretch, left, is_trained });
    }
    passes
}

/// Which of the passes are not followed by a backward pass, by where and how often they come: a training step's passes
/// come once, or equally often, before every backward pass; an evaluation's before few of them, and many times.
pub fn evaluations(passes: &[Pass], stretches: usize) -> Vec<bool> {
    let mut counts: HashMap<(SiteId, usize), u64> = HashMap::new();
    for pass in passes {
        *counts.entry((pass.site, pass.stretch)).or_default() += 1;
    }
    let mut by_site: HashMap<SiteId, Vec<u64>> = HashMap::new();
    for (&(site, _), &count) in &counts {
        by_site.entry(site).or_default().push(count);
    }
    let typical: HashMap<SiteId, (usize, u64)> =
        by_site.into_iter().map(|(site, counts)| (site, (counts.len(), median(counts)))).collect();
    let judge = |pass: &Pass| {
        let (present, median) = typical[&pass.site];
        let count = counts[&(pass.site, pass.stretch)];
        let is_rare = present * 2 < stretches;
        let is_loop = count >= 3 && (count > median || median >= 3);
        !pass.is_trained && (is_rare || is_loop)
    };
    passes.iter().map(judge).collect()
}

/// How often a layer's result outlives the pass in training, as a tensor saved for the backward pass does.
pub struct Saved(HashMap<InnerId, (u64, u64)>);

impl Saved {
    /// Counts over the passes that are not evaluations.
    pub fn learn(evidence: &Evidence<'_>, passes: &[Pass], is_evaluation: &[bool]) -> Saved {
        let mut counts: HashMap<InnerId, (u64, u64)> = HashMap::new();
        for (pass, _) in passes.iter().zip(is_evaluation).filter(|&(_, &is_evaluation)| !is_evaluation) {
            for birth in pass.births.clone() {
                counts.entry(inner(evidence, birth)).or_default().1 += 1;
            }
            for &index in &pass.left {
                let birth = index - crate::history::number(evidence.history.earlier);
                counts.entry(inner(evidence, birth)).or_default().0 += 1;
            }
        }
        Saved(counts)
    }

    /// The share of what is made there that training leaves behind; `None` if no training pass gets there.
    pub fn share(&self, inner: InnerId) -> Option<f64> {
        self.0.get(&inner).map(|&(left, made)| left as f64 / made as f64)
    }
}

/// The frames of an allocation inside the model's call.
pub fn inner(evidence: &Evidence<'_>, birth: u32) -> InnerId {
    evidence.origins.get(evidence.history.births()[birth as usize].stack).inner
}
