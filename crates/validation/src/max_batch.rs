//! The largest batch that fits, beside the one found by trying on a GPU.

use std::fmt::Write;

use serde::Deserialize;
use vramfit_catalogue::Catalogue;
use vramfit_plan::max_batch::{LIMIT, max_batch};
use vramfit_plan::{Control, Setup, Workbench};
use vramfit_readers::read_file;
use vramfit_training::Run;
use vramfit_training::answer::{Device, Runs};

use crate::case_settings::choices;
use crate::measured::{folder, measured, read_compressed};
use crate::recordings::Result;
use crate::simulation::capture_of;

#[derive(Debug, Deserialize)]
struct Searches {
    searches: Vec<Search>,
}

/// A search on a GPU.
#[derive(Clone, Debug, Deserialize)]
pub struct Search {
    /// The measured case that it takes its settings from.
    pub case: String,
    /// What PyTorch may reserve, in bytes.
    pub cap: u64,
    /// Every batch that was tried, in rising order.
    pub trials: Vec<Tried>,
    /// When it was chosen.
    #[serde(default)]
    pub chosen: Chosen,
}

/// When a pair of case and cap was chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chosen {
    /// While the rules were made.
    #[default]
    Early,
    /// After the rules and the first decision trees were fixed.
    AfterTrees,
    /// After the series of layers was fixed too.
    AfterSeries,
    /// After the plans were fixed too, from models and settings that were in no list before.
    AfterPlans,
}

/// One batch that was tried.
#[derive(Clone, Debug, Deserialize)]
pub struct Tried {
    /// The batch.
    pub batch: i64,
    /// The error that ended it.
    #[serde(rename = "died")]
    pub failure: Option<serde_json::Value>,
    /// Peak reserved bytes without the build phase; absent where the run failed in its first step.
    pub peak_reserved: Option<u64>,
}

impl Search {
    /// The largest batch that completed, as did all smaller ones that were tried.
    fn found(&self) -> i64 {
        let ran = self.trials.iter().take_while(|trial| trial.failure.is_none());
        ran.last().map_or(0, |trial| trial.batch)
    }
}

/// The searches on the GPU. Batches that were tried later are added to the search of their case and cap.
///
/// # Errors
/// The measurements cannot be read.
pub fn searches() -> Result<Vec<Search>> {
    let read = |name: &str| read_compressed::<Searches>(&folder().join("maxbatch").join(name));
    let mut found = read("measured.json.gz")?.searches;
    for more in read("holes.json.gz")?.searches {
        let same = |search: &&mut Search| (&search.case, search.cap) == (&more.case, more.cap);
        let search =
            found.iter_mut().find(same).ok_or_else(|| format!("no search for {} under this cap", more.case))?;
        search.trials.extend(more.trials);
        search.trials.sort_by_key(|trial| trial.batch);
        search.trials.dedup_by_key(|trial| trial.batch);
    }
    Ok(found)
}

/// A search beside the answer of `vramfit max-batch`.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The search on the GPU.
    pub search: Search,
    /// The largest batch that completed, as did all smaller ones that were tried.
    pub measured: i64,
    /// The answer of `vramfit max-batch`.
    pub predicted: i64,
    /// How many of the tried batches are predicted correctly to fit or not, and how many were tried.
    pub verdicts: (usize, usize),
    /// How many of those that ran have the predicted peak to the byte, and how many ran.
    pub peaks: (usize, usize),
    /// Like `verdicts`, only of batches without an uncertain workspace and with equal results under every order of addresses.
    pub certain: (usize, usize),
}

impl Compared {
    /// Whether the answer is below the largest batch found, and the search skipped the first batch predicted not to fit.
    fn is_open(&self) -> bool {
        self.predicted < self.measured && self.search.trials.iter().all(|trial| trial.batch != self.predicted + 1)
    }
}

