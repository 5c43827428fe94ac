//! What each shortcut of the simulation gains.
//!
//! With a workload and a choice of shortcuts as arguments, one workload is simulated; `benchmarks/shortcuts/measure.py`
//! counts its instructions under callgrind and prints the table of `docs/simulation-speed.md`. `list` prints the names.
//! Without arguments everything is timed once.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use vramfit_allocator::Settings;
use vramfit_eager::machine::H200;
use vramfit_graph::bind::{Bound, bind};
use vramfit_graph::model::Model;
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_readers::read_file;
use vramfit_training::shortcuts::Shortcuts;
use vramfit_training::{Loop, address_orders, record_script, training_loop};

/// As in the `vramfit` binary.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A loop over a captured model.
struct Workload {
    name: &'static str,
    model: &'static str,
    options: Loop,
    /// Under how many orders of addresses it is answered: one for `train`, all three for a candidate of a plan.
    orders: usize,
}

fn workloads() -> Vec<Workload> {
    let workload = |name, model, options| Workload { name, model, options, orders: 1 };
    let steps = |steps| Loop { steps, ..Loop::default() };
    let accumulate = |accumulate| Loop { accumulate, ..Loop::default() };
    let plan = |name, model, options| Workload { name, model, options, orders: 3 };
    let fresh = Loop { has_fresh_inputs: true, ..Loop::default() };
    vec![
        workload("resnet50", "resnet50", steps(3)),
        workload("bert-base", "bert-base", steps(3)),
        workload("resnet50-steps-20", "resnet50", steps(20)),
        workload("bert-base-steps-20", "bert-base", steps(20)),
        workload("resnet50-accumulate-8", "resnet50", accumulate(8)),
        workload("bert-base-accumulate-8", "bert-base", accumulate(8)),
        workload("resnet50-accumulate-64", "resnet50", accumulate(64)),
        workload("bert-base-accumulate-64", "bert-base", accumulate(64)),
        workload("bert-base-fresh-inputs", "bert-base", fresh.clone()),
        plan("resnet50-candidate", "resnet50", steps(3)),
        plan("bert-base-candidate", "bert-base", steps(3)),
        plan("bert-base-candidate-accumulate-4", "bert-base", accumulate(4)),
    ]
}

/// All shortcuts, all but one, none.
fn choices() -> Vec<(&'static str, Shortcuts)> {
    let all = Shortcuts::ALL;
    vec![
        ("all", all),
        ("no-repeated-steps", Shortcuts { repeated_steps: false, derived_step: false, ..all }),
        ("no-derived-step", Shortcuts { derived_step: false, ..all }),
        ("no-copied-micro-batches", Shortcuts { copied_micro_batches: false, ..all }),
        ("no-steady-state", Shortcuts { steady_state: false, ..all }),
        ("none", Shortcuts::NONE),
    ]
}

fn captured(name: &str) -> Result<Model, Box<dyn Error>> {
    let file = format!("../../validation/captures/{name}.vramfit");
    Ok(read_file(Path::new(env!("CARGO_MANIFEST_DIR")).join(file))?)
}

fn bound<'m>(model: &'m Model, name: &str) -> Result<Bound<'m>, Box<dyn Error>> {
    let sizes = match name {
        "bert-base" => {
            let flags = SizeFlags { batch: Some(32), sequence: Some(128), ..SizeFlags::default() };
            Sizes::select(model, &flags)?
        }
        _ => Sizes::example(model)?,
    };
    Ok(bind(model, select_variant(model, VariantFlags::default())?, &sizes)?)
}

/// What is measured. Callgrind finds it by its name.
#[inline(never)]
fn measured_workload(bound: &Bound<'_>, workload: &Workload, shortcuts: Shortcuts) -> u64 {
    black_box(simulate(bound, workload, shortcuts))
}

/// The program and its answers.
fn simulate(bound: &Bound<'_>, workload: &Workload, shortcuts: Shortcuts) -> u64 {
    let script = training_loop(bound, &workload.options);
    let program = record_script(&script, H200, shortcuts).expect("nothing is checkpointed");
    let orders = address_orders().into_iter().take(workload.orders);
    orders.map(|driver| program.run(Settings::default(), driver).peak_reserved).max().unwrap_or(0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if arguments.first().is_some_and(|argument| argument == "list") {
        println!("{}", workloads().iter().map(|workload| workload.name).collect::<Vec<_>>().join(" "));
        println!("{}", choices().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" "));
        return Ok(());
    }
    let is_wanted = |index: usize, name: &str| arguments.get(index).is_none_or(|wanted| wanted == name);
    for workload in workloads().iter().filter(|workload| is_wanted(0, workload.name)) {
        let model = captured(workload.model)?;
        let bound = bound(&model, workload.model)?;
        // The first simulation looks up cuDNN's plans, which is not what is measured.
        simulate(&bound, workload, Shortcuts::ALL);
        for (name, shortcuts) in choices().into_iter().filter(|(name, _)| is_wanted(1, name)) {
            let begun = Instant::now();
            let peak = measured_workload(black_box(&bound), workload, shortcuts);
            println!("{} {name} {peak} {:?}", workload.name, begun.elapsed());
        }
    }
    Ok(())
}
