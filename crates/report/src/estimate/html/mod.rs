//! The page on an estimate: from the verdict to what the peak is made of, the timeline, who holds it, the modules.
//!
//! A simulated run is packed as a recording is ([`data`]) and shown in the same viewer; all else is plain HTML and can be
//! read without any script.

mod data;
mod holders;
mod peak;
mod table;

use vramfit_graph::bind::Bound;
use vramfit_training::Run;
use vramfit_training::layers::Layer;

use super::EstimateReport;
use super::device::room;
use super::places::Places;
use crate::page::parts::{Number, notes};
use crate::page::{Origin, Page, Section, Verdict, escape, settings, treemap};
use crate::size::{grouped, human};
use crate::viewer;

const STYLE: &str = include_str!("estimate.css");
const GROUPINGS: &str = "<option value=\"role\">purpose</option><option value=\"module\">module</option>\
                         <option value=\"line\">line</option>";
const AXES: &str = "<option value=\"event\">requests</option>";

/// The page on `report`, made of `run`, which kept its journal.
pub fn page(report: &EstimateReport, bound: &Bound<'_>, run: &Run, layers: &[Layer], origin: &Origin) -> String {
    let places = Places::new(bound);
    let holders = report.all_holders(bound, run, &places);
    Page {
        command: "estimate",
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
        settings: settings(&report.settings),
        styles: vec![viewer::STYLE, treemap::STYLE, STYLE],
        scripts: viewer::SCRIPTS.to_vec(),
        data: Some(data::pack(bound, run, &places)),
    }
    .html()
}

/// The numbers at the top.
fn numbers(report: &EstimateReport) -> Vec<Number> {
    let reserved = &report.reserved_range;
    let spread = match reserved.low == reserved.high {
        true => "the same under every order of addresses".to_owned(),
        false => format!("{} to {}, by {}", human(reserved.low), human(reserved.high), reserved.causes()),
    };
    let word = |key: &str| report.peak[key].as_str().unwrap_or("").to_owned();
    let step = report.peak["step"].as_u64().map_or_else(String::new, |step| format!("step {}, ", step + 1));
    let place = match report.peak.is_null() {
        true => "it dies while the model is moved to the GPU".to_owned(),
        false => format!("{step}{} {}", peak::phase_name(&word("phase")), word("module")),
    };
    let whose = if report.is_context_measured { "measured" } else { "as on an H200" };
    vec![
        Number::new("Peak allocated", human(report.peak_allocated), place),
        Number::new("Peak reserved", human(report.peak_reserved), spread),
        Number::new(
            "On the device",
            human(report.device_used),
            format!("{} of it CUDA context, {whose}", human(report.context)),
        ),
        Number::new("Parameters", grouped(report.parameters), String::new()),
    ]
}

/// Whether it fits, and what to know about the answer.
fn verdict(report: &EstimateReport) -> Verdict {
    let mut details = String::new();
    let (is_good, title) = match &report.fit {
        None => (None, format!("It takes {} on the GPU", human(report.device_used))),
        Some(fit) => {
            let place = match &fit.gpu {
                Some(gpu) if report.vram.is_none() => {
                    format!("on the {gpu}, which has {} for it", room(fit.capacity, fit.capacity_high))
                }
                _ => format!("in {}", human(fit.capacity)),
            };
            let title = match fit.verdict {
                "fits" => format!("Fits {place}"),
                "too-close" => format!("Too close to tell {place}"),
                _ => format!("Does not fit {place}"),
            };
            (Some(fit.verdict == "fits"), title)
        }
    };
    if let Some(fit) = &report.fit {
        match &fit.message {
            Some(message) => details += &format!("<p class=\"place\">{}</p>", escape(message)),
            None => {
                let taken = if report.vram.is_some() { report.peak_reserved } else { report.device_used };
                let share = |capacity: u64| format!("{:.0} %", 100.0 * taken as f64 / capacity.max(1) as f64);
                let (least, most) = (share(fit.capacity_high), share(fit.capacity));
                let shares = if least == most { most } else { format!("{least} to {most}") };
                let room = room(fit.capacity, fit.capacity_high);
                details += &format!("<p>It takes {} of {room} ({shares}).</p>", human(taken));
            }
        }
    }
    details += match report.exact {
        true => "<p>Exact to the byte, as far as PyTorch is deterministic.</p>",
        false => "<p>Not called exact; the notes say why.</p>",
    };
    if !report.unmodelled.is_empty() {
        details += &format!("<p class=\"bad\">Not modelled: {}</p>", escape(&report.unmodelled.join(", ")));
    }
    details += &notes(&report.notes);
    Verdict { is_good, title, details }
}