/// Runs `vramfit max-batch` for each search.
///
/// # Errors
/// The measurements cannot be read, or a model cannot be simulated.
pub fn compare(searches: Vec<Search>) -> Result<Vec<Compared>> {
    let cases = measured()?.cases;
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    let gpu = catalogue.find("H200").map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for search in searches {
        let measured = search.found();
        let case = cases.get(&search.case).ok_or_else(|| format!("no case {} was measured", search.case))?;
        let model = read_file(capture_of(case)).map_err(|error| format!("{}: {error}", search.case))?;
        let (sizes, variant, training) = choices(&model, &case.settings)?;
        let setup = Setup::new(sizes, variant, training);
        let device = Device { gpu, is_asked: false, vram: Some(search.cap), cudnn: None };
        let bench = Workbench::new(&model, None, device);
        let control = Control::default();
        let predicted = max_batch(&bench, &setup, LIMIT, &control)
            .ok_or_else(|| format!("{}: the model has no batch to choose", search.case))?;
        let (mut verdicts, mut peaks, mut certain) = ((0, 0), (0, 0), (0, 0));
        for trial in &search.trials {
            let runs = simulated(&bench, &setup, trial.batch);
            let outcome = |run: &Run| (run.peak_reserved, run.failure.is_some());
            let are_alike = runs.windows(2).all(|pair| outcome(&pair[0]) == outcome(&pair[1]));
            if let Some(run) = runs.first().filter(|run| are_alike && run.guessed.is_empty()) {
                certain.0 += usize::from(run.failure.is_some() == trial.failure.is_some());
                certain.1 += 1;
            }
            let run = bench.with_batch(&setup, trial.batch).and_then(|setup| bench.fitting_run(&setup, &control));
            verdicts.0 += usize::from(run.is_some() == trial.failure.is_none());
            verdicts.1 += 1;
            if let (None, Some(run), Some(reserved)) = (&trial.failure, &run, trial.peak_reserved) {
                peaks.0 += usize::from(run.run.peak_reserved == reserved);
                peaks.1 += 1;
            }
        }
        found.push(Compared { search, measured, predicted: predicted.batch, verdicts, peaks, certain });
    }
    found.sort_by(|one, other| (&one.search.case, one.search.cap).cmp(&(&other.search.case, other.search.cap)));
    Ok(found)
}

/// Each simulation of a batch: the expected requests and, where they are uncertain, their bounds and mixtures, each under its
/// orders of addresses.
fn simulated(bench: &Workbench<'_>, setup: &Setup, batch: i64) -> Vec<Run> {
    let runs = bench.with_batch(setup, batch).and_then(|setup| {
        let scenarios = bench.scenarios(&setup).ok()?;
        Some(scenarios.runs(&bench.device, &bench.settings(&setup), false))
    });
    runs.iter().flat_map(Runs::iter).cloned().collect()
}

/// Every batch of a case that was tried, beside each simulation of it: the expected requests, their lower and upper bounds,
/// each under every order of addresses.
///
/// # Errors
/// The measurements cannot be read, there is no search for the case, or its model cannot be simulated.
pub fn trials_of(name: &str) -> Result<String> {
    let cases = measured()?.cases;
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    let gpu = catalogue.find("H200").map_err(|error| error.to_string())?;
    let case = cases.get(name).ok_or_else(|| format!("no case {name} was measured"))?;
    let model = read_file(capture_of(case)).map_err(|error| format!("{name}: {error}"))?;
    let (sizes, variant, training) = choices(&model, &case.settings)?;
    let setup = Setup::new(sizes, variant, training);
    let mut text = String::new();
    for search in searches()?.into_iter().filter(|search| search.case == name) {
        let device = Device { gpu, is_asked: false, vram: Some(search.cap), cudnn: None };
        let bench = Workbench::new(&model, None, device);
        let _ = writeln!(text, "{name} under {} MiB; peaks in MiB, measured, then simulated", search.cap >> 20);
        for trial in &search.trials {
            let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let reserved = trial.peak_reserved.map_or_else(String::new, |bytes| format!(" {:.0}", mebibytes(bytes)));
            let _ = write!(
                text,
                "{:6} {}{reserved} |",
                trial.batch,
                if trial.failure.is_some() { "fails" } else { "runs" }
            );
            for (index, run) in simulated(&bench, &setup, trial.batch).iter().enumerate() {
                let gap = if index % 3 == 0 { "  " } else { " " };
                let ending = match (&run.failure, run.phases.last()) {
                    (Some(_), Some(last)) => {
                        format!(" fails {} {:?}", last.step.map_or(0, |step| step + 1), last.phase)
                    }
                    _ => String::new(),
                };
                let _ = write!(text, "{gap}{:.0}{ending}", mebibytes(run.peak_reserved));
            }
            text.push('\n');
        }
    }
    if text.is_empty() { Err(format!("no search for {name}")) } else { Ok(text) }
}

