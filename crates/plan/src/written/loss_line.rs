//! The line of the printed loop that computes the loss.

use vramfit_graph::bind::Bound;
use vramfit_graph::model::{Origin, TensorId};

use crate::loss::Loss;
use crate::printed_loop::Lines;

/// The loss, and the output that it is or is computed from.
pub struct LossLine {
    loss: Loss,
    /// The Python expression for that output.
    output: String,
    /// Whether the model's file does not record that expression, so that `output` is a guess.
    is_guessed: bool,
    /// Whether the output is that of a sequence, with the classes in its last dimension.
    is_sequence: bool,
}

impl LossLine {
    /// For a model in one precision and size.
    pub fn of(bound: &Bound<'_>, loss: Loss) -> LossLine {
        let variant = bound.variant;
        let is_wanted = |id: &&TensorId| match loss {
            Loss::Returned => variant.loss == Some(**id),
            _ => bound.tensor(**id).dtype.is_differentiable(),
        };
        let found = variant.outputs.iter().find(is_wanted);
        let index = found.and_then(|found| variant.outputs.iter().position(|id| id == found));
        let known = index.and_then(|index| variant.paths.get(index));
        let path = known.map_or(
            match (&loss, bound.model.origin) {
                (_, _) if variant.outputs.len() < 2 => "",
                (Loss::Returned, Origin::Capture) => ".loss",
                _ => "[0]",
            },
            String::as_str,
        );
        LossLine {
            output: format!("outputs{path}"),
            is_guessed: known.is_none(),
            is_sequence: found.is_some_and(|id| bound.tensor(*id).shape.len() == 3),
            loss,
        }
    }

    /// Writes the line, divided by the number of micro-batches; returns `false` if there is no loss.
    pub fn write(&self, lines: &mut Lines, indent: usize, targets: &str, micro_batches: u32) -> bool {
        let divided = if micro_batches == 1 { String::new() } else { format!(" / {micro_batches}") };
        let output = &self.output;
        if self.is_guessed {
            match self.loss {
                Loss::Returned => {
                    lines.line(indent, "# Or what your model has: outputs.loss, outputs[0], outputs[\"loss\"].");
                }
                Loss::CrossEntropy | Loss::Mean => {
                    lines.line(indent, "# Or what your model has: outputs.logits, outputs[0], outputs[\"out\"].");
                }
                Loss::Given | Loss::None => {}
            }
        }
        match self.loss {
            Loss::Given => lines.call(indent, "loss = compute_loss", &["outputs", targets], &divided),
            Loss::Returned => lines.line(indent, &format!("loss = {output}{divided}")),
            Loss::Mean => lines.line(indent, &format!("loss = {output}.mean(){divided}")),
            Loss::CrossEntropy => {
                let flat = [format!("{output}.flatten(0, 1)"), format!("{targets}.flatten()")];
                let arguments =
                    if self.is_sequence { [flat[0].as_str(), &flat[1]] } else { [output.as_str(), targets] };
                lines.call(indent, "loss = torch.nn.functional.cross_entropy", &arguments, &divided);
            }
            Loss::None => return false,
        }
        true
    }
}
