//! What `vramfit layers` shows.

use anstyle::Style;
use indexmap::IndexMap;
use serde::Serialize;
use vramfit_graph::bind::Bound;
use vramfit_graph::model::Mode;
use vramfit_training::layers::{Layer, Totals};
use vramfit_training::optimizer::Kind;
use vramfit_training::{Loop, Run};

use crate::names::{CountedName, joined};
use crate::settings::sizes;
use crate::size::{grouped, human};

/// What was asked.
pub struct Question<'a> {
    /// The model's name or file.
    pub model: &'a str,
    /// The model at the sizes asked for.
    pub bound: &'a Bound<'a>,
    /// The loop.
    pub training: &'a Loop,
    /// How deep modules are shown.
    pub depth: usize,
}

/// The answer of `vramfit layers --json`. Sizes are bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayersReport {
    /// The model's name or file.
    model: String,
    /// The model's sizes by name, such as `batch` and `seq`.
    sizes: IndexMap<String, i64>,
    /// The modules in the order in which they are first called; the model itself comes first.
    layers: Vec<Row>,
    /// The sums over one pass, the loss function included.
    totals: TotalsRow,
    /// What people reckon without a simulation.
    rule_of_thumb: RuleOfThumb,
    /// The simulated peak of allocated bytes.
    peak_allocated: u64,
    /// Operators without a memory rule, each with how many steps of one pass call it.
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    unmodelled: Vec<CountedName>,
}

/// A module, with everything inside it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// Its dotted path; empty for the model itself.
    module: String,
    /// Its Python class.
    class: String,
    /// How many modules it is inside of.
    depth: usize,
    /// How often one pass calls it.
    calls: u32,
    /// The shapes of what it returned last.
    output_shapes: Vec<Vec<i64>>,
    /// Numbers in its weights; tied ones count once, where they come first.
    parameters: u64,
    /// Bytes of everything it returned.
    output_bytes: u64,
    /// Bytes saved for backward.
    saved_bytes: u64,
    /// FLOPs of the forward pass, as `torch.utils.flop_counter` counts them.
    forward_flops: u64,
    /// FLOPs of the backward pass.
    backward_flops: u64,
}

/// Sums over one pass.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TotalsRow {
    /// Numbers in all weights.
    parameters: u64,
    /// Bytes that modules without modules inside returned.
    output_bytes: u64,
    /// Bytes saved for backward.
    saved_bytes: u64,
    /// FLOPs of the forward pass.
    forward_flops: u64,
    /// FLOPs of the backward pass.
    backward_flops: u64,
}

/// `parameter_bytes` × `copies` + `state_bytes` + 2 × `output_bytes`.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RuleOfThumb {
    /// Weights, gradients and the optimizer's copies.
    copies: u64,
    /// Bytes of the weights.
    parameter_bytes: u64,
    /// Bytes of optimizer states that are not copies of the weights, as bitsandbytes keeps them.
    state_bytes: u64,
    /// Bytes that modules without modules inside returned.
    output_bytes: u64,
    /// What the rule gives.
    bytes: u64,
}

impl LayersReport {
    /// The report on a pass.
    pub fn new(question: &Question<'_>, layers: &[Layer], totals: Totals, run: &Run) -> LayersReport {
        let bound = question.bound;
        let parameters = bound.model.parameter_count().unwrap_or(u64::MAX);
        let parameter_bytes: u64 = bound.model.parameters.iter().map(|weight| bound.tensor(weight.tensor).bytes).sum();
        let copies = match bound.variant.mode {
            Mode::Train => 2 + optimizer_copies(question.training.optimizer.kind),
            Mode::Eval | Mode::EvalGrad => 1,
        };
        let state_bytes = match bound.variant.mode {
            Mode::Train => quantized_bytes(question.training.optimizer.kind, parameters),
            Mode::Eval | Mode::EvalGrad => 0,
        };
        LayersReport {
            model: question.model.to_owned(),
            sizes: sizes(bound),
            layers: layers.iter().filter(|layer| layer.depth <= question.depth).map(row).collect(),
            totals: TotalsRow {
                parameters,
                output_bytes: totals.leaf_output_bytes,
                saved_bytes: totals.saved_bytes,
                forward_flops: totals.flops.forward,
                backward_flops: totals.flops.backward,
            },
            rule_of_thumb: RuleOfThumb {
                copies,
                parameter_bytes,
                state_bytes,
                output_bytes: totals.leaf_output_bytes,
                bytes: parameter_bytes * copies + state_bytes + 2 * totals.leaf_output_bytes,
            },
            peak_allocated: run.peak().map_or(0, |phase| phase.peak.allocated),
            unmodelled: run.missing.iter().map(|(name, calls)| CountedName::new(name, calls.len())).collect(),
        }
    }

