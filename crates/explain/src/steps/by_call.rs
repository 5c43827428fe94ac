//! Iterations of a loop without training: from one call of the model to the next, as in inference.

use std::collections::HashMap;

use super::Step;
use crate::history::{History, number};
use crate::origin::{Activity, SiteId};
use crate::phases::Phases;

/// Calls that make a loop.
const LEAST: usize = 3;

/// From call to call of the line that calls a model most often.
pub fn steps(history: &History, phases: &Phases) -> Vec<Step> {
    let calls = || phases.spans.iter().filter(|span| span.activity == Activity::Forward);
    let mut counts: HashMap<SiteId, usize> = HashMap::new();
    for call in calls() {
        *counts.entry(call.site).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|&(site, count)| (count, site)).filter(|&(_, count)| count >= LEAST);
    let Some((site, _)) = most else { return Vec::new() };
    let begins: Vec<u32> = calls().filter(|call| call.site == site).map(|call| call.first_event).collect();
    let end = number(history.allocated.len());
    let ends = begins[1..].iter().copied().chain([end]);
    begins.iter().zip(ends).map(|(&first, end)| Step { first, end }).collect()
}
