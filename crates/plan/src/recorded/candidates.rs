//! The changes that a recording can tell the effect of.

use super::edit::Edit;
use super::held::{Held, all_held};
use super::late_zero_grad::late_zero_grads;
use super::lifetimes::Recorded;
use super::lines::Line;
use super::unused_graph::unused_graphs;
use super::{RecordedTraining, ScriptChange};
use crate::alloc_conf::AllocatorSetting;

/// How many lines whose results are held are tried, those that hold the most.
const MOST_LINES: usize = 8;
/// How many lines a change names.
const NAMED_LINES: usize = 4;

/// A change, and what it does to the recording.
pub(super) struct Candidate {
    pub(super) change: ScriptChange,
    pub(super) kind: Kind,
}

/// What a change does to the recording.
pub(super) enum Kind {
    /// It changes steps.
    Edit(Edit),
    /// It changes how the allocator answers.
    Allocator(AllocatorSetting),
    /// cuDNN takes the plan that its heuristic names first.
    NoBenchmark,
}

/// All changes, those of the script's lines first.
pub(super) fn candidates(recorded: &Recorded<'_>, training: &RecordedTraining<'_, '_>) -> Vec<Candidate> {
    let mut found = Vec::new();
    if let Some((lines, edit)) = unused_graphs(recorded) {
        let what = format!("put `with torch.no_grad():` around {}: no backward pass uses its graph", named(&lines));
        found.push(Candidate { change: change("no_grad", what, lines), kind: Kind::Edit(edit) });
    }
    let all = all_held(recorded);
    for held in largest(all.to_the_end) {
        let what = format!(
            "keep `.item()` or `.detach().cpu()` of what {} makes: every step keeps another on the GPU",
            held.line
        );
        let warning =
            Some("a buffer that is filled on purpose, such as a pool or a queue, is meant to grow at first".to_owned());
        let change = ScriptChange { warning, ..change("kept results", what, vec![held.line]) };
        found.push(Candidate { change, kind: Kind::Edit(held.edit) });
    }
    for late in late_zero_grads(recorded) {
        let what = match late.line == late.last_line {
            true => format!("in {}, do `zero_grad()` after the update instead of before the backward pass", late.line),
            false => format!("do the `zero_grad()` of {} right after {}", late.line, late.last_line),
        };
        let change = change("zero_grad", what, vec![late.line, late.last_line]);
        found.push(Candidate { change, kind: Kind::Edit(late.edit) });
    }
    for held in largest(all.until_bound_again) {
        let what = match held.line == held.last_line {
            true => format!("`del` what {} makes: nothing uses it, and it is held until the next time", held.line),
            false => format!("`del` what {} makes after its last use in {}", held.line, held.last_line),
        };
        let warning =
            Some("another name may hold what you `del`: then it stays until that name is gone too".to_owned());
        let change = ScriptChange { warning, ..change("del", what, vec![held.line, held.last_line]) };
        found.push(Candidate { change, kind: Kind::Edit(held.edit) });
    }
    if training.script.is_cudnn_benchmarked {
        let what = "torch.backends.cudnn.benchmark = False".to_owned();
        let change = ScriptChange { is_time_unknown: true, ..change("cudnn.benchmark", what, Vec::new()) };
        found.push(Candidate { change, kind: Kind::NoBenchmark });
    }
    let saving = [AllocatorSetting::ExpandableSegments, AllocatorSetting::MaxSplitSize];
    for setting in saving.into_iter().filter(|setting| !training.alloc_conf.sets(*setting)) {
        let Some(conf) = training.alloc_conf.with(setting) else { continue };
        let what = format!("PYTORCH_CUDA_ALLOC_CONF={}", conf.text());
        found
            .push(Candidate { change: change("allocator settings", what, Vec::new()), kind: Kind::Allocator(setting) });
    }
    found
}

fn change(trick: &'static str, what: String, lines: Vec<Line>) -> ScriptChange {
    ScriptChange { trick, what, lines, saving: 0, saving_allocated: 0, warning: None, is_time_unknown: false }
}

/// Those that hold the most.
fn largest(mut found: Vec<Held>) -> Vec<Held> {
    found.sort_by_key(|held| std::cmp::Reverse(held.bytes));
    found.truncate(MOST_LINES);
    found
}

/// `train.py:12, train.py:40 and 3 more`.
fn named(lines: &[Line]) -> String {
    let shown: Vec<String> = lines.iter().take(NAMED_LINES).map(Line::to_string).collect();
    match lines.len().saturating_sub(NAMED_LINES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
