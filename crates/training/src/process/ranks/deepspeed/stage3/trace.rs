//! The order in which modules use weights, as `PartitionedParameterCoordinator` records it in the first pass and follows it later.

use std::collections::VecDeque;

/// A use of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    weight: usize,
    /// The number of the module's call in the pass.
    step: usize,
}

/// What has been recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Nothing.
    #[default]
    Invalid,
    /// This pass is being recorded.
    Recording,
    /// A whole pass.
    Complete,
}

/// The calls of modules in a forward and a backward pass.
#[derive(Debug, Default)]
pub(super) struct Trace {
    mode: Mode,
    modules: Vec<u32>,
    uses: Vec<Use>,
    /// The uses for which nothing has been gathered yet in this pass.
    queue: VecDeque<Use>,
    /// By weight: the last use for which it has been gathered.
    gathered_for: Vec<Option<usize>>,
    /// How many modules have been called in this pass.
    step: usize,
}

/// What the trace needs to know of the model's weights.
pub(super) trait Weights {
    /// The weights of a module itself.
    fn of_module(&self, module: u32) -> &[usize];
    /// Elements of a weight.
    fn elements(&self, weight: usize) -> i64;
    /// Whether a weight stays gathered from update to update.
    fn persists(&self, weight: usize) -> bool;
    /// Whether nothing of a weight but this rank's part is there or on its way.
    fn is_absent(&self, weight: usize) -> bool;
}

impl Trace {
    pub fn is_complete(&self) -> bool {
        self.mode == Mode::Complete
    }

    /// `reset_step`: a pass begins. Returns the lengths of the lists that ranks compare.
    pub fn begin(&mut self, weights: &dyn Weights, count: usize) -> Vec<usize> {
        let mut compared = Vec::new();
        if self.mode != Mode::Complete {
            compared.push(self.modules.len());
            if self.mode == Mode::Recording {
                let uses = self.modules.iter().enumerate().flat_map(|(step, &module)| {
                    let mut used = weights.of_module(module).to_vec();
                    used.sort_unstable();
                    used.into_iter().map(move |weight| Use { weight, step })
                });
                self.uses = uses.collect();
                compared.extend([self.uses.len(); 2]);
                self.mode = Mode::Complete;
            } else {
                self.mode = Mode::Recording;
            }
        }
        self.queue = self.uses.iter().copied().collect();
        self.gathered_for = vec![None; count];
        self.step = 0;
        compared
    }

    /// `trace_prologue` and `record_module`. Returns whether the recorded trace does not hold any more.
    pub fn call(&mut self, module: u32) -> bool {
        let is_broken = self.mode == Mode::Complete && self.modules.get(self.step) != Some(&module);
        if is_broken {
            *self = Trace { gathered_for: vec![None; self.gathered_for.len()], step: self.step, ..Trace::default() };
        }
        if self.mode == Mode::Recording {
            self.modules.push(module);
        }
        is_broken
    }

    /// Takes the uses of this call from the queue, then those to gather ahead: weights with so many elements at least. Returns the weights.
    pub fn ahead(&mut self, weights: &dyn Weights, module: u32, room: i64) -> Vec<usize> {
        if self.mode != Mode::Complete {
            return Vec::new();
        }
        let is_new = |weight: &&usize| self.gathered_for[**weight].is_none_or(|step| step < self.step);
        let wanted = weights.of_module(module).iter().filter(is_new).count();
        for _ in 0..wanted {
            if let Some(used) = self.queue.pop_front() {
                self.gathered_for[used.weight] = Some(used.step);
            }
        }
        let (mut found, mut elements) = (Vec::new(), 0);
        while elements < room
            && let Some(used) = self.queue.pop_front()
        {
            let gathered_for = &mut self.gathered_for[used.weight];
            *gathered_for = (*gathered_for).max(Some(used.step));
            if weights.is_absent(used.weight) && !found.contains(&used.weight) {
                found.push(used.weight);
                elements += weights.elements(used.weight);
            }
        }
        found
    }

    /// The module's call is under way.
    pub fn advance(&mut self) {
        self.step += 1;
    }

    /// `__params_to_release`: the weights of a module that no later call within `distance` elements uses.
    pub fn released(&self, weights: &dyn Weights, module: u32, distance: i64) -> Vec<usize> {
        let mut released: Vec<usize> = weights.of_module(module).to_vec();
        if self.mode != Mode::Complete {
            return released;
        }
        released.retain(|&weight| {
            !weights.persists(weight) && self.gathered_for[weight].is_none_or(|step| step <= self.step)
        });
        let mut passed = 0;
        for &later in self.modules.get(self.step..).unwrap_or_default() {
            if passed >= distance || released.is_empty() {
                break;
            }
            for &weight in weights.of_module(later) {
                released.retain(|&found| found != weight);
                passed += weights.elements(weight);
            }
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Modules with one weight each, of ten elements; the weight of module 2 persists.
    struct Sample {
        own: Vec<Vec<usize>>,
        absent: Vec<bool>,
    }

    impl Weights for Sample {
        fn of_module(&self, module: u32) -> &[usize] {
            &self.own[module as usize]
        }

        fn elements(&self, _: usize) -> i64 {
            10
        }

        fn persists(&self, weight: usize) -> bool {
            weight == 2
        }

        fn is_absent(&self, weight: usize) -> bool {
            self.absent[weight]
        }
    }

    fn sample() -> Sample {
        Sample { own: vec![vec![0], vec![1], vec![2]], absent: vec![true; 3] }
    }

    fn run(trace: &mut Trace, weights: &Sample, modules: &[u32]) {
        for &module in modules {
            trace.call(module);
            trace.advance();
            trace.released(weights, module, 1000);
        }
    }

    #[test]
    fn the_second_pass_follows_the_first() {
        let (mut trace, weights) = (Trace::default(), sample());
        assert_eq!(trace.begin(&weights, 3), [0]);
        run(&mut trace, &weights, &[0, 1, 2, 1]);
        assert_eq!(trace.begin(&weights, 3), [4, 4, 4]);
        assert!(trace.is_complete());
        assert!(!trace.call(0));
        assert_eq!(trace.ahead(&weights, 0, 15), [1, 2]);
        trace.advance();
        assert_eq!(trace.released(&weights, 0, 1000), [0]);
        assert!(trace.call(2), "module 1 was recorded");
        assert!(!trace.is_complete());
    }

    #[test]
    fn a_weight_that_is_used_again_soon_is_not_released() {
        let (mut trace, weights) = (Trace::default(), sample());
        trace.begin(&weights, 3);
        run(&mut trace, &weights, &[1, 0, 2, 1]);
        trace.begin(&weights, 3);
        trace.call(1);
        trace.advance();
        assert!(trace.released(&weights, 1, 21).is_empty(), "two others of ten elements are used before");
        assert_eq!(trace.released(&weights, 1, 20), [1]);
        assert!(trace.released(&weights, 2, 1).is_empty(), "it persists");
    }
}
