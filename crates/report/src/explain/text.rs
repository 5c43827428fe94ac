//! One screen for a terminal, 80 columns wide.

use anstyle::{AnsiColor, Style};
use vramfit_explain::history::OUTSIDE;
use vramfit_explain::origin::Activity;
use vramfit_explain::peak::Holder;
use vramfit_explain::roles::Role;
use vramfit_explain::{Explanation, Finding};
use vramfit_trace::snapshot::Snapshot;

use super::location::{activity, library_location, location, printable, role, shorten};
use super::words::{count, percent, words};
use crate::size::{grouped, human};

const WIDTH: usize = 80;
/// Holders shown: as many as leave room for the findings.
const HOLDERS: usize = 6;
/// Column at which the words of a finding begin.
const INDENT: usize = 15;
/// Findings shown with all their facts; the others have only title and advice.
const FULL: usize = 2;

/// The verdict on a recording.
pub fn text(snapshot: &Snapshot, explanation: &Explanation) -> String {
    let mut text = heading(explanation);
    text += &peak(snapshot, explanation);
    text += &holders(snapshot, explanation);
    text += &findings(snapshot, explanation);
    text
}

fn heading(explanation: &Explanation) -> String {
    let bold = Style::new().bold();
    let steps = &explanation.steps;
    let noun = if explanation.origins.has_frames && !steps.is_training { "call" } else { "step" };
    let found = match steps.list.len() {
        0 => "no steps found".into(),
        number => count(number as u64, noun),
    };
    let events = explanation.history.allocated.len() as u64;
    let mut text = format!("{bold}GPU {}{bold:#}: {} events, {found}\n", explanation.device, grouped(events));
    if explanation.history.mismatches > 0 {
        text += &format!(
            "{} differences between the recording and its replay; sizes are estimates\n",
            grouped(explanation.history.mismatches)
        );
    }
    text
}

fn peak(snapshot: &Snapshot, explanation: &Explanation) -> String {
    let bold = Style::new().bold();
    let peak = &explanation.peak;
    let mut when = vec![match peak.event {
        OUTSIDE => "before the first event".into(),
        event => format!("event {}", grouped(event.into())),
    }];
    when.extend(peak.time_us.map(|time| format!("{:.2} s in", time as f64 / 1e6)));
    let steps = &explanation.steps;
    when.extend(peak.step.map(|step| match steps.list.len() {
        whole if step < whole => format!("step {} of {whole}", step + 1),
        whole => format!("step {}, unfinished", whole + 1),
    }));
    if peak.activity != Activity::Unknown && peak.activity != Activity::Other {
        when.push(activity(peak.activity).into());
    }
    // What PyTorch itself marks says no more than the phase.
    let is_own = |name: &str| !name.starts_with("Optimizer.") && name != activity(peak.activity);
    let own = peak.marks.iter().rev().map(|&mark| snapshot.strings.get(mark)).find(|name| is_own(name));
    when.extend(own.map(|name| format!("in `{}`", shorten(&printable(name), 24))));
    let reserved = explanation.reserved_peak;
    let free = reserved.stranded();
    format!(
        "\n{bold}Peak{bold:#}     {} allocated, {} reserved\n         at {}\n         \
         reserved at most {}: {} free, {} ({}) pinned\n",
        human(peak.allocated),
        human(peak.reserved),
        when.join(", "),
        human(reserved.reserved),
        human(free),
        human(reserved.pinned),
        percent(reserved.pinned, reserved.reserved),
    )
}

fn holders(snapshot: &Snapshot, explanation: &Explanation) -> String {
    let dim = Style::new().dimmed();
    let peak = &explanation.peak;
    let mut text = format!("\n{dim}{:>9} {:>5}  {:42} for{dim:#}\n", "held", "", "by");
    for holder in peak.holders.iter().take(HOLDERS) {
        text += &format!(
            "{:>9} {:>5}  {:42} {}\n",
            human(holder.bytes),
            percent(holder.bytes, peak.allocated),
            shorten(&who(snapshot, holder), 42),
            role(holder.role)
        );
    }
    let rest = &peak.holders[peak.holders.len().min(HOLDERS)..];
    if !rest.is_empty() {
        let bytes = rest.iter().map(|holder| holder.bytes).sum();
        let others = count(rest.len() as u64, "other");
        text += &format!("{:>9} {:>5}  {others}\n", human(bytes), percent(bytes, peak.allocated));
    }
    text
}

/// Who holds it: a line of the program, or what is known instead.
pub fn who(snapshot: &Snapshot, holder: &Holder) -> String {
    if holder.role == Role::Library {
        return "cuBLAS, from its first call on".into();
    }
    match (holder.owner, holder.activity) {
        (Some(owner), _) => location(snapshot, owner),
        (None, Some(Activity::Backward)) => "backward pass (no Python frame)".into(),
        (None, None) => "unknown, older than the recording".into(),
        (None, _) => {
            let blocks = || format!("{} up to {}", count(holder.blocks, "block"), human(holder.largest));
            library_location(snapshot, holder.stack).unwrap_or_else(blocks)
        }
    }
}

/// The findings alone.
pub fn findings(snapshot: &Snapshot, explanation: &Explanation) -> String {
    let good = AnsiColor::Green.on_default();
    let mut text = String::new();
    if explanation.findings.iter().all(Finding::is_note) {
        text = format!("\n{good}No findings.{good:#}\n");
    }
    let all = explanation.findings.iter().enumerate();
    text.extend(all.map(|(index, found)| finding(snapshot, explanation, found, index < FULL)));
    text
}

fn finding(snapshot: &Snapshot, explanation: &Explanation, finding: &Finding, is_full: bool) -> String {
    let colour = if finding.is_note() { AnsiColor::Cyan } else { AnsiColor::Red };
    let style = colour.on_default().bold();
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let words = words(snapshot, explanation, finding);
    let kind = if finding.is_note() { "note" } else { finding.details.kind() };
    let mut text = format!("\n{style}{kind:INDENT$}{style:#}{bold}{}{bold:#}\n", words.title);
    let room = WIDTH - INDENT;
    if let Some(frame) = finding.place {
        text += &format!("{:INDENT$}{}\n", "", shorten(&location(snapshot, frame), room));
    }
    for line in words.facts.iter().filter(|_| is_full).flat_map(|fact| wrap(fact, room)) {
        text += &format!("{:INDENT$}{dim}{line}{dim:#}\n", "");
    }
    for (index, line) in wrap(&words.advice, room - 2).into_iter().enumerate() {
        text += &format!("{:INDENT$}{} {line}\n", "", if index == 0 { "→" } else { " " });
    }
    text
}

/// Cuts `text` into lines of at most `width` characters, at spaces; a number stays with its unit.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let is_unit = matches!(word.trim_end_matches(['.', ',', ';', ')']), "B" | "KiB" | "MiB" | "GiB" | "TiB" | "%");
        match words.last_mut() {
            Some(last) if is_unit => *last += &format!(" {word}"),
            _ => words.push(word.to_string()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    let mut length = 0;
    for word in &words {
        let letters = word.chars().count();
        match lines.last_mut() {
            Some(line) if length + 1 + letters <= width => {
                line.push(' ');
                line.push_str(word);
                length += 1 + letters;
            }
            _ => {
                lines.push(word.clone());
                length = letters;
            }
        }
    }
    lines
}
