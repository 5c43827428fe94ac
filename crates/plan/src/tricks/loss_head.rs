//! A loss without whole logits: chunk by chunk, or by a fused function.

use vramfit_eager::forward::LossHead;
use vramfit_eager::operators::{Head, find_head};
use vramfit_graph::bind::Bound;

use super::role::Role;
use super::trick::Trick;
use crate::parts::{Parts, ReplacedLoss};
use crate::printed_loop::{Lines, PrintedLoop};
use crate::setup::Setup;
use crate::workbench::Workbench;

pub(crate) struct LossWithoutLogits;

impl Trick for LossWithoutLogits {
    fn name(&self) -> &'static str {
        "loss without whole logits"
    }

    fn setting(&self) -> &'static str {
        "chunked-loss"
    }

    fn role(&self) -> Role {
        Role::SavedTensors { by_module: false }
    }

    fn conflicts(&self) -> &'static str {
        "metrics that need the logits: the model returns its last hidden states in their place"
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "losses = [checkpoint(loss_of_chunk, *part, use_reentrant=False) for part in parts]"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        if start.training.loss_head != LossHead::Captured {
            return Err("the loss needs no whole logits already".to_owned());
        }
        let bound = bench.bind(start).ok_or("the model cannot be bound")?;
        let head = find_head(&bound).map_err(|reason| reason.to_string())?;
        let with = |loss_head: LossHead| {
            let mut setup = start.clone();
            setup.training.loss_head = loss_head;
            setup
        };
        Ok(vec![with(LossHead::Chunked(chunks(&bound, &head))), with(LossHead::Liger)])
    }

    /// The fused function needs another package.
    fn is_searched(&self, _start: &Setup, alternative: &Setup) -> bool {
        alternative.training.loss_head != LossHead::Liger
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        setup.training.loss_head = from.training.loss_head;
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match setup.training.loss_head {
            LossHead::Captured => "loss of all logits at once".to_owned(),
            LossHead::Chunked(chunks) => format!("loss in {chunks} checkpointed chunks"),
            LossHead::Liger => "loss by LigerFusedLinearCrossEntropyLoss".to_owned(),
        }
    }

    fn warning(&self, _bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        (setup.training.loss_head != LossHead::Captured)
            .then(|| "outputs.logits are then the last hidden states, not logits".to_owned())
    }

    fn write(&self, bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        let Some(name) = head_name(bench, setup) else { return };
        match setup.training.loss_head {
            LossHead::Captured => {}
            LossHead::Chunked(chunks) => write_chunked(code, &name, chunks),
            LossHead::Liger => write_liger(code, &name),
        }
    }

    fn fill(&self, bench: &Workbench<'_>, setup: &Setup, parts: &mut Parts) {
        let chunks = match setup.training.loss_head {
            LossHead::Captured => return,
            LossHead::Chunked(chunks) => Some(chunks),
            LossHead::Liger => None,
        };
        parts.replaced_loss = head_name(bench, setup).map(|head| ReplacedLoss { head, chunks });
    }
}

/// So many chunks that the logits of one take about as much memory as the hidden states.
fn chunks(bound: &Bound<'_>, head: &Head) -> u32 {
    let width = bound.tensor(head.hidden).shape.last().copied().unwrap_or(1).max(1);
    let classes = bound.tensor(head.logits).shape.last().copied().unwrap_or(1);
    let rows = bound.tensor(head.hidden).elements / width;
    let wanted = u32::try_from((classes / width).clamp(2, 1024)).unwrap_or(2);
    (1 << wanted.ilog2()).min(u32::try_from(rows).unwrap_or(u32::MAX).max(1))
}

/// The name of the module that computes the logits.
fn head_name(bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
    let bound = bench.bind(setup)?;
    let head = find_head(&bound).ok()?;
    bound.model.modules[head.module as usize].path.clone()
}

/// The labels of the next tokens, for the hidden states that the model returns in place of logits.
fn write_rows(lines: &mut Lines) {
    lines.line(1, "hidden = logits.flatten(0, 1)  # the head has returned them as they are");
    lines.line(1, "pad = torch.nn.functional.pad");
    lines.line(1, "labels = pad(labels[..., 1:], (0, 1), value=-100).flatten()");
}

fn write_chunked(code: &mut PrintedLoop, name: &str, chunks: u32) {
    code.imports.once("from torch.utils.checkpoint import checkpoint");
    let lines = &mut code.model_changes;
    lines.line(0, &format!("head = model.get_submodule(\"{name}\")"));
    lines.line(0, "compute_logits, head.forward = head.forward, lambda hidden: hidden");
    lines.line(0, "");
    lines.line(0, "def loss_of_chunk(hidden, labels):");
    lines.line(1, "logits = compute_logits(hidden).float()");
    lines.line(1, "return torch.nn.functional.cross_entropy(logits, labels, reduction=\"sum\")");
    lines.line(0, "");
    lines.line(0, "def chunked_loss(logits, labels, **_):");
    write_rows(lines);
    lines.line(1, &format!("parts = zip(hidden.chunk({chunks}), labels.chunk({chunks}))"));
    lines.line(1, "losses = [checkpoint(loss_of_chunk, *part, use_reentrant=False) for part in parts]");
    lines.line(1, "return torch.stack(losses).sum() / (labels != -100).sum()");
    lines.line(0, "");
    lines.line(0, "model.loss_function = chunked_loss");
}

fn write_liger(code: &mut PrintedLoop, name: &str) {
    code.imports.line(0, "from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss");
    let lines = &mut code.model_changes;
    lines.line(0, &format!("head = model.get_submodule(\"{name}\")"));
    lines.line(0, "head.forward = lambda hidden: hidden");
    lines.line(0, "fused = LigerFusedLinearCrossEntropyLoss()");
    lines.line(0, "");
    lines.line(0, "def fused_loss(logits, labels, **_):");
    write_rows(lines);
    lines.line(1, "return fused(head.weight, hidden, labels, head.bias)");
    lines.line(0, "");
    lines.line(0, "model.loss_function = fused_loss");
}
