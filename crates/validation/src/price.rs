//! Predicted times of training steps beside measured ones.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;
use vramfit_catalogue::Catalogue;
use vramfit_eager::machine::H200;
use vramfit_price::{CostModel, StepTime};
use vramfit_training::visit;

use crate::measured::{Case, CaseSettings, folder, read_compressed};
use crate::recordings::Result;
use crate::simulation::with_bound;
use crate::statistics::median;

/// Measured times whose ratio is below this count as equal: their order is not judged.
const NEAR: f64 = 1.05;

/// All timed steps.
#[derive(Debug, Deserialize)]
struct Timed {
    environment: Environment,
    calibration: BTreeMap<String, Answer>,
    validation: BTreeMap<String, Answer>,
}

/// Steps that were timed in another session: what is saved elsewhere, or computed again in part.
#[derive(Debug, Deserialize)]
struct TimedTricks {
    tricks: BTreeMap<String, Answer>,
}

#[derive(Debug, Deserialize)]
struct Environment {
    gpu: String,
    torch: String,
    processor: String,
}

/// The settings of one model, or why there are none.
#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(default)]
    rows: Vec<TimedRow>,
}

/// One setting.
#[derive(Debug, Deserialize)]
struct TimedRow {
    setting: String,
    model: String,
    settings: CaseSettings,
    /// Milliseconds a step; absent where the run failed.
    ms: Option<f64>,
    cpu_phases: Option<Phases>,
}

/// Milliseconds of the CPU.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Phases {
    forward: f64,
    backward: f64,
}

/// A timed setting beside its prediction.
#[derive(Clone, Debug)]
pub struct Priced {
    /// The model.
    pub model: String,
    /// The setting; `base` is what slowdowns are relative to.
    pub setting: String,
    /// Measured seconds a step.
    pub measured: f64,
    /// The same, predicted.
    pub predicted: StepTime,
    /// Measured slowdown.
    pub slowdown: f64,
    /// The same, predicted.
    pub predicted_slowdown: f64,
}

impl Priced {
    /// How far the predicted slowdown is off, as a share of the measured one.
    pub fn error(&self) -> f64 {
        self.predicted_slowdown / self.slowdown - 1.0
    }
}

fn timed() -> Result<Timed> {
    read_compressed(&folder().join("price/steps.json.gz"))
}

fn clock() -> Result<CostModel> {
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    Ok(CostModel::new(catalogue.find("H200").map_err(|error| error.to_string())?))
}

fn case_of(row: &TimedRow) -> Case {
    Case {
        model: row.model.clone(),
        part: 0,
        settings: row.settings.clone(),
        peak_allocated: 0,
        peak_reserved: 0,
        phases: Vec::new(),
        runs: Vec::new(),
        caps: Vec::new(),
    }
}

fn predict(clock: &CostModel, row: &TimedRow) -> Result<StepTime> {
    with_bound(&case_of(row), |bound, options| {
        let time = match options.offload {
            None => clock.step_time(bound, options),
            Some(memory) => visit(bound, options, H200)
                .and_then(|visits| clock.price(bound).with_saved_on_host(&visits, memory).step_time(bound, options)),
        };
        time.map_err(|error| error.to_string())
    })?
}

/// Every timed setting of every model, the baseline of each first.
///
/// # Errors
/// The measurements cannot be read, or a model cannot be priced.
pub fn priced() -> Result<Vec<Priced>> {
    let clock = clock()?;
    let mut found = Vec::new();
    let tricks: TimedTricks = read_compressed(&folder().join("price/tricks.json.gz"))?;
    let apart = tricks.tricks.into_iter().map(|(model, answer)| (format!("{model} again"), answer));
    for (model, answer) in timed()?.validation.into_iter().chain(apart) {
        let Some(base) = answer.rows.iter().find(|row| row.setting == "base") else { continue };
        // A capture with fixed sizes cannot be bound to others.
        let (Some(base_ms), Ok(base_predicted)) = (base.ms, predict(&clock, base)) else { continue };
        for row in &answer.rows {
            let (Some(ms), Ok(predicted)) = (row.ms, predict(&clock, row)) else { continue };
            found.push(Priced {
                model: model.clone(),
                setting: row.setting.clone(),
                measured: ms * 1e-3,
                predicted,
                slowdown: ms / base_ms,
                predicted_slowdown: predicted.seconds / base_predicted.seconds,
            });
        }
    }
    Ok(found)
}

/// The errors of all settings in a few numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Models.
    pub models: usize,
    /// Settings beside the baselines.
    pub settings: usize,
    /// The median error of slowdowns, as a share.
    pub median: f64,
    /// How many slowdowns are within 10 %.
    pub within: usize,
    /// The worst.
    pub worst: f64,
    /// The median error of times themselves.
    pub time_median: f64,
    /// Pairs of settings of one model whose measured times differ, and how many are predicted in the right order.
    pub pairs: (usize, usize),
    /// Spearman's rank correlation of a model's settings, the mean over models.
    pub correlation: f64,
}

fn ranks(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| values.iter().filter(|other| *other < value).count() as f64).collect()
}

/// Spearman's rank correlation.
fn correlation(one: &[f64], other: &[f64]) -> f64 {
    let (one, other) = (ranks(one), ranks(other));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (one_mean, other_mean) = (mean(&one), mean(&other));
    let (mut both, mut first, mut second) = (0.0, 0.0, 0.0);
    for (a, b) in one.iter().zip(&other) {
        both += (a - one_mean) * (b - other_mean);
        first += (a - one_mean).powi(2);
        second += (b - other_mean).powi(2);
    }
    both / (first * second).sqrt()
}

