//! The largest batch that fits, beside the one found by trying on a GPU.

use std::fmt::Write;

use serde::Deserialize;
use vramfit_catalogue::Catalogue;
use vramfit_plan::max_batch::{LIMIT, max_batch};
use vramfit_plan::{AllocConf, Control, Setup, Workbench};
use vramfit_readers::read_file;
use vramfit_training::Run;
use vramfit_training::answer::{Device, Runs};

use crate::estimate::{capture_of, choices};
use crate::measured::{folder, measured, read_compressed};
use crate::recordings::Result;

#[derive(Debug, Deserialize)]
struct Searches {
    searches: Vec<Search>,
}

/// A search on a GPU.
#[derive(Clone, Debug, Deserialize)]
pub struct Search {
    /// The measured case whose settings it has.
    pub case: String,
    /// What PyTorch may reserve, in bytes.
    pub cap: u64,
    /// Every batch that was tried, in rising order.
    pub trials: Vec<Tried>,
    /// What stood when it was chosen.
    #[serde(default)]
    pub chosen: Chosen,
}

/// When a pair of case and cap was chosen, and then tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Chosen {
    /// While the rules were made.
    #[default]
    Early,
    /// After the rules and the first trees stood.
    AfterTrees,
    /// After the series of layers stood as well.
    AfterSeries,
    /// When the plans stood too, of models and settings that were in no list before.
    AfterPlans,
}

/// One batch that was tried.
#[derive(Clone, Debug, Deserialize)]
pub struct Tried {
    /// The batch.
    pub batch: i64,
    /// Whether it died, and how.
    pub died: Option<serde_json::Value>,
    /// The most that was reserved, building not counted; absent where it died before its first step had ended.
    pub peak_reserved: Option<u64>,
}

impl Search {
    /// The largest batch that was tried and ran, as did all smaller ones that were tried.
    fn found(&self) -> i64 {
        let ran = self.trials.iter().take_while(|trial| trial.died.is_none());
        ran.last().map_or(0, |trial| trial.batch)
    }
}

/// What was tried on the GPU: the searches, and single batches tried afterwards, which belong to the search of their case
/// and cap.
fn searches() -> Result<Vec<Search>> {
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
    /// What was found on the GPU.
    pub search: Search,
    /// The largest batch that was tried and ran, with all smaller ones that were tried.
    pub measured: i64,
    /// The answer.
    pub predicted: i64,
    /// Of the batches that were tried: how many were rightly said to fit or not to fit, and how many there are.
    pub verdicts: (usize, usize),
    /// Of those that ran: how many have the predicted peak to the byte, and how many there are.
    pub peaks: (usize, usize),
    /// The same as `verdicts`, of those for which no workspace is guessed and every order of addresses comes to the same.
    pub certain: (usize, usize),
}

impl Compared {
    /// Whether the answer is below what was found, and the first batch that is said to die was not tried: the search jumped over it.
    fn is_open(&self) -> bool {
        self.predicted < self.measured && self.search.trials.iter().all(|trial| trial.batch != self.predicted + 1)
    }
}

/// Every search.
///
/// # Errors
/// The measurements cannot be read, or a model cannot be simulated.
pub fn compared() -> Result<Vec<Compared>> {
    let cases = measured()?.cases;
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    let gpu = catalogue.find("H200").map_err(|error| error.to_string())?;
    let context = gpu.context.ok_or("the H200's context is not in the catalogue")?;
    let mut found = Vec::new();
    for search in searches()? {
        let measured = search.found();
        let case = cases.get(&search.case).ok_or_else(|| format!("no case {} was measured", search.case))?;
        let model = read_file(capture_of(case)).map_err(|error| format!("{}: {error}", search.case))?;
        let (sizes, variant, training) = choices(&model, &case.settings)?;
        let setup = Setup { sizes, variant, training, alloc_conf: AllocConf::default(), is_in_place: false };
        let device = Device { gpu, context, is_asked: false, vram: Some(search.cap) };
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
                certain.0 += usize::from(run.failure.is_some() == trial.died.is_some());
                certain.1 += 1;
            }
            let run = bench.with_batch(&setup, trial.batch).and_then(|setup| bench.fitting_run(&setup, &control));
            verdicts.0 += usize::from(run.is_some() == trial.died.is_none());
            verdicts.1 += 1;
            if let (None, Some(run), Some(reserved)) = (&trial.died, &run, trial.peak_reserved) {
                peaks.0 += usize::from(run.peak_reserved == reserved);
                peaks.1 += 1;
            }
        }
        found.push(Compared { search, measured, predicted: predicted.batch, verdicts, peaks, certain });
    }
    found.sort_by(|one, other| (&one.search.case, one.search.cap).cmp(&(&other.search.case, other.search.cap)));
    Ok(found)
}

