//! The plans of one group: changes as a diff with what each saves and costs, why the next peak is what it is, the code.

use vramfit_plan::TrainingEffect;
use vramfit_plan::search::{Group, Plan};

use super::super::{PlanReport, saved, times};
use super::id;
use crate::page::escape;
use crate::page::parts::code;
use crate::size::human;

/// The group; the code of its best plan is open where `is_first`.
pub fn group(report: &PlanReport<'_, '_>, group: &Group, is_first: bool) -> String {
    let about = match group.effect {
        TrainingEffect::None => "The same numbers, but for the order in which they are added up.",
        TrainingEffect::Rounding => "The same training in another precision.",
        TrainingEffect::Training => "Other results: another batch, optimizer or size.",
    };
    let Some(best) = &group.best else {
        return format!("<p class=\"help\">{about}</p><p class=\"nothing\">{}</p>", report.no_plan(group));
    };
    let others: String = group
        .others
        .iter()
        .enumerate()
        .map(|(index, plan)| plan_html(report, plan, &place(group.effect, index + 1), false))
        .collect();
    let others = match group.others.len() {
        0 => String::new(),
        number => format!(
            "<details class=\"others\"><summary>Less memory for more time: {number} more</summary>{others}</details>"
        ),
    };
    format!(
        "<p class=\"help\">{about} The cheapest of {} combinations:</p>{}{others}",
        group.candidates,
        plan_html(report, best, &place(group.effect, 0), is_first)
    )
}

/// A plan's name in links.
pub fn place(effect: TrainingEffect, index: usize) -> String {
    format!("plan-{}-{}", id(effect), index + 1)
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