/// The numbers of a list of settings.
pub fn summary(rows: &[Priced]) -> Summary {
    let mut models: BTreeMap<&str, Vec<&Priced>> = BTreeMap::new();
    for row in rows {
        models.entry(&row.model).or_default().push(row);
    }
    let errors: Vec<f64> = rows.iter().filter(|row| row.setting != "base").map(|row| row.error().abs()).collect();
    let mut pairs = (0, 0);
    let mut correlations = Vec::new();
    for rows in models.values() {
        for (at, one) in rows.iter().enumerate() {
            for other in &rows[at + 1..] {
                let (slow, fast) = if one.measured > other.measured { (one, other) } else { (other, one) };
                if slow.measured > NEAR * fast.measured {
                    pairs.0 += 1;
                    pairs.1 += usize::from(slow.predicted.seconds > fast.predicted.seconds);
                }
            }
        }
        let measured: Vec<f64> = rows.iter().map(|row| row.measured).collect();
        let predicted: Vec<f64> = rows.iter().map(|row| row.predicted.seconds).collect();
        correlations.push(correlation(&measured, &predicted));
    }
    Summary {
        models: models.len(),
        settings: errors.len(),
        within: errors.iter().filter(|error| **error <= 0.1).count(),
        worst: errors.iter().copied().fold(0.0, f64::max),
        median: median(errors),
        time_median: median(rows.iter().map(|row| (row.predicted.seconds / row.measured - 1.0).abs()).collect()),
        pairs,
        correlation: correlations.iter().sum::<f64>() / correlations.len().max(1) as f64,
    }
}

/// How much longer the CPU takes for a pass than for its operators timed alone, for each model of the calibration set. The
/// medians are the constants `forward` and `backward` of the table.
///
/// # Errors
/// The measurements cannot be read, or a model cannot be priced.
pub fn calibration() -> Result<String> {
    let clock = clock()?;
    let mut text = String::new();
    let (mut forward, mut backward) = (Vec::new(), Vec::new());
    for (model, answer) in &timed()?.calibration {
        for row in &answer.rows {
            let Some(phases) = row.cpu_phases else { continue };
            let bound = with_bound(&case_of(row), |bound, _| clock.price(bound).cpu());
            let predicted = match bound {
                Ok(found) => found,
                Err(error) => {
                    let _ = writeln!(text, "{model:14} {:5} left out: {error}", row.setting);
                    continue;
                }
            };
            let measured = [phases.forward * 1e3, phases.backward * 1e3];
            let factors = [measured[0] / predicted[0], measured[1] / predicted[1]];
            let _ = writeln!(
                text,
                "{model:14} {:5} forward {:7.0} µs, alone {:7.0}: {:.2}   backward {:7.0} µs, alone {:7.0}: {:.2}",
                row.setting, measured[0], predicted[0], factors[0], measured[1], predicted[1], factors[1],
            );
            forward.push(factors[0]);
            backward.push(factors[1]);
        }
    }
    let _ = writeln!(text, "median {:.3} forward, {:.3} backward", median(forward), median(backward));
    Ok(text)
}

/// The page `docs/price-accuracy.md`.
///
/// # Errors
/// The measurements cannot be read, or a model cannot be priced.
pub fn page() -> Result<String> {
    let rows = priced()?;
    let Environment { gpu, torch, processor } = timed()?.environment;
    let sum = summary(&rows);
    let mut text = format!(
        "# How accurate the predicted time is\n\nMade by `cargo run --release -p vramfit-validation -- price --write`: real training steps \
         (one {gpu}, torch {torch}, CPU {processor}) beside the predicted ones; `validation/price/steps.py` says how they were \
         timed, [price.md](price.md) how they are predicted. A slowdown is the time of a step \
         divided by that of the model's baseline (AdamW as torch chooses it, fp32, nothing checkpointed).\n\n\
         - {} models, {} settings beside their baselines\n\
         - slowdown: median error {:.1} %, {} of {} within 10 %, worst {:.0} %\n\
         - order: of {} pairs of settings of one model whose times differ by more than 5 %, {} are predicted in the right order \
         ({:.1} %); mean rank correlation {:.3}\n\
         - time itself: median error {:.1} %\n\n",
        sum.models,
        sum.settings,
        sum.median * 100.0,
        sum.within,
        sum.settings,
        sum.worst * 100.0,
        sum.pairs.0,
        sum.pairs.1,
        sum.pairs.1 as f64 / sum.pairs.0.max(1) as f64 * 100.0,
        sum.correlation,
        sum.time_median * 100.0,
    );
    text += &by_setting(&rows);
    text += "\n## Every run\n\nTimes in milliseconds; GPU and CPU are the predicted times of each.\n\n\
             | model | setting | measured | predicted | GPU | CPU | slowdown | predicted | off by |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    for row in &rows {
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.3} | {:.3} | {:+.1} % |",
            row.model,
            row.setting,
            row.measured * 1e3,
            row.predicted.seconds * 1e3,
            row.predicted.gpu * 1e3,
            row.predicted.cpu * 1e3,
            row.slowdown,
            row.predicted_slowdown,
            row.error() * 100.0,
        );
    }
    Ok(text)
}

/// The median error of each setting.
fn by_setting(rows: &[Priced]) -> String {
    let mut settings: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.setting != "base") {
        settings.entry(&row.setting).or_default().push(row.error());
    }
    let mut text =
        "| setting | models | median error | median of its size | worst |\n| --- | ---: | ---: | ---: | ---: |\n"
            .to_owned();
    for (setting, errors) in settings {
        let sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        let worst = sizes.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(
            text,
            "| {setting} | {} | {:+.1} % | {:.1} % | {:.0} % |",
            errors.len(),
            median(errors) * 100.0,
            median(sizes) * 100.0,
            worst * 100.0
        );
    }
    text
}
