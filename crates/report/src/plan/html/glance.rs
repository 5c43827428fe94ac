//! As it is and the best plan of each group, side by side.

use vramfit_plan::search::Plan;

use super::super::{PlanReport, times, title};
use super::id;
use crate::estimate::mark;
use crate::page::escape;
use crate::page::parts::{Share, meter};

/// A row each.
pub fn glance(report: &PlanReport<'_, '_>) -> String {
    let outcome = report.outcome;
    let most = outcome.groups.iter().filter_map(|group| group.best.as_ref()).map(|plan| plan.taken);
    let most = most.chain([report.outcome.needed, report.outcome.fit.capacity.low]).max().unwrap_or(1);
    // One length for all, so that they can be compared.
    let bar = |name: &str, takes: &str, taken: u64, color: usize| {
        let label = format!("{name}: {takes}");
        meter(&label, &[Share { name, bytes: taken, color }], Some(report.outcome.fit.capacity.low), most)
    };
    let mut rows = format!(
        "<tr><th scope=\"row\">As it is</th><td class=\"wide\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
        bar("as it is", &report.start_takes(), report.outcome.needed, 12),
        report.start_takes(),
        times(1.0)
    );
    for group in &outcome.groups {
        let name = format!("<a href=\"#{}\">{}</a>", id(group.risk), title(group.risk));
        rows += &match &group.best {
            Some(best) => format!(
                "<tr><th scope=\"row\">{name}<br><small>{}</small></th><td class=\"wide\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
                changes(best),
                bar(title(group.risk), &report.plan_takes(best), best.taken, color(id(group.risk))),
                report.plan_takes(best),
                times(best.slowdown)
            ),
            None => {
                format!("<tr><th scope=\"row\">{name}</th><td>{}</td><td></td><td></td></tr>", report.no_plan(group))
            }
        };
    }
    let capacity = report.outcome.fit.capacity;
    format!(
        "<table class=\"glance\"><thead><tr><th scope=\"col\">plan</th><th scope=\"col\">of what there is</th><th scope=\"col\" class=\"number\">takes</th><th scope=\"col\" class=\"number\">time</th></tr></thead><tbody>{rows}</tbody></table><p class=\"help\">{}. Time is for the same work, by that of the start.</p>",
        mark(capacity.low, capacity.high)
    )
}

fn changes(plan: &Plan) -> String {
    match plan.changes.len() {
        0 => "nothing needs to change".to_owned(),
        _ => plan.changes.iter().map(|change| escape(change.trick)).collect::<Vec<_>>().join(", "),
    }
}

fn color(id: &str) -> usize {
    match id {
        "none" => 1,
        "mixed-precision" => 5,
        "weight-state" => 2,
        "smaller-dtype" => 4,
        _ => 3,
    }
}
