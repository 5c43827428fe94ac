//! Numbers of modules and tensors once there are more or fewer layers.

use super::regions::Regions;
use crate::config::order::Referrer;
use vramfit_graph::model::{Argument, Call, RecordedBackward, Step, TensorId};

/// Renumbers tensors.
#[derive(Clone)]
pub(super) struct Tensors<'a> {
    pub(super) parameters: Regions<'a>,
    pub(super) buffers: Regions<'a>,
    /// Those that the step makes, from 0 on.
    pub(super) made: Regions<'a>,
    pub(super) counts: [u32; 3],
    pub(super) new_counts: [u32; 3],
}

/// A tensor's number among those of its kind.
struct KindNumber<'a> {
    regions: &'a Regions<'a>,
    old: u32,
    shift: u32,
}

impl Tensors<'_> {
    fn within_kind(&self, TensorId(id): TensorId) -> Result<KindNumber<'_>, u32> {
        let [parameters, buffers, given] = self.counts;
        let [new_parameters, new_buffers, new_given] = self.new_counts;
        if id < parameters {
            Ok(KindNumber { regions: &self.parameters, old: id, shift: 0 })
        } else if id < parameters + buffers {
            Ok(KindNumber { regions: &self.buffers, old: id - parameters, shift: new_parameters })
        } else if id < given {
            Err(id - parameters - buffers + new_parameters + new_buffers)
        } else {
            Ok(KindNumber { regions: &self.made, old: id - given, shift: new_given })
        }
    }

    pub(super) fn one(&self, id: TensorId, referrer: Referrer) -> Option<TensorId> {
        match self.within_kind(id) {
            Ok(number) => Some(TensorId(number.regions.map(number.old, referrer)? + number.shift)),
            Err(new) => Some(TensorId(new)),
        }
    }

    /// Which of the template's layers it belongs to.
    pub(super) fn layer(&self, id: TensorId) -> Option<u32> {
        self.within_kind(id).ok().and_then(|number| number.regions.layer(number.old))
    }

    /// A list; where one from outside has something of all layers, it has as much of all there will be.
    pub(super) fn list(&self, ids: &[TensorId], referrer: Referrer) -> Option<Vec<TensorId>> {
        let is_of_all = matches!(referrer, Referrer::Outside) && ids.iter().any(|id| self.layer(*id) == Some(0));
        if !is_of_all {
            return ids.iter().map(|id| self.one(*id, referrer)).collect();
        }
        let runs: Vec<&[TensorId]> = ids.chunk_by(|one, next| self.layer(*one) == self.layer(*next)).collect();
        let layers: Vec<Option<u32>> = runs.iter().map(|run| self.layer(run[0])).collect();
        let count = self.made.order().count();
        let mut made = Vec::new();
        let mut at = 0;
        while at < runs.len() {
            let Some(layer) = layers[at] else {
                for id in runs[at] {
                    made.push(self.one(*id, referrer)?);
                }
                at += 1;
                continue;
            };
            let all = layers.get(at..at + count as usize).unwrap_or_default();
            if !all.is_empty() && all.iter().copied().eq((0..count).map(Some)) {
                for (number, source) in self.made.order().layers() {
                    self.add_run(runs[at + source as usize], number, &mut made)?;
                }
                at += count as usize;
            } else if !all.is_empty() && all.iter().copied().eq((0..count).rev().map(Some)) {
                let numbered: Vec<(u32, u32)> = self.made.order().layers().collect();
                for (number, source) in numbered.into_iter().rev() {
                    self.add_run(runs[at + (count - 1 - source) as usize], number, &mut made)?;
                }
                at += count as usize;
            } else {
                let mut numbers = self.made.order().made_from(layer);
                let is_after =
                    |other: Option<&Option<u32>>| other.copied().flatten().is_some_and(|other| other > layer);
                let is_before =
                    |other: Option<&Option<u32>>| other.copied().flatten().is_some_and(|other| other < layer);
                if (at > 0 && is_after(layers.get(at - 1))) || is_before(layers.get(at + 1)) {
                    numbers.reverse();
                }
                for number in numbers {
                    self.add_run(runs[at], number, &mut made)?;
                }
                at += 1;
            }
        }
        Some(made)
    }

    /// Adds what a layer has of a template's.
    fn add_run(&self, run: &[TensorId], number: u32, made: &mut Vec<TensorId>) -> Option<()> {
        for id in run {
            let tensor = self.within_kind(*id).ok()?;
            made.push(TensorId(tensor.regions.in_layer(tensor.old, number)? + tensor.shift));
        }
        Some(())
    }

    fn maybe(&self, ids: &[Option<TensorId>], referrer: Referrer) -> Option<Vec<Option<TensorId>>> {
        ids.iter().map(|id| id.map_or(Some(None), |id| self.one(id, referrer).map(Some))).collect()
    }

    fn argument(&self, argument: &Argument, referrer: Referrer) -> Option<Argument> {
        Some(match argument {
            Argument::Tensor(id) => Argument::Tensor(self.one(*id, referrer)?),
            Argument::List(items) => {
                Argument::List(items.iter().map(|item| self.argument(item, referrer)).collect::<Option<_>>()?)
            }
            other => other.clone(),
        })
    }

    pub(super) fn step(&self, step: &Step, modules: &Regions<'_>, referrer: Referrer) -> Option<Step> {
        let list = |ids: &[TensorId]| self.list(ids, referrer);
        Some(match step {
            Step::Call(call) => Step::Call(Call {
                arguments: call
                    .arguments
                    .iter()
                    .map(|argument| self.argument(argument, referrer))
                    .collect::<Option<_>>()?,
                results: self.maybe(&call.results, referrer)?,
                ..call.clone()
            }),
            Step::Free(ids) => Step::Free(list(ids)?),
            Step::Enter(module, ids) => Step::Enter(modules.map(*module, referrer)?, list(ids)?),
            Step::Exit(module, ids) => Step::Exit(modules.map(*module, referrer)?, list(ids)?),
            Step::Grad(_) | Step::Autocast { .. } | Step::EndAutocast | Step::Loss | Step::EndLoss => step.clone(),
            Step::Function { name, arguments } => Step::Function { name: name.clone(), arguments: list(arguments)? },
            Step::EndFunction { results, saved } => Step::EndFunction { results: list(results)?, saved: list(saved)? },
            Step::Checkpoint { .. } | Step::EndCheckpoint(_) => return None,
        })
    }

    /// The backward of a custom function whose forward now ends at step `end`.
    pub(super) fn backward(
        &self,
        function: &RecordedBackward,
        end: u32,
        modules: &Regions<'_>,
        referrer: Referrer,
    ) -> Option<RecordedBackward> {
        let list = |ids: &[TensorId]| self.list(ids, referrer);
        Some(RecordedBackward {
            end: end as usize,
            arguments: match &function.arguments {
                Some(arguments) => Some(list(arguments)?),
                None => None,
            },
            kept: list(&function.kept)?,
            gradients: self.maybe(&function.gradients, referrer)?,
            results: self.maybe(&function.results, referrer)?,
            steps: function.steps.iter().map(|step| self.step(step, modules, referrer)).collect::<Option<_>>()?,
        })
    }
}
