//! The weights of a model of which this rank has parts.

use std::collections::{BTreeSet, HashMap};

use vramfit_eager::autograd::{Context, Tensor};
use vramfit_eager::memory::Storage;
use vramfit_graph::bind::{Bound, BoundStep};

use super::trace::Weights;
use crate::optimizer::Parameter;

/// Whether a weight is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Only this rank's part.
    Absent,
    /// It is on its way.
    InFlight,
    Present,
}

pub(super) struct Weight {
    /// The whole weight, whose memory is there while it is gathered; with the gradient, where it is trained.
    pub whole: Parameter,
    pub is_trained: bool,
    /// Elements of a rank's part, the last one's padding included.
    pub part: i64,
    pub status: Status,
    /// The modules whose calls it is gathered for.
    pub modules: BTreeSet<u32>,
}

impl Weight {
    pub fn new(whole: Parameter, is_trained: bool, world: u32) -> Weight {
        let part = part_of(whole.tensor.layout().elements(), world);
        Weight { whole, is_trained, part, status: Status::Absent, modules: BTreeSet::new() }
    }

    pub fn elements(&self) -> i64 {
        self.whole.tensor.layout().elements()
    }

    /// Bytes of so many elements.
    pub fn bytes(&self, elements: i64) -> u64 {
        elements as u64 * self.whole.tensor.dtype().bytes()
    }

    /// `param.data = …`: memory of so many elements.
    pub fn fill(&self, elements: i64) {
        self.whole.tensor.storage().inspect(|storage| storage.refill(self.bytes(elements)));
    }

    /// `ds_tensor.to(…)` of a part on the CPU: a copy of it on the GPU.
    pub fn uploaded_part(&self, context: &Context) -> Storage {
        context.storage(self.bytes(self.part))
    }

    /// `free_param`.
    pub fn empty(&mut self) {
        self.whole.tensor.storage().inspect(|storage| storage.resize_to_nothing());
        self.status = Status::Absent;
    }

    pub fn gradient(&self) -> Option<Tensor> {
        self.whole.gradient.borrow().clone()
    }
}

/// Elements of a weight's part on each of so many ranks.
pub(super) fn part_of(elements: i64, world: u32) -> i64 {
    let world = i64::from(world);
    (elements + world - 1) / world
}

/// The weights, and which of them each module has itself.
pub(super) struct Partitioned {
    pub weights: Vec<Weight>,
    /// Weights of at most so many elements stay gathered from update to update.
    persistent: i64,
    own: HashMap<u32, Vec<usize>>,
    /// By module: weights that it uses of modules that are not called, until its first call has found them.
    external: HashMap<u32, Vec<usize>>,
}

impl Partitioned {
    pub fn new(bound: &Bound<'_>, weights: Vec<Weight>, persistent: i64) -> Partitioned {
        let mut own: HashMap<u32, Vec<usize>> = HashMap::new();
        let model = bound.model;
        let modules = model.modules.iter().enumerate();
        let numbers: HashMap<&str, u32> =
            modules.filter_map(|(number, module)| Some((module.path.as_deref()?, number as u32))).collect();
        for (index, weight) in model.parameters.iter().enumerate() {
            for name in &weight.names {
                let path = name.rsplit_once('.').map_or("", |(path, _)| path);
                let Some(&module) = numbers.get(path) else { continue };
                let own = own.entry(module).or_default();
                if own.last() != Some(&index) {
                    own.push(index);
                }
            }
        }
        let external = external_weights(bound, &own);
        Partitioned { weights, persistent, own, external }
    }

    /// `register_external_parameter`: the weights that a module uses and does not have, at its first call. They count as its own from
    /// then on.
    pub fn find_external(&mut self, module: u32) -> Vec<usize> {
        let found = self.external.remove(&module).unwrap_or_default();
        if !found.is_empty() {
            self.own.entry(module).or_default().extend(&found);
        }
        found
    }
}

/// By module: the weights that calls within it use while no module is open that has them.
fn external_weights(bound: &Bound<'_>, own: &HashMap<u32, Vec<usize>>) -> HashMap<u32, Vec<usize>> {
    let mut external: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut open: Vec<u32> = Vec::new();
    for step in &bound.steps {
        match step {
            BoundStep::Enter(module, _) => open.push(*module),
            BoundStep::Exit(..) => drop(open.pop()),
            BoundStep::Call(call) => call.each_tensor(&mut |id| {
                // The weights have the first ids.
                let weight = id.0 as usize;
                let Some(&module) = open.last().filter(|_| weight < bound.model.parameters.len()) else { return };
                let has = |weights: &HashMap<u32, Vec<usize>>, module: &u32| {
                    weights.get(module).is_some_and(|weights| weights.contains(&weight))
                };
                if !open.iter().any(|module| has(own, module) || has(&external, module)) {
                    external.entry(module).or_default().push(weight);
                }
            }),
            _ => {}
        }
    }
    external
}

impl Weights for Partitioned {
    fn of_module(&self, module: u32) -> &[usize] {
        self.own.get(&module).map_or(&[], Vec::as_slice)
    }

    fn elements(&self, weight: usize) -> i64 {
        self.weights[weight].elements()
    }

    fn persists(&self, weight: usize) -> bool {
        self.elements(weight) <= self.persistent
    }

    fn is_absent(&self, weight: usize) -> bool {
        self.weights[weight].status == Status::Absent
    }
}

#[cfg(test)]
mod tests {
    use super::part_of;

    #[test]
    fn parts_are_equal_with_padding() {
        assert_eq!(part_of(10, 4), 3);
        assert_eq!(part_of(8, 4), 2);
        assert_eq!(part_of(1, 8), 1);
    }
}
