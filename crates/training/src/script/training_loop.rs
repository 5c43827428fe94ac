//! The script of a plain training or evaluation loop.

use std::sync::Arc;

use vramfit_eager::autograd::{KeptResults, Plans};
use vramfit_eager::forward::{Choice, LossHead};
use vramfit_graph::bind::Bound;
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Mode, Origin, Precision};

use super::optimizers::optimizers;
use super::{Action, AddedLoss, Loop, Name, Parallel, Pass, Script, ZeroGrad};
use crate::report::Phase;

/// The only model, pass and scaler of a loop.
const ONLY: usize = 0;

/// The script of a loop over one captured pass; a recorded script is its own.
pub fn training_loop<'m>(bound: &'m Bound<'m>, settings: &Loop) -> Script<'m> {
    if bound.model.origin == Origin::Script {
        return recorded(bound, settings);
    }
    let is_training = bound.variant.mode == Mode::Train;
    let is_scaled = is_training && bound.variant.precision == Precision::Autocast(Dtype::Float16);
    let pass = Pass {
        model: ONLY,
        bound,
        checkpoint: if is_training { settings.checkpoint.clone() } else { Choice::Nothing },
        kept_results: settings.kept_results,
        offload: settings.offload.filter(|_| bound.variant.has_grad),
        loss_head: settings.loss_head,
        frozen: Arc::clone(&settings.frozen),
        loss: settings.loss,
        parallel: settings.parallel.clone(),
    };
    let optimizers = if is_training { optimizers(bound, settings, ONLY) } else { Vec::new() };
    Script {
        models: 1,
        passes: vec![pass],
        scalers: usize::from(is_scaled),
        plans: Plans { are_benchmarked: settings.is_cudnn_benchmarked, assumption: settings.scenario },
        actions: actions(settings, is_training, is_scaled.then_some(ONLY), optimizers.len()),
        optimizers,
    }
}

/// The script that was recorded.
fn recorded<'m>(bound: &'m Bound<'m>, settings: &Loop) -> Script<'m> {
    let pass = Pass {
        model: ONLY,
        bound,
        checkpoint: Choice::Nothing,
        kept_results: KeptResults::NONE,
        offload: None,
        loss_head: LossHead::Captured,
        frozen: Arc::default(),
        loss: AddedLoss::None,
        parallel: Parallel::None,
    };
    Script {
        models: 1,
        passes: vec![pass],
        scalers: 0,
        plans: Plans { are_benchmarked: settings.is_cudnn_benchmarked, assumption: settings.scenario },
        actions: vec![Action::MoveModel { model: ONLY }, Action::RunRecorded { pass: ONLY }],
        optimizers: Vec::new(),
    }
}

fn actions(settings: &Loop, is_training: bool, scaler: Option<usize>, optimizers: usize) -> Vec<Action> {
    let mut actions = match settings.parallel {
        Parallel::None => vec![Action::MoveModel { model: ONLY }],
        Parallel::Replicated(_) => vec![Action::MoveModel { model: ONLY }, Action::Replicate { model: ONLY }],
        Parallel::Sharded(_) => vec![Action::Shard { model: ONLY }],
        Parallel::Tensor(_) => vec![Action::SplitLayers { model: ONLY }],
        Parallel::DeepSpeed(_) => vec![Action::CreateEngine { model: ONLY, optimizer: ONLY }],
    };
    let has_engine = settings.parallel.has_engine();
    if !settings.has_fresh_inputs {
        let all = settings.accumulate.max(1) + settings.skipped_micro_batches;
        let micro_batches = if settings.holds_whole_batch { all } else { 1 };
        actions.push(Action::MoveInputs { pass: ONLY, micro_batches });
    }
    if is_training {
        if !has_engine {
            actions.extend((0..optimizers).map(|optimizer| Action::CreateOptimizer { optimizer }));
        }
        if settings.averages_weights {
            actions.push(Action::CreateAverage { model: ONLY });
        }
    }
    let in_loop = if settings.steps_in_backward {
        actions.extend((0..optimizers).map(|optimizer| Action::HookOptimizer { optimizer }));
        0
    } else {
        optimizers
    };
    actions.push(Action::EndPhase(Phase::Build));
    let step = if is_training { training_step(settings, scaler, in_loop) } else { evaluation_step(settings) };
    for _ in 0..settings.steps {
        actions.extend_from_slice(&step);
    }
    actions
}

