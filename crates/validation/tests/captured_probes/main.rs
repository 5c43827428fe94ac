//! Rules beside recorded probes: each probe's captured calls are simulated, and every event is compared.
//!
//! `PROBE=name cargo test -p vramfit-validation --test captured_probes -- --nocapture` shows the differences of the probes
//! whose key contains the name, and which operators have no rule: those are named in an estimate, never wrong in silence.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bench;
mod recorded;

use std::collections::BTreeMap;

use recorded::{Probe, RECORDINGS, captures, probes};

/// Probes whose random values decided: how many elements a mask chose, whether a factor was zero. And one whose capture
/// holds a result that Python lets go of, attention of a single query.
const RANDOM: [&str; 6] =
    ["index mask", "masked_select", "nonzero", "nonzero of booleans", "prod all", "sdpa default cross"];

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

/// Autocast lets go of its casts in the order of a hash table keyed by addresses: frees in a row, sorted.
fn without_order(mut events: Vec<String>) -> Vec<String> {
    for run in events.chunk_by_mut(|one, other| one.starts_with('-') && other.starts_with('-')) {
        run.sort();
    }
    events
}

#[test]
fn every_captured_probe_makes_the_recorded_requests_in_the_recorded_order() {
    let wanted = std::env::var("PROBE").ok();
    let pairs = RECORDINGS.into_iter().flat_map(|(recording, file)| {
        let recorded = probes(recording);
        captures(file).filter_map(move |(key, model)| Some((recorded.get(&key)?.clone(), key, model)))
    });
    let (mut same, mut ranges, mut total) = (0, 0, 0);
    let (mut wrong, mut unmodelled) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    for (probe, key, model) in pairs {
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
            if wanted.as_ref().is_some_and(|wanted| key.contains(wanted.as_str())) {
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
    wrong.retain(|name, _| !RANDOM.contains(&name.as_str()));
    assert!(wrong.is_empty(), "{same} of {total} runs agree; not: {wrong:?}");
    assert!(same >= 14_500, "only {same} of {total} runs agree");
}
