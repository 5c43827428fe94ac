//! What the peak is made of, and how memory goes from phase to phase.

use vramfit_training::answer::CapacityKind;

use super::super::fit::mark;
use super::super::{EstimateReport, PhaseRow};
use crate::names::PhaseName;
use crate::page::parts::{Share, meter};
use crate::size::human;

/// Colours beside those of the categories: rounding, cached, the context.
const ROUNDING: usize = 10;
const CACHED: usize = 0;
const CONTEXT: usize = 12;

/// The bar, its table, and the table of phases.
pub fn peak<S>(report: &EstimateReport<S>) -> String {
    let by_category = report.breakdown.by_category();
    let mut shares: Vec<Share<'_>> = by_category
        .iter()
        .map(|(category, bytes)| Share { name: category.name(), bytes: *bytes, color: category.index() + 1 })
        .collect();
    shares.push(Share { name: "rounding", bytes: report.breakdown.rounding, color: ROUNDING });
    shares.push(Share { name: "cached, unused", bytes: report.cached(), color: CACHED });
    shares.push(Share { name: "CUDA context", bytes: report.context, color: CONTEXT });
    // What PyTorch may reserve does not include the context, which the bar does.
    let is_capped = report.fit.as_ref().is_some_and(|fit| fit.kind == CapacityKind::Reserved);
    let beside = if is_capped { report.context } else { 0 };
    let limit = report.fit.as_ref().map(|fit| (fit.capacity + beside, fit.capacity_high + beside));
    let label = format!("{} on the device, by what it is for", human(report.device_used));
    let rows: String = shares
        .iter()
        .filter(|share| share.bytes > 0)
        .map(|share| {
            format!(
                "<tr><th scope=\"row\"><i class=\"swatch\" style=\"--c:var(--c{})\"></i>{}</th><td class=\"number\">{}</td><td class=\"number\">{:.1} %</td></tr>",
                share.color,
                share.name,
                human(share.bytes),
                100.0 * share.bytes as f64 / report.device_used.max(1) as f64
            )
        })
        .collect();
    format!(
        "{}{}<div class=\"halves\"><table><caption>At the peak, of all on the device</caption><tbody>{rows}</tbody></table>{}</div>{}",
        meter(&label, &shares, limit.map(|(low, _)| low), 0),
        limit.map_or_else(String::new, |(low, high)| {
            format!(
                "<p class=\"help\">{}{}.</p>",
                mark(low, high),
                if is_capped { " with the CUDA context beside it" } else { "" }
            )
        }),
        phases(report),
        second_peak(report)
    )
}

fn phases<S>(report: &EstimateReport<S>) -> String {
    let has_micro_batches = report.has_micro_batches();
    let row = |phase: &PhaseRow| {
        let step = phase.step.map_or_else(String::new, |step| format!("step {}, ", step + 1));
        let micro = phase.micro.filter(|_| has_micro_batches);
        let micro = micro.map_or_else(String::new, |micro| format!(" {}", micro + 1));
        format!(
            "<tr><th scope=\"row\">{step}{}{micro}</th><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            phase.phase.beside_step(),
            human(phase.peak),
            human(phase.allocated),
            human(phase.reserved)
        )
    };
    let rows: String = report.phases.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table><caption>Phase by phase</caption><thead><tr><th scope=\"col\">phase</th><th scope=\"col\" class=\"number\">peak</th><th scope=\"col\" class=\"number\">at its end</th><th scope=\"col\" class=\"number\">reserved</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

fn second_peak<S>(report: &EstimateReport<S>) -> String {
    let Some(second) = &report.second_peak else { return String::new() };
    let place = match second.phase {
        PhaseName::Step => "the optimizer's step".to_owned(),
        phase => format!("the {} pass", phase.name()),
    };
    format!(
        "<p class=\"help\">The next peak is {} in {place}: cutting the first below it saves no more than {}.</p>",
        human(second.allocated),
        human(second.saving)
    )
}
