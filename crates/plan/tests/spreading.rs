//! The ways of spreading a training over GPUs: which are tried, and what they take.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;

use common::{GIB, MIB, capped, gpu, model, setup};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;
use vramfit_plan::tricks::{TRICKS, Trick};
use vramfit_plan::{Cluster, Control, SearchOptions, Setup, Workbench, plan_with};
use vramfit_training::StatePlace;
use vramfit_training::optimizer::Kind;
use vramfit_training::script::{DeepSpeed, Parallel, ZeroStage};

const MACHINE: Cluster = Cluster { nodes: 1, gpus: 4, link: 20e9, network: 12.5e9 };

fn trick(setting: &str) -> &'static dyn Trick {
    *TRICKS.iter().find(|trick| trick.setting() == setting).unwrap()
}

/// DDP on the machine.
fn start(model: &Model) -> Setup {
    let mut setup = setup(model, 8, Some(128));
    setup.training.parallel = MACHINE.replicated();
    setup
}

fn with(start: &Setup, parallel: Parallel) -> Setup {
    let mut setup = start.clone();
    setup.training.parallel = parallel;
    setup
}

fn engine(setup: &Setup) -> Option<&DeepSpeed> {
    match &setup.training.parallel {
        Parallel::DeepSpeed(settings) => Some(settings),
        _ => None,
    }
}

#[test]
fn zero_with_its_state_on_the_gpu_and_the_cpu_is_tried_after_what_pytorch_has() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 8 * GIB)).with_cluster(Some(MACHINE));
    let found = trick("parallel").alternatives(&bench, &start(&model)).unwrap();
    let first = found.iter().position(|setup| engine(setup).is_some()).unwrap();
    assert!(found[..first].iter().any(|setup| setup.training.parallel.offloads()), "FSDP2's own offload");
    assert!(found[first..].iter().all(|setup| engine(setup).is_some()));
    let tried: Vec<(u32, i64, StatePlace)> = found[first..]
        .iter()
        .map(|setup| (setup, engine(setup).unwrap()))
        .map(|(setup, zero)| (zero.stage.number(), zero.bucket, setup.training.optimizer_state))
        .collect();
    let (gpu, cpu) = (StatePlace::Gpu, StatePlace::Cpu);
    let each = |stage: u32| [50_000_000, 10_000_000].map(|bucket| [(stage, bucket, gpu), (stage, bucket, cpu)]);
    assert_eq!(tried, [each(2), each(3)].concat().concat());
    assert!(found[first..].iter().all(|setup| !engine(setup).unwrap().clips), "the start does not clip either");
    let mut clipped = start(&model);
    clipped.training.clips_gradients = true;
    let found = trick("parallel").alternatives(&bench, &clipped).unwrap();
    assert!(found.iter().filter_map(engine).all(|zero| zero.clips));
}

#[test]
fn what_the_engine_is_not_simulated_with_is_left_out() {
    let (model, gpu) = (model("bert-small"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 8 * GIB)).with_cluster(Some(MACHINE));
    let has_engine = |setup: &Setup| {
        let found = trick("parallel").alternatives(&bench, setup).unwrap();
        assert!(!found.is_empty());
        found.iter().any(|setup| engine(setup).is_some())
    };
    let start = start(&model);
    assert!(has_engine(&start));
    let mut autocast = start.clone();
    autocast.variant.amp = Some(Dtype::Bfloat16);
    assert!(!has_engine(&autocast), "torch_autocast is not simulated");
    for kind in [Kind::Adafactor, Kind::None] {
        let mut other = start.clone();
        other.training.optimizer.kind = kind;
        assert!(!has_engine(&other), "{kind:?}");
    }
    let on_cpu = trick("optimizer-state").alternatives(&bench, &start);
    assert!(on_cpu.unwrap_err().contains("only DeepSpeed"), "not with DDP");
    let engine = trick("parallel").alternatives(&bench, &start).unwrap().pop().unwrap();
    assert!(trick("amp").alternatives(&bench, &engine).unwrap_err().contains("torch_autocast"));
    assert!(trick("zero-grad").alternatives(&bench, &engine).unwrap_err().contains("frees gradients itself"));
}

