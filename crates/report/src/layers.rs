//! What `vramfit layers` shows.

use anstyle::Style;
use serde::Serialize;
use serde_json::{Map, Value};
use vramfit_graph::bind::Bound;
use vramfit_graph::model::Mode;
use vramfit_training::layers::{Layer, Totals};
use vramfit_training::optimizer::Kind;
use vramfit_training::{Loop, Run};

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

/// The table.
#[derive(Debug, Serialize)]
pub struct LayersReport {
    model: String,
    sizes: Map<String, Value>,
    layers: Vec<Row>,
    totals: TotalsRow,
    rule_of_thumb: RuleOfThumb,
    peak_allocated: u64,
    unmodelled: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    module: String,
    class: String,
    depth: usize,
    calls: u32,
    output_shapes: Vec<Vec<i64>>,
    parameters: u64,
    output_bytes: u64,
    saved_bytes: u64,
    forward_flops: u64,
    backward_flops: u64,
}

#[derive(Debug, Serialize)]
struct TotalsRow {
    parameters: u64,
    output_bytes: u64,
    saved_bytes: u64,
    forward_flops: u64,
    backward_flops: u64,
}

/// Parameters × n + batch × outputs × 2, as people reckon.
#[derive(Clone, Copy, Debug, Serialize)]
struct RuleOfThumb {
    /// Weights, gradients and the optimizer's copies.
    copies: u64,
    parameter_bytes: u64,
    output_bytes: u64,
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
        let symbols = bound.model.symbols.iter().zip(bound.sizes.as_slice());
        LayersReport {
            model: question.model.to_owned(),
            sizes: symbols.map(|(symbol, &size)| (symbol.name.clone(), size.into())).collect(),
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
                output_bytes: totals.leaf_output_bytes,
                bytes: parameter_bytes * copies + 2 * totals.leaf_output_bytes,
            },
            peak_allocated: run.peak().map_or(0, |phase| phase.peak.allocated),
            unmodelled: run.missing.iter().map(|(name, calls)| format!("{name} ×{}", calls.len())).collect(),
        }
    }

    /// The table for a terminal.
    pub fn text(&self) -> String {
        let bold = Style::new().bold();
        let sizes: Vec<String> = self.sizes.iter().map(|(name, value)| format!("{name} {value}")).collect();
        // A model exported without open sizes has none to name.
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
            text += &format!("\nnot modelled: {}\n", self.unmodelled.join(", "));
        }
        text
    }

    fn rule_text(&self) -> String {
        let rule = self.rule_of_thumb;
        let off = 100.0 * (rule.bytes as f64 / self.peak_allocated.max(1) as f64 - 1.0);
        format!(
            "\n{} parameters, {} FLOPs forward,\n{} FLOPs backward\n\n\
             rule of thumb   {:>10}   weights {} × {} + outputs {} × 2\n\
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

/// How many copies of the weights an optimizer keeps, by the rule of thumb.
fn optimizer_copies(kind: Kind) -> u64 {
    match kind.name() {
        "sgd" | "none" | "adafactor" => 0,
        "momentum" | "nesterov" | "rmsprop" | "adagrad" => 1,
        "amsgrad" => 3,
        _ => 2,
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