/// Each simulation of a batch: the expected requests and, where they are not certain, their bounds and mixtures, each under its
/// orders of addresses.
fn simulated(bench: &Workbench<'_>, setup: &Setup, batch: i64) -> Vec<Run> {
    let runs = bench.with_batch(setup, batch).and_then(|setup| {
        let scenarios = bench.scenarios(&setup).ok()?;
        Some(scenarios.runs(&bench.device, &bench.settings(&setup), false))
    });
    runs.iter().flat_map(Runs::iter).cloned().collect()
}

/// What became of every batch of a case that was tried, beside each simulation of it: the requests as expected, the least and
/// the most, each under every order of addresses.
///
/// # Errors
/// The measurements cannot be read, there is no search for the case, or its model cannot be simulated.
pub fn trials_of(name: &str) -> Result<String> {
    let cases = measured()?.cases;
    let catalogue = Catalogue::built_in().map_err(|error| error.to_string())?;
    let gpu = catalogue.find("H200").map_err(|error| error.to_string())?;
    let context = gpu.context.ok_or("the H200's context is not in the catalogue")?;
    let case = cases.get(name).ok_or_else(|| format!("no case {name} was measured"))?;
    let model = read_file(capture_of(case)).map_err(|error| format!("{name}: {error}"))?;
    let (sizes, variant, training) = choices(&model, &case.settings)?;
    let setup = Setup { sizes, variant, training, alloc_conf: AllocConf::default(), is_in_place: false };
    let mut text = String::new();
    for search in searches()?.into_iter().filter(|search| search.case == name) {
        let device = Device { gpu, context, is_asked: false, vram: Some(search.cap) };
        let bench = Workbench::new(&model, None, device);
        let _ = writeln!(text, "{name} under {} MiB; peaks in MiB, measured, then simulated", search.cap >> 20);
        for trial in &search.trials {
            let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let reserved = trial.peak_reserved.map_or_else(String::new, |bytes| format!(" {:.0}", mebibytes(bytes)));
            let _ =
                write!(text, "{:6} {}{reserved} |", trial.batch, if trial.died.is_some() { "dies" } else { "runs" });
            for (index, run) in simulated(&bench, &setup, trial.batch).iter().enumerate() {
                let gap = if index % 3 == 0 { "  " } else { " " };
                let ending = match (&run.failure, run.phases.last()) {
                    (Some(_), Some(last)) => format!(" dies {} {:?}", last.step.map_or(0, |step| step + 1), last.phase),
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
    let rows = compared()?;
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
        "# The largest batch\n\nMade by `cargo run --release -p vramfit-validation -- max-batch --write`: what `vramfit \
         max-batch` answers beside what was found by trying on an H200 under `set_per_process_memory_fraction`, three steps a \
         trial, each in a process of its own (`validation/maxbatch/search.py`). Found is the largest batch such that it and every \
         smaller one that was tried ran; tried are those on the way there, the three below it and the three after the one \
         that died. Where cuDNN's \
         workspaces are not known for certain, it must fit with the least, the likeliest and the most of what is taken for possible, and always under each order in which CUDA may \
         hand out addresses; then the answer may be below.\n\n\
         - pairs of case and cap: {}\n\
         - of these, tried while the rules and trees were made: {}\n\
         - chosen and tried after they stood, before the series of layers: {}\n\
         - chosen and tried after these stood too: {}\n\
         - of architectures and settings that nothing here had seen, chosen and tried last: {}; this is after rules were mended with their \
         results in view, at the first try it was 28 equal, 2 above, 4 below\n\
         - {} of {} batches that were tried are rightly said to fit or not to fit; {} of {} of those for which no workspace is guessed and every \
         order of addresses comes to the same\n\
         - of {} that ran and are said to fit, {} have the predicted peak reserved to the byte\n\n\
         | case | cap in MiB | found | predicted | tried batches rightly judged | peaks to the byte |\n\
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
