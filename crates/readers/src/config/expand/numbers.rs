//! Numbers of modules and tensors once there are more or fewer layers.

use vramfit_graph::model::{Argument, Call, Step, TensorId};

/// What is being renumbered: where the three layers begin in a list, and where the last one ends.
#[derive(Clone, Copy)]
pub(super) struct Regions {
    pub(super) bounds: [u32; 4],
    /// How many layers there will be.
    pub(super) layers: u32,
}

/// What refers to a number.
#[derive(Clone, Copy)]
pub(super) enum Referrer {
    /// What comes before the first layer or after the last one.
    Outside,
    /// A layer, made from one of the three.
    Layer { number: u32, source: u32 },
}

impl Regions {
    pub(super) fn size(self) -> u32 {
        self.bounds[1] - self.bounds[0]
    }

    /// Where the last layer ends now.
    pub(super) fn end(self) -> u32 {
        self.bounds[0] + (self.layers - 1) * self.size() + (self.bounds[3] - self.bounds[2])
    }

    /// Which of the three it is in.
    pub(super) fn layer(self, old: u32) -> Option<u32> {
        (0..3).find(|layer| (self.bounds[*layer as usize]..self.bounds[*layer as usize + 1]).contains(&old))
    }

    /// The number that `old` has now, if this refers to it.
    pub(super) fn map(self, old: u32, referrer: Referrer) -> Option<u32> {
        if old < self.bounds[0] {
            return Some(old);
        }
        let Some(layer) = self.layer(old) else {
            return Some(old - self.bounds[3] + self.end());
        };
        let number = match referrer {
            Referrer::Outside if layer == 0 => 0,
            // What follows the last layer may free what the one before has made.
            Referrer::Outside => (self.layers + layer).checked_sub(3)?,
            Referrer::Layer { number, source } if layer == source => number,
            Referrer::Layer { number, source } if layer + 1 == source => number.checked_sub(1)?,
            Referrer::Layer { .. } => return None,
        };
        Some(self.in_layer(old, layer, number))
    }

    /// The number of what is in one of the three, in layer `number` of those there will be.
    pub(super) fn in_layer(self, old: u32, layer: u32, number: u32) -> u32 {
        self.bounds[0] + number * self.size() + (old - self.bounds[layer as usize])
    }

    /// Whether all layers have one size; the last one may have another, because what precedes a layer in the loop counts as
    /// part of the layer before.
    pub(super) fn is_even(self) -> bool {
        let [first, second, third, end] = self.bounds;
        first <= second && third.checked_sub(second) == Some(second - first) && third <= end
    }
}

/// What is made for each new layer: its number, and which of the three it comes from.
pub(super) fn sources(layers: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..layers).map(move |number| {
        (
            number,
            if number == 0 {
                0
            } else if number == layers - 1 {
                2
            } else {
                1
            },
        )
    })
}

/// Renumbers tensors.
pub(super) struct Tensors {
    pub(super) parameters: Regions,
    pub(super) buffers: Regions,
    /// Those that the step makes, from 0 on.
    pub(super) made: Regions,
    pub(super) counts: [u32; 3],
    pub(super) new_counts: [u32; 3],
}

/// A tensor's number among those of its kind.
struct KindNumber {
    regions: Regions,
    old: u32,
    shift: u32,
}

impl Tensors {
    fn within_kind(&self, TensorId(id): TensorId) -> Result<KindNumber, u32> {
        let [parameters, buffers, given] = self.counts;
        let [new_parameters, new_buffers, new_given] = self.new_counts;
        if id < parameters {
            Ok(KindNumber { regions: self.parameters, old: id, shift: 0 })
        } else if id < parameters + buffers {
            Ok(KindNumber { regions: self.buffers, old: id - parameters, shift: new_parameters })
        } else if id < given {
            Err(id - parameters - buffers + new_parameters + new_buffers)
        } else {
            Ok(KindNumber { regions: self.made, old: id - given, shift: new_given })
        }
    }

    pub(super) fn one(&self, id: TensorId, referrer: Referrer) -> Option<TensorId> {
        match self.within_kind(id) {
            Ok(number) => Some(TensorId(number.regions.map(number.old, referrer)? + number.shift)),
            Err(new) => Some(TensorId(new)),
        }
    }

    /// Which of the three layers it belongs to.
    pub(super) fn layer(&self, id: TensorId) -> Option<u32> {
        self.within_kind(id).ok().and_then(|number| number.regions.layer(number.old))
    }

    /// A list; where one from outside has something of all layers, the middle one's part of it is repeated.
    pub(super) fn list(&self, ids: &[TensorId], referrer: Referrer) -> Option<Vec<TensorId>> {
        let is_of_all = matches!(referrer, Referrer::Outside) && ids.iter().any(|id| self.layer(*id) == Some(0));
        if !is_of_all {
            return ids.iter().map(|id| self.one(*id, referrer)).collect();
        }
        let mut made = Vec::new();
        let mut at = 0;
        while at < ids.len() {
            let layer = self.layer(ids[at]);
            let length = ids[at..].iter().take_while(|id| self.layer(**id) == layer).count();
            let run = &ids[at..at + length];
            if layer != Some(1) {
                for id in run {
                    made.push(self.one(*id, referrer)?);
                }
            } else {
                let next = ids.get(at + length).and_then(|id| self.layer(*id));
                let is_backwards = (at > 0 && self.layer(ids[at - 1]) == Some(2)) || next == Some(0);
                let repeated = sources(self.made.layers).filter(|(_, source)| *source == 1);
                let mut numbers: Vec<u32> = repeated.map(|(number, _)| number).collect();
                if is_backwards {
                    numbers.reverse();
                }
                for number in numbers {
                    for id in run {
                        let tensor = self.within_kind(*id).ok()?;
                        made.push(TensorId(tensor.regions.in_layer(tensor.old, 1, number) + tensor.shift));
                    }
                }
            }
            at += length;
        }
        Some(made)
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

    pub(super) fn step(&self, step: &Step, modules: Regions, referrer: Referrer) -> Option<Step> {
        let list = |ids: &[TensorId]| self.list(ids, referrer);
        Some(match step {
            Step::Call(call) => Step::Call(Call {
                arguments: call
                    .arguments
                    .iter()
                    .map(|argument| self.argument(argument, referrer))
                    .collect::<Option<_>>()?,
                results: call
                    .results
                    .iter()
                    .map(|result| result.map_or(Some(None), |id| self.one(id, referrer).map(Some)))
                    .collect::<Option<_>>()?,
                ..call.clone()
            }),
            Step::Free(ids) => Step::Free(list(ids)?),
            Step::Enter(module, ids) => Step::Enter(modules.map(*module, referrer)?, list(ids)?),
            Step::Exit(module, ids) => Step::Exit(modules.map(*module, referrer)?, list(ids)?),
            Step::Grad(_) | Step::Autocast { .. } | Step::EndAutocast | Step::Loss | Step::EndLoss => step.clone(),
            Step::Checkpoint { .. } | Step::EndCheckpoint(_) | Step::Function { .. } | Step::EndFunction { .. } => {
                return None;
            }
        })
    }
}