/// The page `docs/max-batch-accuracy.md`.
///
/// # Errors
/// The measurements cannot be read, or a model cannot be simulated.
pub fn page() -> Result<String> {
    let rows = compare(searches()?)?;
    let tally = |chosen: Option<Chosen>| {
        let rows: Vec<&Compared> =
            rows.iter().filter(|row| chosen.is_none_or(|chosen| row.search.chosen == chosen)).collect();
        let equal = rows.iter().filter(|row| row.predicted == row.measured).count();
        let above = rows.iter().filter(|row| row.predicted > row.measured).count();
        let open = rows.iter().filter(|row| row.is_open()).count();
        let untried =
            if open > 0 { format!(" ({open} of them next to a batch that was not tried)") } else { String::new() };
        format!("{}: {equal} equal, {above} above, {} below{untried}", rows.len(), rows.len() - equal - above)
    };
    let sum = |of: fn(&Compared) -> (usize, usize)| {
        rows.iter().map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let (verdicts, peaks, certain) = (sum(|row| row.verdicts), sum(|row| row.peaks), sum(|row| row.certain));
    let mut text = format!(
        "# The largest batch\n\nMade by `cargo run --release -p vramfit-validation -- max-batch --write`: the \
         answers of `vramfit max-batch` beside trials on an H200 under `set_per_process_memory_fraction`. Each trial runs three \
         steps in its own process (`validation/maxbatch/search.py`). Found is the largest batch that completed, as did every \
         smaller one that was tried. Tried are the batches of a bisection, the three below the result and the three after the \
         first that failed. A batch counts as fitting only if it fits under each order in which CUDA may choose addresses and, \
         where cuDNN's workspaces are uncertain, with their lower bounds, expected sizes and upper bounds. The answer may \
         therefore be below the batch found.\n\n\
         - pairs of case and cap: {}\n\
         - of these, tried while the rules and decision trees were made: {}\n\
         - chosen and tried after these were fixed, before the series of layers: {}\n\
         - chosen and tried after the series was fixed too: {}\n\
         - of new architectures and settings, chosen and tried last: {}. Rules were corrected after these results were seen; \
         before that, 28 were equal, 2 above, 4 below\n\
         - {} of {} tried batches are predicted correctly to fit or not; so are {} of {} of those without an uncertain workspace \
         and with equal results under every order of addresses\n\
         - of {} that ran and are predicted to fit, {} have the predicted peak reserved to the byte\n\n\
         | case | cap in MiB | found | predicted | tried batches predicted correctly | peaks to the byte |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
        tally(None),
        tally(Some(Chosen::Early)),
        tally(Some(Chosen::AfterTrees)),
        tally(Some(Chosen::AfterSeries)),
        tally(Some(Chosen::AfterPlans)),
        verdicts.0,
        verdicts.1,
        certain.0,
        certain.1,
        peaks.1,
        peaks.0,
    );
    for row in &rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} of {} | {} of {} |",
            row.search.case,
            row.search.cap >> 20,
            row.measured,
            row.predicted,
            row.verdicts.0,
            row.verdicts.1,
            row.peaks.0,
            row.peaks.1,
        );
    }
    Ok(text)
}