    /// The table for a terminal.
    pub fn text(&self) -> String {
        let bold = Style::new().bold();
        let sizes: Vec<String> = self.sizes.iter().map(|(name, value)| format!("{name} {value}")).collect();
        // A model exported with fixed sizes has none to name.
        let at = if sizes.is_empty() { String::new() } else { format!(" at {}", sizes.join(", ")) };
        let mut text = format!("{bold}{}{bold:#}{at}\n\n", self.model);
        text += &line(["module", "output", "weights", "bytes", "saved", "forward", "backward"]);
        for row in &self.layers {
            let name = row.module.rsplit('.').next().filter(|name| !name.is_empty()).unwrap_or(&row.class);
            let times = if row.calls > 1 { format!(" ×{}", row.calls) } else { String::new() };
            let name = format!("{:indent$}{name}{times}", "", indent = row.depth);
            text += &line([
                &name,
                &row.output_shapes.first().map_or_else(|| "-".to_owned(), |shape| shape_text(shape)),
                &count(row.parameters),
                &human(row.output_bytes),
                &human(row.saved_bytes),
                &count(row.forward_flops),
                &count(row.backward_flops),
            ]);
        }
        let totals = &self.totals;
        text += &line([
            "all, with the loss",
            "",
            &count(totals.parameters),
            &human(totals.output_bytes),
            &human(totals.saved_bytes),
            &count(totals.forward_flops),
            &count(totals.backward_flops),
        ]);
        text += &self.rule_text();
        if !self.unmodelled.is_empty() {
            text += &format!("\nnot modelled: {}\n", joined(&self.unmodelled));
        }
        text
    }

    fn rule_text(&self) -> String {
        let rule = self.rule_of_thumb;
        let states = match rule.state_bytes {
            0 => String::new(),
            bytes => format!(" + states {}", human(bytes)),
        };
        let off = 100.0 * (rule.bytes as f64 / self.peak_allocated.max(1) as f64 - 1.0);
        format!(
            "\n{} parameters, {} FLOPs forward,\n{} FLOPs backward\n\n\
             rule of thumb   {:>10}   weights {} × {}{states} + outputs {} × 2\n\
             simulated peak  {:>10}   so the rule is off by {off:+.0} %\n",
            grouped(self.totals.parameters),
            grouped(self.totals.forward_flops),
            grouped(self.totals.backward_flops),
            human(rule.bytes),
            human(rule.parameter_bytes),
            rule.copies,
            human(rule.output_bytes),
            human(self.peak_allocated),
        )
    }
}

/// How many copies of the weights an optimizer keeps, by the rule of thumb; those of bitsandbytes have other element types.
fn optimizer_copies(kind: Kind) -> u64 {
    match kind {
        Kind::Momentum | Kind::Nesterov | Kind::RmsProp | Kind::Adagrad | Kind::Muon => 1,
        Kind::AdamW | Kind::Adam | Kind::Adadelta | Kind::Adamax | Kind::NAdam | Kind::RAdam => 2,
        Kind::Amsgrad => 3,
        _ => 0,
    }
}

/// Bytes that an optimizer of bitsandbytes keeps, by the rule of thumb; states in managed memory do not count.
fn quantized_bytes(kind: Kind, parameters: u64) -> u64 {
    match kind.quantized() {
        Some(found) if !found.is_paged => parameters * found.states as u64 * if found.has_8_bits { 1 } else { 4 },
        _ => 0,
    }
}

fn row(layer: &Layer) -> Row {
    Row {
        module: layer.path.clone(),
        class: layer.class.clone(),
        depth: layer.depth,
        calls: layer.calls,
        output_shapes: layer.outputs.iter().map(|shape| shape.to_vec()).collect(),
        parameters: layer.parameters,
        output_bytes: layer.output_bytes,
        saved_bytes: layer.saved_bytes,
        forward_flops: layer.flops.forward,
        backward_flops: layer.flops.backward,
    }
}

pub(crate) fn shape_text(shape: &[i64]) -> String {
    match shape {
        [] => "scalar".to_owned(),
        _ => shape.iter().map(i64::to_string).collect::<Vec<_>>().join("×"),
    }
}

/// A number with a decimal unit: `1.23 G`.
pub(crate) fn count(number: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if number < 1000 {
        return number.to_string();
    }
    let mut value = number as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = if value < 10.0 { 2 } else { 1 };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A row of 80 columns.
fn line(fields: [&str; 7]) -> String {
    let [name, output, weights, bytes, saved, forward, backward] = fields;
    let name: String = match name.chars().count() {
        0..=21 => name.to_owned(),
        _ => name.chars().take(20).chain(['…']).collect(),
    };
    format!("{name:21}{output:>14}{weights:>8}{bytes:>10}{saved:>10}{forward:>8}{backward:>9}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_eighty_columns_at_most() {
        let row =
            line(["embeddings.word_embeddings.long", "32×128×768", "23.4 M", "1.02 GiB", "1.02 GiB", "999 G", "999 G"]);
        assert_eq!(row.trim_end().chars().count(), 80);
    }

    #[test]
    fn numbers_are_shown_with_decimal_units() {
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234), "1.23 K");
        assert_eq!(count(109_483_778), "109.5 M");
        assert_eq!(count(8_349_286_400), "8.35 G");
    }
}