#[test]
fn what_the_engine_does_beside_the_update_takes_time() {
    let (model, gpu) = (model("bert-base"), gpu("H200"));
    let start = start(&model);
    let with_link = |link: f64| {
        Workbench::new(&model, None, capped(&gpu, 64 * GIB)).with_cluster(Some(Cluster { link, ..MACHINE }))
    };
    let ways = MACHINE.ways(true);
    let zero = |stage: ZeroStage, overlaps: bool| {
        let is_found = |way: &&Parallel| matches!(way, Parallel::DeepSpeed(zero) if zero.stage == stage);
        let Parallel::DeepSpeed(zero) = ways.iter().find(is_found).unwrap().clone() else { unreachable!() };
        with(&start, Parallel::DeepSpeed(DeepSpeed { overlaps, ..zero }))
    };
    let kept = with(&start, ways.iter().find(|way| matches!(way, Parallel::Sharded(_))).unwrap().clone());
    // Where sending takes no time, copies and norms are left: more than FSDP2 has.
    let fast = with_link(1e15);
    for stage in [ZeroStage::Two, ZeroStage::Three] {
        assert!(fast.seconds(&zero(stage, true)).unwrap() > fast.seconds(&kept).unwrap(), "{stage:?}");
    }
    let slow = with_link(20e9);
    let [two, three] = [ZeroStage::Two, ZeroStage::Three]
        .map(|stage| [true, false].map(|overlaps| slow.seconds(&zero(stage, overlaps)).unwrap()));
    assert!(two[0] < two[1] && three[0] < three[1], "overlap_comm saves time: {two:?} {three:?}");
    let mut on_cpu = zero(ZeroStage::Two, true);
    on_cpu.training.optimizer_state = StatePlace::Cpu;
    assert!(slow.seconds(&on_cpu).unwrap() > two[0]);
    // Weights are gathered when the update has ended, over the network too.
    let nodes = Cluster { nodes: 2, gpus: 2, link: 1e15, ..MACHINE };
    let over_network = Workbench::new(&model, None, capped(&gpu, 64 * GIB)).with_cluster(Some(nodes));
    assert!(
        over_network.seconds(&zero(ZeroStage::Two, true)).unwrap() > fast.seconds(&zero(ZeroStage::Two, true)).unwrap()
    );
}

#[test]
fn a_reduction_overlaps_only_with_the_backward_pass_that_it_is_in() {
    let (model, gpu) = (model("bert-base"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 64 * GIB)).with_cluster(Some(MACHINE));
    let mut start = start(&model);
    start.training.accumulate = 8;
    let Parallel::Replicated(settings) = start.training.parallel.clone() else { unreachable!() };
    let each = Parallel::Replicated(vramfit_training::script::Replicated { skips_sync: false, ..settings });
    let [last, each] = [start.clone(), with(&start, each)].map(|setup| bench.seconds(&setup).unwrap());
    let whole = Workbench::new(&model, None, capped(&gpu, 64 * GIB)).seconds(&start).unwrap();
    assert!(last > whole, "sending takes longer than one backward pass");
    assert!(last < each, "reducing eight times sends more");
}

#[test]
fn the_plan_for_a_cluster_prefers_pytorch_and_every_plan_of_the_engine_has_its_file() {
    let (model, gpu) = (model("bert-base"), gpu("H200"));
    let bench = Workbench::new(&model, None, capped(&gpu, 1100 * MIB)).with_cluster(Some(MACHINE));
    let keep = [
        "step-in-backward",
        "offload-activations",
        "adapters",
        "optimizer",
        "chunked-loss",
        "accumulate",
        "amp",
        "dtype",
        "batch",
        "seq",
    ];
    let options = SearchOptions { keep: &keep, ..SearchOptions::default() };
    let outcome = plan_with(options, &bench, &start(&model), &[], &Control::default()).unwrap();
    let row = outcome.tricks.iter().find(|row| row.name == "sharding over the GPUs").unwrap();
    assert!(row.options.iter().any(|option| option.what.contains("DeepSpeed") && option.what.contains("CPU")));
    let best = outcome.plans().next().unwrap();
    assert!(engine(&best.setup).is_none(), "{:?}", best.setup.training.parallel);
    for plan in outcome.plans() {
        assert_eq!(engine(&plan.setup).is_some(), plan.written.deepspeed.is_some());
    }
}
