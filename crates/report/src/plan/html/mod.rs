//! The page on a plan: the verdict, how the best plans compare, the groups, memory against time, each trick.

mod frontier;
mod glance;
mod group;
mod tricks;

use vramfit_plan::Risk;
use vramfit_training::answer::{self, CapacityKind, TopPeaks};

use super::text::sufficient_gpus;
use super::{PlanReport, times, title};
use crate::estimate::{Breakdown, room};
use crate::page::parts::{Number, notes};
use crate::page::{Origin, Page, Section, Verdict, escape};
use crate::size::human;

const STYLE: &str = include_str!("plan.css");

/// The page on `report`.
pub fn page(report: &PlanReport<'_, '_>, origin: &Origin) -> String {
    let mut sections = vec![Section::new("glance", "At a glance", glance::glance(report))];
    let first = report.outcome.groups.iter().position(|group| group.best.is_some());
    for (index, group) in report.outcome.groups.iter().enumerate() {
        let body = group::group(report, group, Some(index) == first);
        sections.push(Section::new(id(group.risk), title(group.risk), body));
    }
    if let Some(plot) = frontier::frontier(report) {
        sections.push(Section::new("frontier", "Memory against time", plot));
    }
    let unbound = report.unbound().map_or_else(String::new, |text| format!("<p class=\"help\">{}</p>", escape(&text)));
    sections.push(Section::new("tricks", "Each trick alone", tricks::tricks(&report.outcome.tricks) + &unbound));
    Page {
        command: "plan",
        name: report.model,
        verdict: verdict(report),
        numbers: numbers(report),
        sections,
        origin,
        settings: report.settings(&report.outcome.start).map_or_else(Vec::new, |settings| settings.rows()),
        styles: vec![STYLE],
        scripts: Vec::new(),
        data: None,
    }
    .html()
}

/// A group's name in links and looks.
fn id(risk: Risk) -> &'static str {
    risk.name()
}

fn numbers(report: &PlanReport<'_, '_>) -> Vec<Number> {
    let outcome = report.outcome;
    let (batch, note) = match outcome.max_batch {
        Some(found) if found.is_final && found.batch == 0 => ("0".to_owned(), "not even one sample fits as it is"),
        Some(found) if found.is_final => (found.batch.to_string(), "every one up to it fits as it is"),
        Some(found) => (format!("{} or more", found.batch), "larger ones were not tried"),
        None => ("none to choose".to_owned(), "the model has no batch"),
    };
    let best = outcome.plans().next();
    let capacity = outcome.fit.capacity;
    vec![
        Number::new("It would take", report.start_takes(), "without any change"),
        Number::new("There are", room(capacity.low, capacity.high), place(report)),
        Number::new("Largest batch", batch, note),
        match best {
            Some(best) => Number::new("Price of the first plan", times(best.slowdown), "time for the same work"),
            None => Number::new("Simulated", outcome.simulated.to_string(), "candidates"),
        },
    ]
}

fn place(report: &PlanReport<'_, '_>) -> String {
    match report.outcome.fit.kind {
        CapacityKind::Reserved => "that PyTorch may reserve".to_owned(),
        CapacityKind::Gpu => format!("on the {}, the CUDA context included", report.bench.device.gpu.name),
    }
}

fn verdict(report: &PlanReport<'_, '_>) -> Verdict {
    let outcome = report.outcome;
    let target = report.target();
    let is_fine = report.start_fits();
    let best = outcome.plans().next();
    let as_it_is = match outcome.fit.verdict {
        answer::Verdict::Fits => match report.too_tight() {
            Some(tight) => format!("Fits too tightly {target}, {tight}"),
            None => format!("Fits as it is {target}"),
        },
        answer::Verdict::TooClose => format!("Too close to tell as it is {target}"),
        answer::Verdict::DoesNotFit => format!("Does not fit as it is {target}"),
    };
    let (is_good, heading) = match best {
        Some(_) if is_fine => (true, as_it_is),
        Some(_) => (true, format!("{as_it_is}; fits with changes")),
        None if outcome.is_cut_short => (false, format!("{as_it_is}; no plan was found until it was stopped")),
        None => (false, format!("{as_it_is}, and nothing makes it fit")),
    };
    let mut details = String::new();
    if let Some(best) = best.filter(|_| !is_fine) {
        let changes: Vec<String> = best.changes.iter().map(|change| escape(&change.after)).collect();
        let what = title(best.risk).to_lowercase();
        details += &format!(
            "<p>Recommended, {what}: {}. It then takes {} and {} the time.</p>",
            changes.join("; "),
            report.plan_takes(best),
            times(best.slowdown)
        );
    }
    details += &nothing(report);
    if outcome.is_cut_short {
        details += "<p>Stopped early: this is what was found until then.</p>";
    }
    details += &notes(&report.notes);
    Verdict { is_good: Some(is_good), title: heading, details }
}

/// What is missing where nothing fits.
fn nothing(report: &PlanReport<'_, '_>) -> String {
    let Some(nothing) = report.nothing() else { return String::new() };
    let floor: Vec<String> = TopPeaks::of(&nothing.leanest.run).map_or_else(Vec::new, |peaks| {
        let parts = Breakdown::from(peaks.first.peak.account).by_category();
        let shown = parts.into_iter().filter(|(_, bytes)| *bytes > 0);
        shown.map(|(category, bytes)| format!("{} {}", category.name(), human(bytes))).collect()
    });
    let changes = match nothing.changes.join("; ") {
        changes if changes.is_empty() => "without any change".to_owned(),
        changes => format!("with {}", escape(&changes)),
    };
    format!(
        "<p>{} are missing for what needs the least, {}, {changes}. Its floor: {}.</p><p>In the catalogue: {}.</p>",
        human(nothing.missing),
        human(nothing.leanest.taken),
        floor.join(", "),
        escape(&sufficient_gpus(nothing).join("; "))
    )
}
