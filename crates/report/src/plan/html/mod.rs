//! One self-contained page on a plan; no script in it.

use vramfit_plan::search::{Group, Plan, Point, Row};

use super::{PlanReport, saved, times};
use crate::explain::html::{STYLE, escape, fill};
use crate::size::human;

const PAGE: &str = include_str!("page.html");
const MORE_STYLE: &str = include_str!("page.css");
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 180.0;

/// The page on `report`.
pub fn page(report: &PlanReport<'_, '_>) -> String {
    let answer = report.answer;
    let groups: String = answer.groups.iter().map(|group| group_html(report, group)).collect();
    let rows: String = answer.tricks.iter().map(row).collect();
    let notes: String = report.notes.iter().map(|note| format!("<p class=\"help\">{}</p>", escape(note))).collect();
    let parts = [
        ("{{name}}", escape(report.model)),
        ("{{style}}", STYLE.to_owned() + MORE_STYLE),
        ("{{summary}}", summary(report)),
        ("{{verdict}}", verdict(report) + &notes),
        ("{{groups}}", groups),
        ("{{tricks}}", rows),
    ];
    fill(PAGE, &parts)
}

fn summary(report: &PlanReport<'_, '_>) -> String {
    let answer = report.answer;
    let batch = answer.max_batch.map_or_else(|| "none to choose".to_owned(), |found| found.batch.to_string());
    let numbers = [
        ("It would take", human(answer.peaks.reserved), "reserved at the peak, without a cap".to_owned()),
        ("There are", human(report.bench.device.capacity().map_or(0, |capacity| capacity.low)), String::new()),
        ("Largest batch", batch, "every one up to it fits".to_owned()),
        ("Simulated", answer.simulated.to_string(), "candidates".to_owned()),
    ];
    let item = |(name, value, note): &(&str, String, String)| {
        format!("<div><dt>{name}</dt><dd>{}<small>{}</small></dd></div>", escape(value), escape(note))
    };
    numbers.iter().map(item).collect()
}

fn verdict(report: &PlanReport<'_, '_>) -> String {
    let verdict = report.answer.judged.verdict.name();
    let class = if verdict == "fits" { "clean" } else { "bad" };
    let mut text = format!("<p class=\"{class}\">as it is: {}</p>", verdict.replace('-', " "));
    if let Some(nothing) = &report.answer.nothing {
        let gpu = nothing.gpu.as_ref().map_or("none in the catalogue", |gpu| gpu.name.as_str());
        text += &format!(
            "<p class=\"bad\">Nothing fits: {} are missing. The smallest GPU that would do: {}.</p>",
            human(nothing.missing),
            escape(gpu)
        );
    }
    text
}

fn group_html(report: &PlanReport<'_, '_>, group: &Group) -> String {
    let title = match group.effect.name() {
        "none" => "Without any effect on the training",
        "rounding" => "With another rounding",
        _ => "With another training",
    };
    let body = match &group.best {
        None => format!("<p class=\"bad\">nothing fits, of {} combinations</p>", group.candidates),
        Some(best) => {
            let others: String = group.others.iter().map(|plan| plan_html(report, plan, false)).collect();
            plan_html(report, best, true) + &others
        }
    };
    let plot = plot(&group.frontier, report.bench.device.capacity().map(|capacity| capacity.low));
    format!("<section class=\"panel\"><div class=\"bar\"><h2>{title}</h2></div>{body}{plot}</section>")
}

fn plan_html(report: &PlanReport<'_, '_>, plan: &Plan, is_open: bool) -> String {
    let mut rows = String::new();
    for change in &plan.changes {
        let warning =
            change.warning.as_ref().map_or_else(String::new, |text| format!("<small>mind: {}</small>", escape(text)));
        rows += &format!(
            "<tr><td><del>{}</del><ins>{}</ins>{warning}</td><td>{}</td><td>{}</td></tr>",
            escape(&change.before),
            escape(&change.after),
            saved(change.saving),
            times(change.slowdown)
        );
    }
    if plan.changes.is_empty() {
        rows += "<tr><td>nothing needs to change</td><td></td><td></td></tr>";
    }
    let why = report.bench.bind(&plan.setup).map_or_else(String::new, |bound| report.why(&bound, &plan.run));
    format!(
        "<details class=\"plan\"{}><summary>{} at the peak, {} on the device, time {}</summary><table class=\"changes\"><tr><th>change</th><th>memory</th><th>time</th></tr>{rows}</table><p class=\"help\">{}</p><pre class=\"code\">{}</pre></details>",
        if is_open { " open" } else { "" },
        human(plan.run.peak_reserved),
        human(plan.device_used),
        times(plan.slowdown),
        escape(&why),
        escape(&report.code(plan))
    )
}

fn row(row: &Row) -> String {
    let mut cells = String::new();
    if let Some(reason) = &row.reason {
        cells += &format!("<p class=\"help\">{}</p>", escape(reason));
    }
    for shown in &row.shown {
        cells += &format!("<p>{}: {}, time {}</p>", escape(&shown.what), saved(shown.saving), times(shown.slowdown));
    }
    for finding in &row.findings {
        let bytes = finding.bytes.map_or_else(String::new, |bytes| format!(": {}", human(bytes.unsigned_abs())));
        cells += &format!("<p>{}{bytes}</p>", escape(&finding.what));
    }
    format!(
        "<tr><th scope=\"row\">{}<small>effect: {}</small></th><td>{cells}<code>{}</code></td><td>{}</td></tr>",
        row.name,
        row.effect.name(),
        escape(row.written),
        escape(row.conflicts)
    )
}

/// The frontier as a picture.
fn plot(points: &[Point], capacity: Option<u64>) -> String {
    if points.len() < 2 {
        return String::new();
    }
    let most = points.iter().map(|point| point.taken).max().unwrap_or(1).max(1) as f64;
    let slowest = points.iter().map(|point| point.slowdown).fold(0.0, f64::max);
    let fastest = points.iter().map(|point| point.slowdown).fold(f64::INFINITY, f64::min);
    let across = |bytes: u64| 40.0 + bytes as f64 / most * (WIDTH - 60.0);
    let up = |slowdown: f64| 10.0 + (slowest - slowdown) / (slowest - fastest).max(1e-9) * (HEIGHT - 50.0);
    let mut marks = String::new();
    if let Some(capacity) = capacity.filter(|&capacity| (capacity as f64) < most) {
        let x = across(capacity);
        marks += &format!("<line class=\"limit\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{:.1}\"/>", HEIGHT - 25.0);
    }
    for point in points {
        marks += &format!(
            "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\"><title>{}, time {}</title></circle>",
            if point.fits { "fits" } else { "misses" },
            across(point.taken),
            up(point.slowdown),
            human(point.taken),
            times(point.slowdown)
        );
    }
    format!(
        "<svg class=\"frontier\" role=\"img\" aria-label=\"Memory against time\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">{marks}<text x=\"0\" y=\"14\">{}</text><text x=\"0\" y=\"{:.0}\">{}</text><text x=\"40\" y=\"{:.0}\">0</text><text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text></svg>",
        times(slowest),
        HEIGHT - 36.0,
        times(fastest),
        HEIGHT - 6.0,
        WIDTH - 10.0,
        HEIGHT - 6.0,
        human(most as u64)
    )
}
