//! The plans of one group: changes as a diff with what each saves and costs, why the next peak is what it is, the code.

use vramfit_plan::Risk;
use vramfit_plan::search::{Group, Plan};

use super::super::{PlanReport, saved, times};
use super::id;
use crate::page::escape;
use crate::page::parts::code;
use crate::size::human;

/// The group; the code of its best plan is open where `is_first`.
pub fn group(report: &PlanReport<'_, '_>, group: &Group, is_first: bool) -> String {
    let about = match group.risk {
        Risk::None => "The same numbers, but for the order in which they are added up.",
        Risk::MixedPrecision => "Autocast: weights and optimizer state keep their precision.",
        Risk::WeightState => "Another optimizer, which keeps less for each weight and needs another learning rate.",
        Risk::SmallerDtype => "Weights, gradients and optimizer state in a smaller type: small updates may be lost.",
        Risk::SmallerTraining => "Another training: a smaller batch, sequence, image or model.",
    };
    let which = match group.risk {
        Risk::SmallerTraining => "The smallest change",
        _ => "The cheapest",
    };
    let Some(best) = &group.best else {
        return format!("<p class=\"help\">{about}</p><p class=\"nothing\">{}</p>", report.no_plan(group));
    };
    let others: String = group
        .others
        .iter()
        .enumerate()
        .map(|(index, plan)| plan_html(report, plan, &place(group.risk, index + 1), false))
        .collect();
    let others = match group.others.len() {
        0 => String::new(),
        number => format!(
            "<details class=\"others\"><summary>{}: {number} more</summary>{others}</details>",
            report.others(group)
        ),
    };
    format!(
        "<p class=\"help\">{about} {which} of {} combinations:</p>{}{others}",
        group.candidates,
        plan_html(report, best, &place(group.risk, 0), is_first)
    )
}

/// A plan's name in links.
pub fn place(risk: Risk, index: usize) -> String {
    format!("plan-{}-{}", id(risk), index + 1)
}

fn plan_html(report: &PlanReport<'_, '_>, plan: &Plan, place: &str, is_open: bool) -> String {
    let mut rows = String::new();
    for change in &plan.changes {
        let warning =
            change.warning.as_ref().map_or_else(String::new, |text| format!("<small>note: {}</small>", escape(text)));
        rows += &format!(
            "<tr><td><small>{}</small><del>{}</del><ins>{}</ins>{warning}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            escape(change.trick),
            escape(&change.before),
            escape(&change.after),
            saved(change.saving),
            times(change.slowdown)
        );
    }
    let changes = match rows.as_str() {
        "" => "<p>Nothing needs to change.</p>".to_owned(),
        rows => format!(
            "<table class=\"changes\"><thead><tr><th scope=\"col\">change</th><th scope=\"col\" class=\"number\">memory</th><th scope=\"col\" class=\"number\">time</th></tr></thead><tbody>{rows}</tbody></table>"
        ),
    };
    let why = report.bench.bind(&plan.setup).map_or_else(String::new, |bound| report.why(&bound, &plan.run));
    format!(
        "<article class=\"plan\" id=\"{place}\"><h3>{} reserved at the peak, {} on the device, time {}</h3>{changes}<p class=\"help\">Why that is the peak: {}.</p><details{}><summary>The code</summary>{}</details></article>",
        human(plan.run.peak_reserved),
        human(plan.device_used),
        times(plan.slowdown),
        escape(&why),
        if is_open { " open" } else { "" },
        code(&plan.written.code)
    )
}
