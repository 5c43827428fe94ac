//! Steps by repetition alone: of the requested sizes, or where those vary, of the order of births and deaths.

use std::collections::HashMap;
use std::hash::Hash;

use super::Step;
use super::period::{Period, find};
use crate::history::{History, OUTSIDE, number};

/// The share of a step's requests that another stretch must have to count as a step too.
const LIKENESS: f64 = 0.75;
/// No training step makes fewer allocations than this.
const LEAST_ALLOCATIONS: usize = 4;
/// What repeats must be at least one in so many of all allocations; less is coincidence.
const LEAST_PART: usize = 10;
/// How many tokens are compared where a step is looked for outside the stretch that repeats.
const ANCHOR: usize = 12;
/// How many tokens may be compared in looking for steps outside the stretch that repeats.
const COMPARISONS: usize = 50_000_000;

/// The iterations of the loop that `history` shows.
pub fn steps(history: &History) -> Vec<Step> {
    let by_request = number_tokens(history.births().iter().map(|lifetime| lifetime.requested));
    let by_order = order_tokens(history);
    let is_loop = |period: &Period| {
        period.length >= LEAST_ALLOCATIONS && (period.end - period.first) * LEAST_PART >= history.births().len()
    };
    let requested = find(&by_request).filter(is_loop).map(|period| (by_request, period));
    let ordered = find(&by_order).filter(is_loop).map(|period| (by_order, period));
    let stretch = |found: &(Vec<u32>, Period)| found.1.end - found.1.first;
    let chosen = match (requested, ordered) {
        // Batches whose sizes come round again repeat after several steps; their order repeats after one.
        (Some(requested), Some(ordered)) => {
            let is_shorter = ordered.1.length < requested.1.length && stretch(&ordered) * 10 >= stretch(&requested) * 9;
            let is_longer = stretch(&ordered) > stretch(&requested) * 2;
            Some(if is_shorter || is_longer { ordered } else { requested })
        }
        (requested, ordered) => requested.or(ordered),
    };
    chosen.map_or_else(Vec::new, |(tokens, period)| lay_out(history, &tokens, period))
}

/// Equal values get equal numbers.
fn number_tokens<T: Eq + Hash>(values: impl Iterator<Item = T>) -> Vec<u32> {
    let mut numbers = HashMap::new();
    values
        .map(|value| {
            let next = number(numbers.len());
            *numbers.entry(value).or_insert(next)
        })
        .collect()
}

/// How long each allocation lives, counted in allocations: the same in every step, whatever the sizes.
fn order_tokens(history: &History) -> Vec<u32> {
    let births = history.births();
    number_tokens(births.iter().enumerate().map(|(index, lifetime)| match lifetime.death {
        OUTSIDE => usize::MAX,
        death => history.births_before(death) - index,
    }))
}

fn lay_out(history: &History, tokens: &[u32], period: Period) -> Vec<Step> {
    let length = period.length;
    let begin = period.first + trough(history, period);
    let regular: Vec<usize> = (begin..).step_by(length).take_while(|&at| at + length <= period.end).collect();
    let Some(&first) = regular.first() else { return Vec::new() };
    let template = &tokens[first..first + length];
    let mut begins = regular;
    begins.splice(0..0, earlier(tokens, template, first));
    let after = later(tokens, template, begins[begins.len() - 1] + length);
    begins.extend(after);
    let births = history.births();
    let event = |index: usize| births.get(index).map_or(number(history.allocated.len()), |birth| birth.birth);
    let mut steps = Vec::with_capacity(begins.len());
    for (index, &at) in begins.iter().enumerate() {
        let next = begins.get(index + 1).copied().unwrap_or(at + length);
        let end = if next - at > 3 * length { at + length } else { next };
        steps.push(Step { first: event(at), end: event(end) });
    }
    steps
}

/// Where in the period the fewest bytes are held: a step begins there.
fn trough(history: &History, period: Period) -> usize {
    let held_before = |index: usize| match history.births()[index].birth {
        0 => history.allocated_at_start,
        event => history.allocated[event as usize - 1],
    };
    (0..period.length).min_by_key(|&offset| (held_before(period.first + offset), offset)).unwrap_or(0)
}

/// Whether a step's first tokens are at `at`, with at most a few others between them: the first step makes workspaces.
fn is_anchor(tokens: &[u32], template: &[u32], at: usize) -> bool {
    let mut anchor = template[..template.len().min(ANCHOR)].iter().peekable();
    if tokens.get(at) != anchor.next() {
        return false;
    }
    for token in tokens[at + 1..].iter().take(ANCHOR + ANCHOR / 2) {
        anchor.next_if_eq(&token);
    }
    anchor.peek().is_none()
}

/// Whether `stretch` has most of what `template` has.
fn is_alike(stretch: &[u32], template: &[u32]) -> bool {
    let mut counts: HashMap<u32, i64> = HashMap::new();
    for &token in template {
        *counts.entry(token).or_default() += 1;
    }
    let mut shared = 0usize;
    for token in stretch {
        if let Some(count) = counts.get_mut(token)
            && *count > 0
        {
            *count -= 1;
            shared += 1;
        }
    }
    shared as f64 >= LIKENESS * template.len() as f64
}

/// Steps before the stretch that repeats, such as the first one, which makes the optimizer's state.
fn earlier(tokens: &[u32], template: &[u32], mut next: usize) -> Vec<usize> {
    let length = template.len();
    let mut begins = Vec::new();
    let mut tries = COMPARISONS / length;
    let mut at = next;
    while at > 0 && tries > 0 {
        at -= 1;
        if next - at > 3 * length {
            // There is something else in between; the step before it ends here at the latest.
            next = at + length;
        }
        if next - at >= length - length / 5 && is_anchor(tokens, template, at) {
            tries -= 1;
            if is_alike(&tokens[at..next.min(at + 3 * length)], template) {
                begins.push(at);
                next = at;
            }
        }
    }
    begins.reverse();
    begins
}

/// Steps after the stretch that repeats, whole ones only.
fn later(tokens: &[u32], template: &[u32], from: usize) -> Vec<usize> {
    let length = template.len();
    let mut begins = Vec::new();
    let mut tries = COMPARISONS / length;
    let mut at = from;
    while at + length <= tokens.len() && tries > 0 {
        if is_anchor(tokens, template, at) {
            tries -= 1;
            if is_alike(&tokens[at..at + length], template) {
                begins.push(at);
                at += length;
                continue;
            }
        }
        at += 1;
    }
    begins
}
