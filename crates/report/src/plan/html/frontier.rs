//! Memory against time as a picture: what no other candidate of its group beats in both, and the plans.

use std::fmt::Write;

use vramfit_plan::Risk;

use super::super::{PlanReport, WIDE, times, title};
use super::{group, id};
use crate::size::human;

/// The plot's edges, in percent of the picture. Text keeps its size whatever the picture's.
const LEFT: f64 = 11.0;
const RIGHT: f64 = 98.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 88.0;

/// A mark in the picture.
struct Mark {
    risk: Option<Risk>,
    taken: u64,
    slowdown: f64,
    text: String,
    link: Option<String>,
}

/// The picture, or nothing where there are fewer than two marks.
pub fn frontier(report: &PlanReport<'_, '_>) -> Option<String> {
    let marks = marks(report);
    if marks.len() < 3 {
        return None;
    }
    let capacity = report.outcome.fit.capacity.low;
    let most = marks.iter().map(|mark| mark.taken).max().unwrap_or(1);
    // Far beyond everything the mark of what there is would only press the rest together.
    let limit = Some(capacity).filter(|&capacity| capacity <= most.saturating_mul(2));
    let least = marks.iter().map(|mark| mark.taken).chain(limit).min().unwrap_or(0);
    let across = Axis::new(least as f64, most.max(limit.unwrap_or(0)) as f64, LEFT, RIGHT, false);
    let slowdowns = || marks.iter().map(|mark| mark.slowdown);
    let (fastest, slowest) = (slowdowns().fold(f64::INFINITY, f64::min), slowdowns().fold(0.0, f64::max));
    let up = Axis::new(fastest, slowest, BOTTOM, TOP, slowest > WIDE * fastest);
    let mut picture = grid(&across, &up);
    if let Some(limit) = limit {
        let x = across.place(limit as f64);
        let (anchor, shift) = if x > 70.0 { ("end", "-6") } else { ("start", "6") };
        let _ = write!(
            picture,
            "<line class=\"limit\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"{TOP}%\" y2=\"{BOTTOM}%\"/><text class=\"limit-text\" x=\"{x:.2}%\" dx=\"{shift}\" y=\"{TOP}%\" dy=\"4\" text-anchor=\"{anchor}\">there are {}</text>",
            human(limit)
        );
    }
    picture += &ways(report, &across, &up);
    for mark in &marks {
        picture += &mark_html(mark, &across, &up);
    }
    let key: String = Risk::ALL
        .iter()
        .map(|&risk| {
            format!(
                "<li class=\"{}\"><svg aria-hidden=\"true\" viewBox=\"-7 -7 14 14\"><path d=\"{}\"/></svg>{}</li>",
                id(risk),
                shape(Some(risk)),
                title(risk)
            )
        })
        .collect();
    Some(format!(
        "<svg class=\"frontier\" role=\"group\" aria-label=\"Memory against time\" data-pieces>{picture}</svg><ul class=\"key\" aria-label=\"Shapes\">{key}</ul><p class=\"help\">Memory to the right, time upwards. Filled marks are the plans above and lead to them; the others are what no combination of their group beats in both. <kbd>Tab</kbd> into the picture, then arrow keys go from mark to mark.</p>"
    ))
}

fn marks(report: &PlanReport<'_, '_>) -> Vec<Mark> {
    let mut marks = vec![Mark {
        risk: None,
        taken: report.outcome.needed,
        slowdown: 1.0,
        text: format!("as it is: {}, time {}", report.start_takes(), times(1.0)),
        link: None,
    }];
    for group in &report.outcome.groups {
        let plans: Vec<_> = group.best.iter().chain(&group.others).collect();
        let name = title(group.risk).to_lowercase();
        for point in &group.frontier {
            let is_plan = |plan: &&&vramfit_plan::search::Plan| {
                plan.taken == point.taken && (plan.slowdown - point.slowdown).abs() < 1e-9
            };
            if plans.iter().any(|plan| is_plan(&plan)) {
                continue;
            }
            let fits = if point.fits { "fits" } else { "does not fit" };
            marks.push(Mark {
                risk: Some(group.risk),
                taken: point.taken,
                slowdown: point.slowdown,
                text: format!("{name}: {}, time {}, {fits}", human(point.taken), times(point.slowdown)),
                link: None,
            });
        }
        for (index, plan) in plans.into_iter().enumerate() {
            let changes: Vec<&str> = plan.changes.iter().map(|change| change.after.as_str()).collect();
            let (taken, takes, changes) = (plan.taken, report.plan_takes(plan), changes.join("; "));
            marks.push(Mark {
                risk: Some(group.risk),
                taken,
                slowdown: plan.slowdown,
                text: format!("plan {name}: {takes}, time {}: {changes}", times(plan.slowdown)),
                link: Some(group::place(group.risk, index)),
            });
        }
    }
    marks
}

/// Lines from point to point of each group's frontier.
fn ways(report: &PlanReport<'_, '_>, across: &Axis, up: &Axis) -> String {
    let mut html = String::new();
    for group in &report.outcome.groups {
        for pair in group.frontier.windows(2) {
            let (x1, x2) = (across.place(pair[0].taken as f64), across.place(pair[1].taken as f64));
            let (y1, y2) = (up.place(pair[0].slowdown), up.place(pair[1].slowdown));
            let _ = write!(
                html,
                "<line class=\"way {}\" x1=\"{x1:.2}%\" x2=\"{x2:.2}%\" y1=\"{y1:.2}%\" y2=\"{y2:.2}%\"/>",
                id(group.risk)
            );
        }
    }
    html
}

