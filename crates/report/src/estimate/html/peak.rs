//! What the peak is made of, and how memory goes from phase to phase.

use super::super::EstimateReport;
use super::super::device::mark;
use super::super::holders::CATEGORY_NAMES;
use crate::page::parts::{Share, meter};
use crate::size::human;

/// Colours beside those of the categories: rounding, cached, the context.
const ROUNDING: usize = 10;
const CACHED: usize = 0;
const CONTEXT: usize = 12;

/// The bar, its table, and the table of phases.
pub fn peak(report: &EstimateReport) -> String {
    let mut shares: Vec<Share<'_>> = report
        .breakdown
        .iter()
        .map(|(name, bytes)| Share {
            name,
            bytes: bytes.as_u64().unwrap_or(0),
            color: CATEGORY_NAMES.iter().position(|known| known == name).map_or(ROUNDING, |kind| kind + 1),
        })
        .collect();
    let cached = report.peak_reserved.saturating_sub(report.peak_allocated);
    shares.push(Share { name: "cached, unused", bytes: cached, color: CACHED });
    shares.push(Share { name: "CUDA context", bytes: report.context, color: CONTEXT });
    // With --vram, what there is does not hold the context.
    let beside = report.vram.map_or(0, |_| report.context);
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
                if report.vram.is_some() { " with the CUDA context beside it" } else { "" }
            )
        }),
        phases(report),
        second_peak(report)
    )
}

fn phases(report: &EstimateReport) -> String {
    let has_micro_batches = report.phases.iter().any(|phase| phase["micro"].as_u64() > Some(0));
    let row = |phase: &serde_json::Value| {
        let number = |key: &str| human(phase[key].as_u64().unwrap_or(0));
        let step = phase["step"].as_u64().map_or_else(String::new, |step| format!("step {}, ", step + 1));
        let micro = phase["micro"].as_u64().filter(|_| has_micro_batches);
        let micro = micro.map_or_else(String::new, |micro| format!(" {}", micro + 1));
        format!(
            "<tr><th scope=\"row\">{step}{}{micro}</th><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            phase_name(phase["phase"].as_str().unwrap_or("")),
            number("peak"),
            number("allocated"),
            number("reserved")
        )
    };
    let rows: String = report.phases.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table><caption>Phase by phase</caption><thead><tr><th scope=\"col\">phase</th><th scope=\"col\" class=\"number\">peak</th><th scope=\"col\" class=\"number\">at its end</th><th scope=\"col\" class=\"number\">reserved</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// A phase beside its step's number: what PyTorch calls a step is the optimizer's.
pub fn phase_name(name: &str) -> &str {
    match name {
        "step" => "optimizer",
        name => name,
    }
}

fn second_peak(report: &EstimateReport) -> String {
    let Some(second) = &report.second_peak else { return String::new() };
    let place = match second.phase {
        "step" => "the optimizer's step".to_owned(),
        phase => format!("the {phase} pass"),
    };
    format!(
        "<p class=\"help\">The next peak is {} in {place}: cutting the first below it saves no more than {}.</p>",
        human(second.allocated),
        human(report.peak_allocated.saturating_sub(second.allocated))
    )
}
