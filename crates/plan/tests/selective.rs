//! Selective checkpointing compared with checkpointing every block, and with the best of all subsets.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::{GIB, capped, gpu, model, setup};
use vramfit_eager::forward::{Choice, block_names};
use vramfit_plan::selective::cheapest;
use vramfit_plan::{Control, Setup, Workbench};

const CASES: [(&str, i64, Option<i64>); 4] = [
    ("residual", 20_000, None),
    ("encoder-features", 48, Some(512)),
    ("bert-small", 48, Some(256)),
    ("llama-no-cache", 8, Some(256)),
];

fn checkpointed(start: &Setup, names: Vec<String>) -> Setup {
    let mut setup = start.clone();
    setup.training.checkpoint = if names.is_empty() { Choice::Nothing } else { Choice::modules(names) };
    setup
}

#[test]
fn selective_checkpointing_beats_every_block_at_the_same_budget() {
    let (gpu, control) = (gpu("H200"), Control::default());
    let mut faster = 0;
    for (name, batch, sequence) in CASES {
        let model = model(name);
        let start = setup(&model, batch, sequence);
        let free = Workbench::new(&model, None, capped(&gpu, 100 * GIB));
        let every = checkpointed(&start, block_names(&free.bind(&start).unwrap()));
        // Other orders of addresses may need a little more than the expected one.
        let needed = free.peaks(&every, &control).unwrap().reserved;
        let fits =
            |vram: &u64| Workbench::new(&model, None, capped(&gpu, *vram)).fitting_run(&every, &control).is_some();
        let budget = (needed..).step_by(2 << 20).find(fits).unwrap();
        let bench = Workbench::new(&model, None, capped(&gpu, budget));
        assert!(bench.fitting_run(&start, &control).is_none(), "{name} fits without checkpointing");
        let (found, run) = cheapest(&bench, &start, 48, &control).unwrap_or_else(|| panic!("{name}: nothing found"));
        assert!(run.run.peak_reserved <= budget);
        let (ours, theirs) = (bench.seconds(&found).unwrap(), bench.seconds(&every).unwrap());
        assert!(ours <= theirs, "{name}: {ours} versus {theirs}");
        faster += usize::from(ours < theirs);
    }
    // `residual` needs every block.
    assert_eq!(faster, CASES.len() - 1);
}

#[test]
fn selective_checkpointing_is_as_fast_as_the_best_subset_of_blocks() {
    let (gpu, control) = (gpu("H200"), Control::default());
    for (name, batch, sequence) in CASES {
        let model = model(name);
        let start = setup(&model, batch, sequence);
        let free = Workbench::new(&model, None, capped(&gpu, 100 * GIB));
        let blocks = block_names(&free.bind(&start).unwrap());
        assert!(blocks.len() <= 8);
        let max = free.peaks(&start, &control).unwrap().reserved;
        let min = free.peaks(&checkpointed(&start, blocks.clone()), &control).unwrap().reserved;
        for tenths in [3, 6, 9] {
            let budget = max - (max - min) / 10 * tenths;
            let bench = Workbench::new(&model, None, capped(&gpu, budget));
            let subsets = (0..1_u32 << blocks.len()).map(|mask| {
                let names =
                    blocks.iter().enumerate().filter(|(index, _)| mask >> index & 1 == 1).map(|(_, name)| name.clone());
                checkpointed(&start, names.collect())
            });
            let subsets: Vec<Setup> = subsets.collect();
            let fitting = control.map(&subsets, |setup| {
                bench.fitting_run(setup, &control)?;
                bench.seconds(setup)
            });
            let optimum = fitting.into_iter().flatten().flatten().fold(f64::INFINITY, f64::min);
            let Some((found, _)) = cheapest(&bench, &start, 48, &control) else {
                assert!(optimum.is_infinite(), "{name} at {tenths} tenths: nothing found");
                continue;
            };
            let ours = bench.seconds(&found).unwrap();
            assert!(ours <= optimum * 1.01, "{name} at {tenths} tenths: {ours} versus {optimum}");
        }
    }
}

#[test]
fn layers_that_get_a_growing_list_are_not_checkpointed_alone() {
    let (gpu, control, model) = (gpu("H200"), Control::default(), model("densenet121"));
    let start = setup(&model, 16, None);
    let needed = Workbench::new(&model, None, capped(&gpu, 100 * GIB)).peaks(&start, &control).unwrap().reserved;
    let bench = Workbench::new(&model, None, capped(&gpu, needed * 7 / 10));
    let (found, _) = cheapest(&bench, &start, 48, &control).unwrap();
    let chosen = format!("{:?}", found.training.checkpoint);
    assert!(chosen.contains("denseblock"), "{chosen}");
    let is_layer = |name: &str| name.rsplit('.').next().is_some_and(|part| part.starts_with("denselayer"));
    assert!(!chosen.split('"').any(is_layer), "{chosen}");
}
