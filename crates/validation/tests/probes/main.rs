//! Rules beside recorded probes: each row runs an operator's rule on a probe's inputs and compares every event.
//!
//! To add an operator, add a row to a table in `rows/`: the probe's name, and the calls it makes. `PROBE=name` shows the
//! differences of the probes whose name contains it.

#[macro_use]
mod bench;
mod recorded;
mod rows;

use std::collections::BTreeMap;

use bench::{Body, run};
use recorded::{Probe, probes};

/// A row: the probe's operator, and what it calls.
pub type Row = (&'static str, Body);

const PARTS: [&str; 6] = ["forward", "drop_inputs", "chain", "drop_outputs", "grad_outputs", "backward"];

fn expected(probe: &Probe, mode: &str) -> Vec<String> {
    let parts = &probe.modes[mode].parts;
    PARTS.iter().filter_map(|part| parts.get(*part)).flatten().cloned().collect()
}

fn check(rows: &[Row]) {
    let wanted = std::env::var("PROBE").ok();
    let all = probes();
    let by_name: BTreeMap<&str, Body> = rows.iter().map(|(name, body)| (*name, *body)).collect();
    let (mut same, mut total, mut wrong) = (0, 0, BTreeMap::<String, usize>::new());
    for probe in all.iter().filter(|probe| !probe.dtype.starts_with("amp")) {
        let Some(body) = by_name.get(probe.operator.as_str()) else { continue };
        for mode in probe.modes.keys() {
            let expected = expected(probe, mode);
            total += 1;
            let found = run(probe, mode, *body);
            if found.as_ref() == Ok(&expected) {
                same += 1;
                continue;
            }
            *wrong.entry(probe.operator.clone()).or_default() += 1;
            if wanted.as_ref().is_some_and(|wanted| probe.operator.contains(wanted.as_str())) {
                println!("{} {} {} {mode}\n  recorded {}", probe.operator, probe.dtype, probe.size, expected.join(" "));
                match found {
                    Ok(found) => println!("  found    {}", found.join(" ")),
                    Err(error) => println!("  {error}"),
                }
            }
        }
    }
    let missing: Vec<&str> =
        by_name.keys().copied().filter(|name| !all.iter().any(|probe| probe.operator == *name)).collect();
    assert!(missing.is_empty(), "no probes called {missing:?}");
    assert!(wrong.is_empty(), "{same} of {total} runs agree; not: {wrong:?}");
}

#[test]
fn elementwise_operators() {
    check(rows::pointwise::ROWS);
}

#[test]
fn activations() {
    check(rows::activation::ROWS);
}

#[test]
fn reductions() {
    check(rows::reduction::ROWS);
}

#[test]
fn copies_joins_and_indices() {
    check(rows::copy::ROWS);
}

#[test]
fn matrix_products() {
    check(rows::product::ROWS);
}

#[test]
fn norms_pools_and_resizing_of_images() {
    check(rows::image::ROWS);
}
