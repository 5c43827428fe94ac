//! The verdict, the numbers at the top, the holders and the findings, as plain HTML.

use vramfit_explain::history::OUTSIDE;
use vramfit_explain::origin::Activity;
use vramfit_explain::roles::Role;
use vramfit_explain::{Explanation, Finding};
use vramfit_trace::snapshot::Snapshot;

use crate::explain::location::{activity, location, role, stack};
use crate::explain::text::who;
use crate::explain::words::{count, percent, words};
use crate::page::parts::{Column, Number, head, number};
use crate::page::treemap::{Leaf, treemap};
use crate::page::{Verdict, escape};
use crate::size::{grouped, human};

/// How many holders are listed.
const HOLDERS: usize = 40;

/// Whether anything was found.
pub fn verdict(snapshot: &Snapshot, explanation: &Explanation) -> Verdict {
    let findings = &explanation.findings;
    let first = findings.first().map_or_else(String::new, |finding| {
        format!("<p>{}: {}</p>", finding.details.kind(), escape(&words(snapshot, explanation, finding).title))
    });
    let differences = match explanation.history.mismatches {
        0 => String::new(),
        number => {
            format!("<p>{} differences between the recording and its replay; sizes are estimates</p>", grouped(number))
        }
    };
    let title = match findings.len() {
        0 => "No findings".to_owned(),
        number => count(number as u64, "finding"),
    };
    Verdict { is_good: Some(findings.is_empty()), title, details: first + &differences }
}

/// The numbers at the top.
pub fn numbers(explanation: &Explanation) -> Vec<Number> {
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
    let pinned = format!("beside live blocks, {} of reserved", percent(reserved.pinned, reserved.reserved));
    let events = format!("{} events", grouped(explanation.history.allocated.len() as u64));
    vec![
        Number::new("Peak allocated", human(peak.allocated), when),
        Number::new("Peak reserved", human(reserved.reserved), format!("{} allocated then", human(reserved.allocated))),
        Number::new("Not usable elsewhere", human(reserved.pinned), pinned),
        Number::new("Steps", grouped(explanation.steps.list.len() as u64), events),
    ]
}

/// Who holds what at the peak: the treemap, and the largest in a table.
pub fn holders(snapshot: &Snapshot, explanation: &Explanation) -> String {
    let peak = &explanation.peak;
    let names: Vec<String> = peak.holders.iter().map(|holder| who(snapshot, holder)).collect();
    let leaves: Vec<Leaf<'_>> = peak
        .holders
        .iter()
        .zip(&names)
        .map(|(holder, name)| Leaf {
            kind: role(holder.role),
            color: Role::ALL.iter().position(|other| *other == holder.role).unwrap_or(0),
            owner: name,
            block: name,
            bytes: holder.bytes,
        })
        .collect();
    let rows: String = peak
        .holders
        .iter()
        .zip(&names)
        .take(HOLDERS)
        .map(|(holder, name)| {
            format!(
                "<tr><th scope=\"row\" class=\"place\">{}</th><td>{}</td>{}{}</tr>",
                escape(name),
                role(holder.role),
                number(holder.bytes, &human(holder.bytes)),
                number(holder.blocks, &grouped(holder.blocks))
            )
        })
        .collect();
    let head = head(&[Column::Text("line"), Column::Text("for"), Column::Number("held"), Column::Number("blocks")]);
    let rest = match peak.holders.len().saturating_sub(HOLDERS) {
        0 => String::new(),
        more => format!("<caption>the {HOLDERS} largest; {more} smaller ones are left out</caption>"),
    };
    format!(
        "{}<div class=\"scroll\"><table class=\"sortable holders\">{rest}{head}<tbody>{rows}</tbody></table></div>",
        treemap(&leaves)
    )
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
        .map_or(String::new(), |frame| format!("<p class=\"place\">{}</p>", escape(&location(snapshot, frame))));
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