fn mark_html(mark: &Mark, across: &Axis, up: &Axis) -> String {
    let (x, y) = (across.place(mark.taken as f64), up.place(mark.slowdown));
    let class = mark.risk.map_or("start", id);
    let text = crate::page::escape(&mark.text);
    let inside = format!(
        "<title>{text}</title><svg x=\"{x:.2}%\" y=\"{y:.2}%\" overflow=\"visible\"><path d=\"{}\"/></svg>",
        shape(mark.risk)
    );
    match &mark.link {
        Some(link) => format!("<a class=\"{class}\" data-piece href=\"#{link}\">{inside}</a>"),
        None => format!("<g class=\"{class}\" data-piece role=\"img\">{inside}</g>"),
    }
}

/// A disc, a square, a diamond, a triangle on its head, a triangle; a cross for the start. So colours are not needed to
/// distinguish them.
fn shape(risk: Option<Risk>) -> &'static str {
    match risk {
        Some(Risk::None) => "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z",
        Some(Risk::MixedPrecision) => "M-4.5 -4.5H4.5V4.5H-4.5Z",
        Some(Risk::WeightState) => "M0 -6L6 0L0 6L-6 0Z",
        Some(Risk::SmallerDtype) => "M0 6L5.5 -4.5H-5.5Z",
        Some(Risk::SmallerTraining) => "M0 -6L5.5 4.5H-5.5Z",
        None => "M-5 -2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z",
    }
}

fn grid(across: &Axis, up: &Axis) -> String {
    let mut html = String::new();
    for bytes in across.ticks(binary_step(across.high - across.low)) {
        let x = across.place(bytes);
        let _ = write!(
            html,
            "<line class=\"grid\" x1=\"{x:.2}%\" x2=\"{x:.2}%\" y1=\"{TOP}%\" y2=\"{BOTTOM}%\"/><text x=\"{x:.2}%\" y=\"{BOTTOM}%\" dy=\"18\" text-anchor=\"middle\">{}</text>",
            human(bytes as u64)
        );
    }
    let ticks = if up.is_logarithmic {
        decades(up.low.exp(), up.high.exp())
    } else {
        up.ticks(decimal_step(up.high - up.low)).collect()
    };
    for slowdown in ticks {
        let y = up.place(slowdown);
        let _ = write!(
            html,
            "<line class=\"grid\" x1=\"{LEFT}%\" x2=\"{RIGHT}%\" y1=\"{y:.2}%\" y2=\"{y:.2}%\"/><text x=\"0\" y=\"{y:.2}%\" dy=\"4\">{}</text>",
            times(slowdown)
        );
    }
    html
}

/// From numbers to percent of the picture, with some room at both ends; the ends are logarithms on a logarithmic one.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_logarithmic: bool,
}

impl Axis {
    fn new(low: f64, high: f64, from: f64, to: f64, is_logarithmic: bool) -> Axis {
        let (low, high) = if is_logarithmic { (low.ln(), high.ln()) } else { (low, high) };
        let room = ((high - low) * 0.05).max(high.abs() * 0.005);
        Axis { low: low - room, high: high + room, from, to, is_logarithmic }
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.is_logarithmic { value.ln() } else { value };
        self.from + (value - self.low) / (self.high - self.low).max(f64::MIN_POSITIVE) * (self.to - self.from)
    }

    fn ticks(&self, step: f64) -> impl Iterator<Item = f64> {
        let (low, high) = ((self.low / step).ceil() as i64, (self.high / step).floor() as i64);
        (low..=high).map(move |number| number as f64 * step)
    }
}

/// 1, 2 and 5 times the powers of ten between two numbers.
fn decades(low: f64, high: f64) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(power)));
    all.filter(|tick| (low..=high).contains(tick)).collect()
}

/// A power of two that gives three to six ticks.
fn binary_step(span: f64) -> f64 {
    (span / 5.0).log2().ceil().exp2().max(1.0)
}

/// 1, 2 or 5 times a power of ten that gives few ticks, and not finer than what is shown.
fn decimal_step(span: f64) -> f64 {
    let power = 10f64.powf((span / 5.0).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= span / 5.0)
        .unwrap_or(1.0)
        .max(0.01)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_a_few_round_ticks_and_keep_their_ends_inside() {
        let axis = Axis::new(3e9, 12e9, LEFT, RIGHT, false);
        assert!(axis.place(3e9) > LEFT && axis.place(12e9) < RIGHT);
        let ticks: Vec<f64> = axis.ticks(binary_step(axis.high - axis.low)).collect();
        assert!((3..=6).contains(&ticks.len()), "{ticks:?}");
        assert!(ticks.iter().all(|tick| tick % f64::from(1 << 30) == 0.0), "{ticks:?}");
        assert_eq!(decimal_step(0.9), 0.2);
        assert_eq!(decimal_step(0.001), 0.01);
    }

    #[test]
    fn a_logarithmic_axis_gives_every_factor_the_same_room() {
        let axis = Axis::new(1.0, 100.0, BOTTOM, TOP, true);
        let rises = [axis.place(1.0) - axis.place(10.0), axis.place(10.0) - axis.place(100.0)];
        assert!((rises[0] - rises[1]).abs() < 1e-9 && rises[0] > 0.0, "{rises:?}");
        assert_eq!(decades(0.9, 60.0), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
    }

    #[test]
    fn an_axis_of_one_value_is_no_division_by_nothing() {
        let axis = Axis::new(1.0, 1.0, BOTTOM, TOP, false);
        assert!(axis.place(1.0).is_finite() && axis.ticks(0.01).count() <= 3);
    }
}
