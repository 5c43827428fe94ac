//! Rules beside recorded probes: each probe's captured calls are simulated, and every event is compared.
//!
//! `PROBE=name cargo test -p vramfit-validation --test captured_probes -- --nocapture` runs only the probes whose key
//! contains the name and shows their differences, and which operators have no rule: those are named in an estimate, never wrong in silence.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod recorded;

use std::collections::BTreeMap;

use bench::Peaks;
use recorded::{Probe, probes, without_rules};
use vramfit_cudnn::Scenario;

/// How many elements their mask picks is not in the capture. Their requests are bounded by a range, in another order.
const BOUNDED: [&str; 4] =
    ["mask written with one value", "masked_scatter", "masked_scatter thirds", "rows written by mask with one row"];

/// Probes whose random values decided: how many elements a mask chose, whether a factor was zero. And two that Python
/// decided: attention of a single query, whose capture holds a result that Python had freed, and `ctc_loss`, whose arguments
/// the recording's Python freed in another order.
const RANDOM: [&str; 8] = [
    "ctc_loss",
    "index mask",
    "masked_select",
    "nonzero",
    "nonzero of booleans",
    "one_hot permuted then where",
    "prod all",
    "sdpa default cross",
];

/// The parts of a recording, in their order.
const PARTS: [&str; 6] = ["forward", "drop_inputs", "chain", "drop_outputs", "grad_outputs", "backward"];

/// The recorded events. Constants are inputs of the captured module, which keeps them: that they go is left out.
fn expected(probe: &Probe, mode: &str) -> Vec<String> {
    let parts = &probe.modes[mode];
    let is_constant = |event: &str| {
        let position = event.strip_prefix("-in").and_then(|position| position.parse::<usize>().ok());
        position.is_some_and(|position| probe.roles[position] == "constant")
    };
    PARTS.iter().filter_map(|part| parts.get(*part)).flatten().filter(|event| !is_constant(event)).cloned().collect()
}

/// Autocast frees its casts in the order of a hash table keyed by addresses: frees in a row, sorted.
fn without_order(mut events: Vec<String>) -> Vec<String> {
    for run in events.chunk_by_mut(|one, other| one.starts_with('-') && other.starts_with('-')) {
        run.sort();
    }
    events
}

#[test]
fn every_captured_probe_makes_the_recorded_requests_in_the_recorded_order() {
    let wanted = std::env::var("PROBE").ok();
    let (mut same, mut ranges, mut total) = (0, 0, 0);
    let (mut wrong, mut unmodelled) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    for (key, probe, model) in probes(wanted.as_deref().unwrap_or_default()) {
        for mode in probe.modes.keys() {
            let Some(found) = bench::run(&probe, &model, mode) else { continue };
            let ordered = if key.contains("|amp-") { without_order } else { |events| events };
            let expected = ordered(expected(&probe, mode));
            total += 1;
            if let Ok(found) = &found
                && found.allows(&expected, ordered)
            {
                same += 1;
                ranges += usize::from(!found.is_certain());
                continue;
            }
            if wanted.is_some() {
                println!("{key} {mode}\n  recorded  {}", expected.join(" "));
                match &found {
                    Ok(found) => println!("  simulated {}", ordered(found.expected()).join(" ")),
                    Err(error) => println!("  {error}"),
                }
            }
            match found {
                Ok(_) => *wrong.entry(probe.operator.clone()).or_default() += 1,
                Err(error) => *unmodelled.entry(format!("{}: {error}", probe.operator)).or_default() += 1,
            }
        }
    }
    println!("{same} of {total} runs agree, {ranges} of them with a workspace within a range");
    if wanted.is_some() {
        println!("different: {wrong:?}\nwithout a rule: {unmodelled:#?}");
    }
    wrong.retain(|name, _| !RANDOM.contains(&name.as_str()) && !BOUNDED.contains(&name.as_str()));
    assert!(wrong.is_empty(), "{same} of {total} runs agree; not: {wrong:?}");
    assert!(wanted.is_some() || same >= 16_144, "only {same} of {total} runs agree");
}

/// The recorded peaks: of the forward pass, and of all that follows. Inputs that are freed are not counted.
fn recorded_peaks(parts: &BTreeMap<String, Vec<String>>) -> Peaks {
    let (mut live, mut peaks) = (0_u64, Peaks { forward: 0, backward: 0 });
    let mut sizes: Vec<u64> = Vec::new();
    for part in PARTS {
        let peak = if part == "forward" { &mut peaks.forward } else { &mut peaks.backward };
        for event in parts.get(part).into_iter().flatten() {
            if let Some(bytes) = event.strip_prefix('+') {
                let bytes: u64 = bytes.parse().unwrap();
                sizes.push(bytes);
                live += bytes;
            } else if let Some(number) = event.strip_prefix("-#") {
                live -= sizes[number.parse::<usize>().unwrap()];
            }
            *peak = (*peak).max(live);
        }
    }
    peaks
}

/// Runs that took less than the lower bound: results that turn out to be views, which a capture without a GPU cannot know, and
/// gradients that are parts of the incoming one. A new rule for the lower bound may only make them fewer.
const BELOW: usize = 562;

#[test]
fn what_an_operator_took_is_within_the_bounds_of_one_without_a_rule() {
    let (mut total, mut below) = (0, 0);
    let mut above = BTreeMap::<String, String>::new();
    for (key, probe, model) in without_rules() {
        for mode in ["leaf", "no_grad"] {
            let Some(parts) = probe.modes.get(mode) else { continue };
            let peaks = |scenario| bench::peaks(&probe, &model, mode, scenario);
            let (Some(lower), Some(upper)) = (peaks(Scenario::Lower), peaks(Scenario::Upper)) else { continue };
            let found = recorded_peaks(parts);
            total += 1;
            below += usize::from(found.forward < lower.forward || found.backward < lower.backward);
            if found.forward > upper.forward || found.backward > upper.backward {
                above.insert(probe.operator.clone(), format!("{key} {mode}: {found:?}, at most {upper:?}"));
            }
        }
    }
    println!("of {total} runs {below} took less than the lower bound");
    assert!(total > 10_000, "only {total} runs");
    assert!(above.is_empty(), "more than the upper bound: {above:#?}");
    assert!(below <= BELOW, "{below} of {total} runs took less than the lower bound");
}
