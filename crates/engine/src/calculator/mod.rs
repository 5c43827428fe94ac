//! Answers the calculator's questions with the code behind `estimate`, `max-batch` and `plan`.

mod models;
mod options;
mod words;

use serde::Serialize;
use vramfit_graph::model::Model;
use vramfit_plan::Control;
use vramfit_report::catalogue::CatalogueReport;
use vramfit_report::estimate::{EstimateReport, Timeline};
use vramfit_report::models::ModelsReport;
use vramfit_report::plan::{MaxBatchReport, PlanReport};
use vramfit_web::calculator::{Calculator, Fields, IsOver, Listing, Problem, Question};

use self::models::{Models, shown_name};
use self::options::options;
use self::words::{Asked, command_line, is_draft};
use crate::arguments::{MaxBatchArguments, PlanArguments, RunSettings};
use crate::cudnn::Cudnn;
use crate::estimate::{Estimated, conflicts};
use crate::known_gpus::KnownGpus;
use crate::plan::cluster::{cluster, count_gpus};
use crate::plan::{Searched, largest_batch, need_capacity, on_bench, refuse_unplanned, searched};
use vramfit_report::failure::Failure;

/// The points of a timeline: about as many as a wide page has columns for it.
const POINTS: usize = 720;

/// Micro-batches of a run.
const MOST_PASSES: u64 = 500;

/// The simulator with all that it knows.
pub struct Engine {
    known: KnownGpus,
    cudnn: Box<dyn Cudnn + Send>,
    models: Models,
}

/// The answer of `/api/estimate`.
#[derive(Serialize)]
struct EstimateAnswer<'a> {
    /// What `vramfit estimate --json` writes.
    #[serde(flatten)]
    report: &'a EstimateReport,
    /// Allocated memory in the course of the run.
    timeline: Timeline,
    /// The built-in model that answers for the name, which may be written in another way; absent for an uploaded file.
    #[serde(skip_serializing_if = "Option::is_none")]
    built_in: Option<&'a str>,
    /// Whether only the reported steps were simulated; absent where the ones after them were too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    draft: bool,
    /// The command line that gives the same answer.
    command: String,
    /// The command line that searches for what makes it fit.
    plan_command: String,
}

/// The answer of `/api/plan`.
#[derive(Serialize)]
struct PlanAnswer<T> {
    /// What `vramfit plan --json` writes.
    #[serde(flatten)]
    report: T,
    /// The command line that gives the same answer.
    command: String,
}

impl Engine {
    /// An engine with the built-in models.
    pub fn new(known: KnownGpus, cudnn: Box<dyn Cudnn + Send>) -> Result<Engine, Failure> {
        Ok(Engine { known, cudnn, models: Models::new()? })
    }

    fn estimate(&self, fields: &Fields, options: &RunSettings, plain: &Model) -> Result<String, Failure> {
        conflicts::refuse(options)?;
        let changed = match options.changes_model() {
            true => Some(options.with_torch(options.at.changed(plain.clone())?)),
            false => None,
        };
        let model = changed.as_ref().unwrap_or(plain);
        let plan_command = command_line(Question::Plan, fields, &options.at.model);
        let draft = is_draft(fields);
        let estimated = Estimated::of(options, model, &self.known, &*self.cudnn, plan_command.clone(), draft)?;
        json(&EstimateAnswer {
            report: &estimated.report,
            timeline: Timeline::new(&estimated.answer, POINTS),
            built_in: self.models.built_in_model(&options.at.model).map(|model| model.row.name.as_str()),
            draft,
            command: command_line(Question::Estimate, fields, &options.at.model),
            plan_command,
        })
    }

    fn max_batch(&self, given: &MaxBatchArguments, plain: &Model, is_over: IsOver) -> Result<String, Failure> {
        let options = &given.run;
        conflicts::refuse(options)?;
        need_capacity(options, "max-batch")?;
        let plain = options.with_torch(plain.clone());
        on_bench(options, (given.margin.margin, None), &plain, &self.known, &*self.cudnn, |bench, setup, _, _| {
            let found = largest_batch(options, bench, setup, &Control::until(is_over))?;
            json(&MaxBatchReport::new(found, &bench.device))
        })
    }

    fn plan(&self, fields: &Fields, given: &PlanArguments, plain: &Model, is_over: IsOver) -> Result<String, Failure> {
        let options = &given.run;
        refuse_unplanned(options)?;
        conflicts::refuse(options)?;
        need_capacity(options, "plan")?;
        let cluster = cluster(given)?;
        let plain = options.with_torch(plain.clone());
        on_bench(
            options,
            (given.margin.margin, cluster),
            &plain,
            &self.known,
            &*self.cudnn,
            |bench, setup, known, first| {
                let Searched { outcome, notes } =
                    searched(given, bench, setup, known, &*self.cudnn, &Control::until(is_over))?;
                let notes = first.into_iter().chain(notes).collect();
                let report = PlanReport { model: &options.at.model, bench, outcome: &outcome, notes };
                let command = command_line(Question::Plan, fields, &options.at.model);
                json(&PlanAnswer { report: report.json(), command })
            },
        )
    }
}

impl Calculator for Engine {
    fn list(&self, what: Listing) -> Result<String, Problem> {
        match what {
            Listing::Models => {
                let mut report = ModelsReport::default();
                self.models.built_in().iter().for_each(|model| report.add(model.row.clone()));
                json(&report)
            }
            Listing::Gpus => json(&CatalogueReport::new(self.known.catalogue.gpus())),
            Listing::Options => json(&options()),
        }
        .map_err(|failure| problem(&failure))
    }

    fn keep(&self, name: &str, bytes: Vec<u8>) -> Result<String, Problem> {
        let uploaded = self.models.keep(name, &bytes)?;
        json(&uploaded).map_err(|failure| problem(&failure))
    }

    fn answer(&self, question: Question, fields: &Fields, is_over: IsOver) -> Result<String, Problem> {
        let mut asked = Asked::read(question, fields)?;
        if let Asked::Plan(given) = &mut asked {
            count_gpus(given);
        }
        let run = asked.run();
        refuse_long_run(run)?;
        let model = self.models.find(&run.at.model)?;
        run.at.model = shown_name(&run.at.model).to_owned();
        match &asked {
            Asked::Estimate(given) => self.estimate(fields, &given.run, &model),
            Asked::MaxBatch(given) => self.max_batch(given, &model, is_over),
            Asked::Plan(given) => self.plan(fields, given, &model, is_over),
        }
        .map_err(|failure| problem(&failure))
    }
}

/// A run of very many micro-batches takes more time and memory than a server gives a stranger.
fn refuse_long_run(run: &RunSettings) -> Result<(), Problem> {
    let passes = u64::from(run.accumulate) * u64::from(run.steps);
    if passes <= MOST_PASSES {
        return Ok(());
    }
    Err(Problem::of_question(
        format!("accumulate × steps: found {passes} micro-batches, at most {MOST_PASSES} are simulated here"),
        Some("the command line simulates more"),
    ))
}

/// A failure as the page shows it.
fn problem(failure: &Failure) -> Problem {
    Problem::of_question(failure.to_string(), failure.hint())
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::at("JSON", error))
}