/// A step in which the loop itself calls so many optimizers.
fn training_step(settings: &Loop, scaler: Option<usize>, optimizers: usize) -> Vec<Action> {
    let optimizers = 0..optimizers;
    let sets_to_none = settings.sets_to_none;
    let zero_grad = optimizers.clone().map(|optimizer| Action::ZeroGrad { optimizer, sets_to_none });
    let mut actions = vec![Action::BeginStep];
    // DeepSpeed's engine counts micro-batches, divides the loss, frees gradients and clips them itself.
    let has_engine = settings.parallel.has_engine();
    if settings.zero_grad == ZeroGrad::BeforeForward && !has_engine {
        actions.extend(zero_grad.clone());
    }
    for micro_batch in 0..settings.accumulate.max(1) {
        actions.push(Action::BeginMicroBatch);
        if (settings.parallel.skips_sync() || has_engine) && settings.accumulate > 1 {
            actions.push(Action::SetReduces { model: ONLY, reduces: micro_batch + 1 == settings.accumulate });
        }
        if settings.has_fresh_inputs {
            actions.push(Action::MoveInputs { pass: ONLY, micro_batches: 1 });
        }
        actions.push(Action::Forward {
            pass: ONLY,
            divides_loss: settings.accumulate > 1 && !settings.adds_losses && !has_engine,
        });
        actions.push(Action::EndPhase(Phase::Forward));
        if settings.releases_outputs {
            actions.push(Action::Release { pass: ONLY, name: Name::Outputs });
        }
        if settings.zero_grad == ZeroGrad::BeforeBackward && micro_batch == 0 && !has_engine {
            actions.extend(zero_grad.clone());
        }
        actions.push(Action::Backward { pass: ONLY, scaler });
        if settings.releases_outputs {
            actions.push(Action::Release { pass: ONLY, name: Name::Loss });
        }
        actions.push(Action::EndPhase(Phase::Backward));
        actions.push(Action::EndMicroBatch);
    }
    if settings.clips_gradients && !has_engine {
        if let Some(scaler) = scaler {
            actions.extend(optimizers.clone().map(|optimizer| Action::Unscale { scaler, optimizer }));
        }
        actions.push(Action::ClipGradients { model: ONLY });
    }
    actions.extend(optimizers.map(|optimizer| Action::Update { optimizer, scaler }));
    actions.extend(scaler.map(|scaler| Action::UpdateScaler { scaler }));
    if settings.averages_weights {
        actions.push(Action::UpdateAverage { model: ONLY });
    }
    actions.push(Action::EndPhase(Phase::Step));
    actions
}

fn evaluation_step(settings: &Loop) -> Vec<Action> {
    let mut actions = vec![Action::BeginStep];
    if settings.has_fresh_inputs {
        actions.push(Action::MoveInputs { pass: ONLY, micro_batches: 1 });
    }
    actions.push(Action::Forward { pass: ONLY, divides_loss: false });
    actions.push(Action::EndPhase(Phase::Eval));
    actions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(actions: &[Action]) -> Vec<String> {
        actions.iter().map(Action::to_string).collect()
    }

    #[test]
    fn a_step_of_two_micro_batches_updates_once_and_frees_gradients_first() {
        let settings = Loop { accumulate: 2, ..Loop::default() };
        let micro_batch = [
            "begin micro-batch",
            "forward pass 0, loss divided",
            "end of forward",
            "backward of pass 0",
            "end of backward",
            "end micro-batch",
        ];
        let mut expected = vec!["begin step", "free gradients of optimizer 0"];
        expected.extend(micro_batch);
        expected.extend(micro_batch);
        expected.extend(["update by optimizer 0", "end of step"]);
        assert_eq!(text(&training_step(&settings, None, 1)), expected);
    }

    #[test]
    fn every_setting_of_the_loop_has_its_action() {
        let settings = Loop {
            clips_gradients: true,
            zero_grad: ZeroGrad::BeforeBackward,
            sets_to_none: false,
            has_fresh_inputs: true,
            releases_outputs: true,
            averages_weights: true,
            ..Loop::default()
        };
        let expected = [
            "begin step",
            "begin micro-batch",
            "move inputs of pass 0",
            "forward pass 0",
            "end of forward",
            "release outputs of pass 0",
            "zero gradients of optimizer 0",
            "backward of pass 0 with scaler 0",
            "release loss of pass 0",
            "end of backward",
            "end micro-batch",
            "unscale optimizer 0 with scaler 0",
            "clip gradients of model 0",
            "update by optimizer 0 with scaler 0",
            "update scaler 0",
            "update average of model 0",
            "end of step",
        ];
        assert_eq!(text(&training_step(&settings, Some(0), 1)), expected);
    }

    #[test]
    fn evaluation_has_no_optimizer_and_no_backward_pass() {
        let settings = Loop { steps: 2, ..Loop::default() };
        let step = ["begin step", "forward pass 0", "end of eval"];
        let mut expected = vec!["move model 0", "move inputs of pass 0", "end of build"];
        expected.extend(step);
        expected.extend(step);
        assert_eq!(text(&actions(&settings, false, None, 0)), expected);
    }
}
