//! Compares selective checkpointing with checkpointing every block at the same budget. Prints a row for each of five
//! models: `cargo run --release -p vramfit-plan --example selective`

use std::error::Error;
use std::path::Path;

use vramfit_catalogue::Catalogue;
use vramfit_eager::forward::{Choice, block_names};
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags};
use vramfit_plan::selective::cheapest;
use vramfit_plan::{Control, Setup, Workbench};
use vramfit_readers::read_file;
use vramfit_training::Loop;
use vramfit_training::answer::Device;

const MODELS: [(&str, i64, Option<i64>); 5] = [
    ("bert-base", 32, Some(256)),
    ("gpt2-medium", 4, Some(512)),
    ("llama-160m", 8, Some(512)),
    ("distilbert-base", 32, Some(256)),
    ("vit-b-16", 64, None),
];

fn main() -> Result<(), Box<dyn Error>> {
    let catalogue = Catalogue::built_in()?;
    let gpu = catalogue.find("H200")?;
    let control = Control::default();
    println!("| model | budget, MiB | nothing | every block | selective | modules | recomputation saved |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (name, batch, sequence) in MODELS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../validation/captures/{name}.vramfit"));
        let model = read_file(path)?;
        let sizes = Sizes::select(&model, &SizeFlags { batch: Some(batch), sequence, sizes: Vec::new() })?;
        let start = Setup::new(sizes, VariantFlags::default(), Loop::default());
        let device = |vram: u64| Device { gpu, is_asked: false, vram: Some(vram), cudnn: None };
        let free = Workbench::new(&model, None, device(u64::MAX));
        let mut every = start.clone();
        every.training.checkpoint =
            Choice::modules(block_names(&*free.bind(&start).ok_or("the model cannot be bound")?));
        // Other orders of addresses may need a little more than the expected one.
        let needed = free.peaks(&every, &control).ok_or("the model cannot be simulated")?.reserved;
        let fits = |vram: &u64| Workbench::new(&model, None, device(*vram)).fitting_run(&every, &control).is_some();
        let budget = (needed..2 * needed).step_by(2 << 20).find(fits).ok_or("every block does not fit")?;
        let bench = Workbench::new(&model, None, device(budget));
        let (found, _) = cheapest(&bench, &start, 64, &control).ok_or("nothing fits")?;
        let seconds = |setup: &Setup| bench.seconds(setup).unwrap_or(0.0);
        let (nothing, all, ours) = (seconds(&start), seconds(&every), seconds(&found));
        let modules = match &found.training.checkpoint {
            Choice::Modules(names) => names.len(),
            _ => 0,
        };
        println!(
            "| {name} | {} | {:.1} ms | {:.1} ms | {:.1} ms | {modules} | {:.0} % |",
            budget >> 20,
            1e3 * nothing,
            1e3 * all,
            1e3 * ours,
            100.0 * (all - ours) / (all - nothing)
        );
    }
    Ok(())
}
