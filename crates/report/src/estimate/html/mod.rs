//! The page on an estimate: from the verdict to what the peak is made of, the timeline, who holds it, the modules.
//!
//! A simulated run is packed as a recording is ([`data`]) and shown in the same viewer; all else is plain HTML and can be
//! read without any script.

mod data;
mod holders;
mod peak;
mod table;

use vramfit_graph::bind::Bound;
use vramfit_training::answer::Answer;
use vramfit_training::layers::Layer;

use super::fit::room;
use super::locations::Locations;
use super::{EstimateReport, holders as holding};
use crate::names::{VerdictName, joined};
use crate::page::parts::{Number, notes};
use crate::page::{Origin, Page, Section, Verdict, escape, treemap};
use crate::settings::AnswerSettings;
use crate::size::{grouped, human};
use crate::viewer;

const STYLE: &str = include_str!("estimate.css");
const GROUPINGS: &str = "<option value=\"role\">purpose</option><option value=\"module\">module</option>\
                         <option value=\"line\">line</option>";
const AXES: &str = "<option value=\"event\">requests</option>";

/// The page on `report`, made of `answer`, whose expected run kept its journal.
pub fn page<S: AnswerSettings>(
    report: &EstimateReport<S>,
    bound: &Bound<'_>,
    answer: &Answer,
    layers: &[Layer],
    origin: &Origin,
) -> String {
    let locations = Locations::new(bound);
    let holders = holding::at_peak(bound, answer, &locations);
    Page {
        command: S::COMMAND,
        name: &report.model,
        verdict: verdict(report),
        numbers: numbers(report),
        sections: vec![
            Section::new("peak", "At the peak", peak::peak(report)),
            viewer::section(GROUPINGS, AXES),
            Section {
                id: "holders",
                title: "Who holds the peak",
                tools: treemap::choice("module"),
                body: holders::holders(&holders),
            },
            Section::new("layers", "Modules", table::table(layers)),
        ],
        origin,
        settings: report.settings.rows(),
        styles: vec![viewer::STYLE, treemap::STYLE, STYLE],
        scripts: viewer::SCRIPTS.to_vec(),
        data: Some(data::pack(bound, answer, &locations)),
    }
    .html()
}

/// The numbers at the top.
fn numbers<S>(report: &EstimateReport<S>) -> Vec<Number> {
    let reserved = &report.reserved_range;
    let spread = match reserved.causes() {
        None => "the same under every order of addresses".to_owned(),
        Some(causes) => format!("{} to {}, by {causes}", human(reserved.low), human(reserved.high)),
    };
    let place = match &report.peak {
        None => "beyond 64-bit addresses".to_owned(),
        Some(peak) => {
            let step = peak.step.map_or_else(String::new, |step| format!("step {}, ", step + 1));
            format!("{step}{} {}", peak.phase.beside_step(), peak.module.as_deref().unwrap_or(""))
        }
    };
    vec![
        Number::new("Peak allocated", human(report.peak_allocated), place),
        Number::new("Peak reserved", human(report.peak_reserved), spread),
        Number::new(
            "On the device",
            human(report.device_used),
            format!("{} of it CUDA context, {}", human(report.context), report.context_words()),
        ),
        Number::new("Parameters", grouped(report.parameters), String::new()),
    ]
}

/// Whether it fits, and what to know about the answer.
fn verdict<S>(report: &EstimateReport<S>) -> Verdict {
    let mut details = format!("<p>{}</p>", escape(&report.summary));
    let (is_good, title) = match &report.fit {
        None => (None, format!("It takes {} on the GPU", human(report.device_used))),
        Some(fit) => {
            let target = fit.target();
            let title = match fit.verdict {
                VerdictName::Fits => format!("Fits {target}"),
                VerdictName::TooClose => match fit.misfit() {
                    Some(misfit) => format!("Too close to tell{}: {misfit}", fit.on_gpu()),
                    None => format!("Too close to tell {target}"),
                },
                VerdictName::DoesNotFit => match fit.misfit() {
                    Some(misfit) => format!("Does not fit{}: {misfit}", fit.on_gpu()),
                    None => format!("Does not fit {target}"),
                },
            };
            (Some(fit.verdict == VerdictName::Fits), title)
        }
    };
    if let Some(fit) = &report.fit {
        match &fit.message {
            Some(message) => {
                details += &format!("<p><code>{}</code> finds what makes it fit.</p>", escape(&report.plan_command));
                details += &format!("<p class=\"place\">{}</p>", escape(message));
            }
            None => {
                let share = |capacity: u64| format!("{:.0} %", 100.0 * fit.needed as f64 / capacity.max(1) as f64);
                let (least, most) = (share(fit.capacity_high), share(fit.capacity));
                let shares = if least == most { most } else { format!("{least} to {most}") };
                let room = room(fit.capacity, fit.capacity_high);
                details += &format!("<p>It takes {} of {room} ({shares}).</p>", human(fit.needed));
            }
        }
    }
    details += match report.exact {
        true => "<p>Exact to the byte, as far as PyTorch is deterministic.</p>",
        false => "<p>Not called exact; the notes say why.</p>",
    };
    if !report.unmodelled.is_empty() {
        details += &format!("<p class=\"bad\">Not modelled: {}</p>", escape(&joined(&report.unmodelled)));
    }
    details += &notes(&report.notes);
    Verdict { is_good, title, details }
}
