//! One self-contained page on an estimate: the step's timeline in the viewer that recordings have, the treemap of the
//! peak, the modules.
//!
//! A simulated run is packed as a recording is; numbers, treemap and table are plain HTML and need no script.

mod data;
mod table;
mod treemap;

use vramfit_graph::bind::Bound;
use vramfit_step::layers::Layer;
use vramfit_step::training::Run;

use super::EstimateReport;
use super::places::Places;
use crate::explain::html::{SCRIPTS, STYLE, base64, escape, fill};
use crate::size::{grouped, human};

const PAGE: &str = include_str!("page.html");
const MORE_STYLE: &str = include_str!("page.css");

/// The page on `report`, made of `run`, which kept its journal.
pub fn page(report: &EstimateReport, bound: &Bound<'_>, run: &Run, layers: &[Layer]) -> String {
    let places = Places::new(bound);
    let packed = base64::encode(&data::pack(bound, run, &places));
    let parts = [
        ("{{name}}", escape(&report.model)),
        ("{{style}}", STYLE.to_owned() + MORE_STYLE),
        ("{{summary}}", summary(report)),
        ("{{verdict}}", verdict(report)),
        ("{{treemap}}", treemap::treemap(&report.all_holders(bound, run, &places))),
        ("{{layers}}", table::table(layers)),
        ("{{script}}", SCRIPTS.concat()),
        ("{{data}}", packed),
    ];
    fill(PAGE, &parts)
}

/// The numbers at the top.
fn summary(report: &EstimateReport) -> String {
    let spread = |low: u64, high: u64| match low == high {
        true => "the same under every order of addresses".to_owned(),
        false => format!("{} to {}", human(low), human(high)),
    };
    let word = |key: &str| report.peak[key].as_str().unwrap_or("").to_owned();
    let step = report.peak["step"].as_u64().map_or_else(String::new, |step| format!("step {}, ", step + 1));
    let numbers = [
        ("Peak allocated", human(report.peak_allocated), format!("{step}{} {}", word("phase"), word("module"))),
        ("Peak reserved", human(report.peak_reserved), spread(report.reserved_range.low, report.reserved_range.high)),
        ("On the device", human(report.device_used), format!("{} of it CUDA context", human(report.context))),
        ("Parameters", grouped(report.parameters), String::new()),
    ];
    let item = |(name, value, note): &(&str, String, String)| {
        format!("<div><dt>{name}</dt><dd>{}<small>{}</small></dd></div>", escape(value), escape(note))
    };
    numbers.iter().map(item).collect()
}

/// Whether it fits, and what to know about the answer.
fn verdict(report: &EstimateReport) -> String {
    let mut lines = Vec::new();
    if let Some(fit) = &report.fit {
        let class = if fit.verdict == "fits" { "clean" } else { "bad" };
        let place = fit.gpu.as_ref().map_or_else(String::new, |gpu| format!(" on the {gpu}"));
        let text = format!("{}{place}: there are {}", fit.verdict.replace('-', " "), human(fit.capacity));
        lines.push(format!("<p class=\"{class}\">{}</p>", escape(&text)));
        if let Some(message) = &fit.message {
            lines.push(format!("<p class=\"place\">{}</p>", escape(message)));
        }
    }
    if !report.unmodelled.is_empty() {
        lines.push(format!("<p class=\"bad\">not modelled: {}</p>", escape(&report.unmodelled.join(", "))));
    }
    lines.extend(report.notes.iter().map(|note| format!("<p class=\"help\">{}</p>", escape(note))));
    lines.concat()
}
