//! Programs of other shapes: one line for training and validation, two networks, a library's loop, native frames.

use super::{MIB, explained, found, kinds, place};
use crate::findings::{Details, Kept};
use crate::synthetic::{FrameSpec, Held, Program};

const CALL: FrameSpec<'_> = ("site-packages/torch/nn/modules/module.py", 1779, "_wrapped_call_impl");
const LINEAR: FrameSpec<'_> = ("site-packages/torch/nn/modules/linear.py", 134, "forward");
const FORWARD: FrameSpec<'_> = ("model.py", 30, "forward");
const BACKWARD: FrameSpec<'_> = ("site-packages/torch/_tensor.py", 631, "backward");
const OPTIMIZER: FrameSpec<'_> = ("site-packages/torch/optim/optimizer.py", 526, "wrapper");
const SIZE: u64 = 4 * MIB;

/// A program with the stacks that PyTorch's own parts have.
struct Script {
    program: Program,
    /// Frames inside the Python ones, as recorded with `stacks="all"`.
    native: Vec<FrameSpec<'static>>,
}

impl Script {
    fn new() -> Script {
        Script { program: Program::new(), native: Vec::new() }
    }

    fn allocate(&mut self, size: u64, frames: &[FrameSpec<'_>]) -> Held {
        let all: Vec<FrameSpec<'_>> = self.native.iter().copied().chain(frames.iter().copied()).collect();
        let stack = self.program.stack(&all);
        self.program.allocate(size, stack)
    }

    /// A batch is moved to the GPU.
    fn batch(&mut self, line: u32, outer: &[FrameSpec<'_>]) -> Held {
        let frames: Vec<FrameSpec<'_>> =
            [("train.py", line, outer[0].2)].into_iter().chain(outer[1..].iter().copied()).collect();
        self.allocate(SIZE, &frames)
    }

    /// A forward pass of six layers, called from `outer`; without gradients only the last result stays.
    fn forward(&mut self, outer: &[FrameSpec<'_>], has_grad: bool) -> Vec<Held> {
        let mut made: Vec<Held> = Vec::new();
        for _ in 0..6 {
            let frames: Vec<FrameSpec<'_>> =
                [LINEAR, CALL, FORWARD, CALL].into_iter().chain(outer.iter().copied()).collect();
            made.push(self.allocate(SIZE, &frames));
            if !has_grad && made.len() > 1 {
                self.program.free(made.remove(0));
            }
        }
        made
    }

    /// The backward pass of what a forward pass made, called from `outer`; `kept` of its last results stay.
    fn backward(&mut self, outer: &[FrameSpec<'_>], made: Vec<Held>, kept: usize) -> Vec<Held> {
        let frames: Vec<FrameSpec<'_>> = [BACKWARD].into_iter().chain(outer.iter().copied()).collect();
        let first = self.allocate(4, &frames);
        let mut made = made;
        let results = made.split_off(made.len() - kept);
        let engine = self.native.first().map(|_| ("??", 0, "torch::autograd::Engine::evaluate_function"));
        let stack = self.program.stack(&engine.into_iter().collect::<Vec<_>>());
        for held in made.into_iter().rev() {
            let gradient = self.program.allocate(SIZE, stack);
            self.program.free(held);
            self.program.free(gradient);
        }
        self.program.free(first);
        results
    }

    fn optimizer(&mut self, outer: &[FrameSpec<'_>]) {
        let frames: Vec<FrameSpec<'_>> = [("site-packages/torch/optim/adam.py", 240, "step"), OPTIMIZER]
            .into_iter()
            .chain(outer.iter().copied())
            .collect();
        let temporary = self.allocate(MIB, &frames);
        self.program.free(temporary);
    }
}

/// `for phase in ["train", "val"]`: both phases run the same lines.
fn tutorial(has_no_grad: bool) -> Script {
    let mut script = Script::new();
    let outer = [("train.py", 12, "fit"), ("train.py", 50, "main")];
    for _ in 0..3 {
        for _ in 0..4 {
            let batch = script.batch(10, &outer);
            let made = script.forward(&outer, true);
            let rest = script.backward(&outer, made, 1);
            script.optimizer(&outer);
            script.program.free_all(rest);
            script.program.free(batch);
        }
        let mut predictions = Vec::new();
        for _ in 0..5 {
            let batch = script.batch(10, &outer);
            predictions.extend(script.forward(&outer, !has_no_grad));
            script.program.free(batch);
        }
        let metric = script.batch(20, &outer);
        script.program.free_all(predictions);
        script.program.free(metric);
    }
    script
}

#[test]
fn a_validation_that_shares_its_lines_with_training_is_told_apart() {
    let snapshot = tutorial(false).program.snapshot();
    let explanation = explained(&snapshot);
    assert_eq!(kinds(&explanation), ["graph-kept"]);
    assert_eq!(explanation.steps.list.len(), 12);
    let finding = found(&explanation, "graph-kept")[0];
    assert_eq!(place(&snapshot, finding.place).as_deref(), Some("train.py:12 in fit"));
    let fine = explained(&tutorial(true).program.snapshot());
    assert_eq!(kinds(&fine), [""; 0]);
}

/// Two networks, each with its own loss and optimizer, as a GAN has.
fn two_networks(keeps_results: bool) -> Script {
    let mut script = Script::new();
    let mut kept = Vec::new();
    for _ in 0..8 {
        for line in [20, 30] {
            let outer = [("train.py", line, "train"), ("train.py", 50, "main")];
            let batch = script.batch(line - 2, &outer);
            let made = script.forward(&outer, true);
            let outer = [("train.py", line + 1, "train"), ("train.py", 50, "main")];
            let results = script.backward(&outer, made, 1);
            script.optimizer(&outer);
            script.program.free(batch);
            if keeps_results && line == 30 {
                kept.extend(results);
            } else {
                script.program.free_all(results);
            }
        }
    }
    script
}

#[test]
fn two_losses_make_one_step_and_the_leak_of_one_is_found() {
    let snapshot = two_networks(true).program.snapshot();
    let explanation = explained(&snapshot);
    assert_eq!((explanation.steps.list.len(), explanation.steps.passes), (8, 2));
    let [finding] = found(&explanation, "leak")[..] else { panic!("{:?}", kinds(&explanation)) };
    let Details::Leak(leak) = &finding.details else { panic!("a leak") };
    assert_eq!((leak.kept, finding.per_step), (Kept::Outputs, Some(SIZE)));
    assert_eq!(place(&snapshot, finding.place).as_deref(), Some("train.py:30 in train"));
    assert_eq!(kinds(&explained(&two_networks(false).program.snapshot())), [""; 0]);
}

#[test]
fn a_leak_in_a_librarys_loop_is_found_at_the_users_line() {
    let mut script = Script::new();
    let outer = [
        ("site-packages/transformers/trainer.py", 3732, "compute_loss"),
        ("site-packages/transformers/trainer.py", 2560, "_inner_training_loop"),
        ("finetune.py", 40, "main"),
    ];
    for _ in 0..6 {
        let made = script.forward(&outer, true);
        script.backward(&outer[1..], made, 1);
        script.optimizer(&outer[1..]);
    }
    let snapshot = script.program.snapshot();
    let explanation = explained(&snapshot);
    assert_eq!(explanation.steps.list.len(), 6);
    let [finding] = found(&explanation, "leak")[..] else { panic!("{:?}", kinds(&explanation)) };
    assert_eq!(finding.per_step, Some(SIZE));
    // The model's own code is the user's here; the loop is not.
    assert_eq!(place(&snapshot, finding.place).as_deref(), Some("model.py:30 in forward"));
}

#[test]
fn native_frames_change_nothing() {
    let mut script = Script::new();
    script.native =
        vec![("??", 0, "c10::cuda::CUDACachingAllocator::malloc"), ("/pytorch/aten/src/Linear.cpp", 5, "at::linear")];
    let outer = [("train.py", 12, "train"), ("train.py", 50, "main")];
    for _ in 0..6 {
        let batch = script.batch(10, &outer);
        let made = script.forward(&outer, true);
        script.backward(&outer, made, 1);
        script.optimizer(&outer);
        script.program.free(batch);
    }
    let snapshot = script.program.snapshot();
    let explanation = explained(&snapshot);
    assert_eq!(explanation.steps.list.len(), 6);
    let [finding] = found(&explanation, "leak")[..] else { panic!("{:?}", kinds(&explanation)) };
    assert_eq!(place(&snapshot, finding.place).as_deref(), Some("train.py:12 in train"));
}

#[test]
fn what_a_checkpoint_computes_again_belongs_to_the_backward_pass() {
    let mut script = Script::new();
    let outer = [("train.py", 12, "train"), ("train.py", 50, "main")];
    let again = [FORWARD, CALL, ("site-packages/torch/utils/checkpoint.py", 1166, "unpack_hook")];
    for _ in 0..5 {
        let batch = script.batch(10, &outer);
        let made = script.forward(&outer, true);
        let first = script.allocate(4, &[BACKWARD, outer[0], outer[1]]);
        for held in made.into_iter().rev() {
            let computed: Vec<Held> = (0..3).map(|_| script.allocate(SIZE, &again)).collect();
            script.program.free(held);
            script.program.free_all(computed);
        }
        script.program.free(first);
        script.optimizer(&outer);
        script.program.free(batch);
    }
    let explanation = explained(&script.program.snapshot());
    assert_eq!((explanation.steps.list.len(), explanation.steps.passes), (5, 1));
    assert!(found(&explanation, "leak").is_empty() && found(&explanation, "graph-kept").is_empty());
}
