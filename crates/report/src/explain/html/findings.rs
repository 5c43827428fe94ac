//! The findings and the numbers at the top, as plain HTML.

use vramfit_explain::history::OUTSIDE;
use vramfit_explain::origin::Activity;
use vramfit_explain::{Explanation, Finding};
use vramfit_trace::snapshot::Snapshot;

use super::escape::escape;
use crate::explain::place::{activity, place, stack};
use crate::explain::words::{percent, words};
use crate::size::{grouped, human};

/// The numbers at the top.
pub fn summary(explanation: &Explanation) -> String {
    let peak = &explanation.peak;
    let reserved = explanation.reserved_peak;
    let mut when = match peak.event {
        OUTSIDE => "before the first event".to_string(),
        event => format!("event {}", grouped(event.into())),
    };
    if let Some(step) = peak.step {
        when += &format!(", step {}", step + 1);
    }
    if !matches!(peak.activity, Activity::Unknown | Activity::Other) {
        when += &format!(", {}", activity(peak.activity));
    }
    let numbers = [
        ("Peak allocated", human(peak.allocated), when),
        ("Peak reserved", human(reserved.reserved), format!("{} allocated then", human(reserved.allocated))),
        (
            "Stranded",
            human(reserved.stranded()),
            format!(
                "{} of reserved; largest hole {}",
                percent(reserved.stranded(), reserved.reserved),
                human(reserved.largest_hole)
            ),
        ),
        (
            "Steps",
            grouped(explanation.steps.list.len() as u64),
            format!("{} events", grouped(explanation.history.allocated.len() as u64)),
        ),
    ];
    let item = |(name, value, note): &(&str, String, String)| {
        format!("<div><dt>{name}</dt><dd>{}<small>{}</small></dd></div>", escape(value), escape(note))
    };
    numbers.iter().map(item).collect()
}

/// The findings, each with a link that moves the timeline.
pub fn findings(snapshot: &Snapshot, explanation: &Explanation) -> String {
    if explanation.findings.is_empty() {
        return "<p class=\"clean\">No findings.</p>".into();
    }
    let all = explanation.findings.iter().enumerate();
    let items: String = all.map(|(index, found)| item(snapshot, explanation, index, found)).collect();
    format!("<ol>{items}</ol>")
}

fn item(snapshot: &Snapshot, explanation: &Explanation, index: usize, finding: &Finding) -> String {
    let words = words(snapshot, explanation, finding);
    let kind = finding.details.kind();
    let line = finding
        .place
        .map_or(String::new(), |frame| format!("<p class=\"place\">{}</p>", escape(&place(snapshot, frame))));
    let facts: String = words.facts.iter().map(|fact| format!("<li>{}</li>", escape(fact))).collect();
    let frames: String =
        stack(snapshot, finding.stack).iter().map(|frame| format!("<li>{}</li>", escape(frame))).collect();
    let frames = match frames.as_str() {
        "" => String::new(),
        frames => format!("<ol class=\"stack\">{frames}</ol>"),
    };
    format!(
        "<li class=\"finding {kind}\"><h3><span class=\"kind\">{kind}</span> {}</h3>{line}\
         <p class=\"advice\">{}</p><a class=\"show\" href=\"#finding-{index}\" data-finding=\"{index}\">Show in the \
         timeline</a><details><summary>Why</summary><ul>{facts}</ul>{frames}</details></li>",
        escape(&words.title),
        escape(&words.advice)
    )
}
