//! How the training is spread over several GPUs.

mod deepspeed;
mod shards;

use vramfit_graph::dtype::Dtype;
use vramfit_training::StatePlace;
use vramfit_training::optimizer::{Implementation, Kind, Library, Recipe};
use vramfit_training::script::{DeepSpeed, Parallel, Replicated, Sharded};

use super::optimizer_state::obstacle as obstacle_on_cpu;
use super::role::Role;
use super::trick::Trick;
use crate::printed_loop::{Lines, PrintedLoop};
use crate::setup::Setup;
use crate::workbench::Workbench;

use deepspeed::{can_run_engine, other_engines};
pub(crate) use shards::policy;
use shards::{described, write_shards};

pub(crate) struct Spreading;

impl Trick for Spreading {
    fn name(&self) -> &'static str {
        "sharding over the GPUs"
    }

    fn setting(&self) -> &'static str {
        "parallel"
    }

    fn role(&self) -> Role {
        Role::SavedTensors { by_module: false }
    }

    fn code(&self, _bench: &Workbench<'_>) -> &'static str {
        "for block in model.blocks: fully_shard(block)\nfully_shard(model)"
    }

    fn alternatives(&self, bench: &Workbench<'_>, start: &Setup) -> Result<Vec<Setup>, String> {
        let given = &start.training.parallel;
        if let Parallel::DeepSpeed(settings) = given {
            return other_engines(start, settings);
        }
        let cluster = bench.cluster.ok_or("there is one GPU; --gpus says how many there are")?;
        let mut setups = Vec::new();
        let ways = cluster.ways(start.training.clips_gradients);
        for way in ways.into_iter().filter_map(|way| with_settings_of(given, way)) {
            if way == *given || !is_possible(start, &way) || (way.has_engine() && !can_run_engine(bench, start, &way)) {
                continue;
            }
            let mut setup = start.clone();
            setup.training.parallel = way;
            if bench.scenarios(&setup).is_ok() {
                let on_cpu = obstacle_on_cpu(&setup).is_none().then(|| with_state_on_cpu(&setup));
                setups.push(setup);
                setups.extend(on_cpu);
            }
        }
        if setups.is_empty() { Err("the model has no blocks to shard".to_owned()) } else { Ok(setups) }
    }

    fn adopt(&self, _bench: &Workbench<'_>, setup: &mut Setup, from: &Setup) {
        if is_possible(setup, &from.training.parallel) {
            setup.training.parallel = from.training.parallel.clone();
        }
    }

    fn describe(&self, _bench: &Workbench<'_>, setup: &Setup) -> String {
        match &setup.training.parallel {
            Parallel::None => "one GPU".to_owned(),
            Parallel::Replicated(Replicated { world, splits_optimizer: true, .. }) => {
                format!(
                    "a copy of the model on each of {world} GPUs (DDP), and a part of the optimizer (ZeroRedundancyOptimizer)"
                )
            }
            Parallel::Replicated(Replicated { world, .. }) => {
                format!("a copy of the model on each of {world} GPUs (DDP)")
            }
            Parallel::Sharded(settings) => described(settings),
            Parallel::DeepSpeed(settings) => {
                let DeepSpeed { stage, world, bucket, .. } = settings;
                let state = match (setup.training.optimizer_state, settings.offloads_weights) {
                    (StatePlace::Gpu, false) => "",
                    (StatePlace::Cpu, false) => ", the optimizer's state on the CPU",
                    (StatePlace::Gpu, true) => ", weights on the CPU",
                    (StatePlace::Cpu, true) => ", weights and the optimizer's state on the CPU",
                };
                let stage = stage.number();
                format!("ZeRO stage {stage} of DeepSpeed over {world} GPUs, reduce_bucket_size {bucket}{state}")
            }
            Parallel::Tensor(settings) => {
                format!("linear layers split over {} GPUs (tensor parallelism)", settings.world)
            }
        }
    }

    fn warning(&self, bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        let cluster = bench.cluster.filter(|_| setup.training.parallel != Parallel::None)?;
        let has_state_on_cpu =
            setup.training.parallel.has_engine() && setup.training.optimizer_state == StatePlace::Cpu;
        let on_cpu = if setup.training.parallel.offloads() || has_state_on_cpu {
            "; updates are priced as one machine's CPU and bus took, and yours may take several times as long"
        } else {
            ""
        };
        let engine = match (setup.training.parallel.has_engine(), bench.trained_dtype(setup)) {
            (false, _) => "",
            (true, Some(Dtype::Float32)) => "; DeepSpeed is another package",
            (true, _) => "; DeepSpeed is another package, and keeps master weights in fp32",
        };
        let copies = match &setup.training.parallel {
            Parallel::DeepSpeed(settings) if settings.offloads_weights => {
                "; copies of weights from the CPU are not counted"
            }
            _ => "",
        };
        Some(format!(
            "the time counts what is sent at {} GB/s within a machine and {} GB/s between machines, as far as it does not overlap with \
             computing: an estimate{on_cpu}{engine}{copies}",
            cluster.link / 1e9,
            cluster.network / 1e9
        ))
    }

    fn write(&self, bench: &Workbench<'_>, setup: &Setup, code: &mut PrintedLoop) {
        if setup.training.parallel == Parallel::None {
            return;
        }
        code.standard_imports.once("import os");
        code.device = "torch.device(\"cuda\", int(os.environ[\"LOCAL_RANK\"]))".to_owned();
        code.launch = launch(bench, setup);
        code.before_model.line(0, "torch.cuda.set_device(device)");
        // DeepSpeed makes its own process group.
        if !setup.training.parallel.has_engine() {
            code.imports.once("import torch.distributed as dist");
            // Where weights are on the CPU, clipping reduces their norms there.
            let backends = if setup.training.parallel.offloads() { "\"cpu:gloo,cuda:nccl\", " } else { "" };
            code.before_model.line(0, &format!("dist.init_process_group({backends}device_id=device)"));
        }
        let is_split = setup.training.accumulate > 1;
        match &setup.training.parallel {
            // The program refuses to plan for layers that are split. What DeepSpeed's engine does is written when all tricks have been.
            Parallel::None | Parallel::Tensor(_) | Parallel::DeepSpeed(_) => {}
            Parallel::Replicated(settings) => {
                code.imports.once("from torch.nn.parallel import DistributedDataParallel");
                let mut arguments = vec!["model", "device_ids=[device.index]"];
                if settings.gradients_are_views {
                    arguments.push("gradient_as_bucket_view=True");
                }
                if settings.has_static_graph {
                    arguments.push("static_graph=True");
                }
                code.wrapping.call(0, "model = DistributedDataParallel", &arguments, "");
                if settings.splits_optimizer {
                    split_optimizer(code);
                }
                if is_split && settings.skips_sync {
                    let count = setup.training.accumulate;
                    code.each_micro_batch =
                        Lines::of(&format!("model.require_backward_grad_sync = number % {count} == {}", count - 1));
                }
            }
            Parallel::Sharded(settings) => {
                write_shards(bench, setup, settings, code);
                if is_split && settings.skips_sync {
                    let count = setup.training.accumulate;
                    code.each_micro_batch =
                        Lines::of(&format!("model.set_requires_gradient_sync(number % {count} == {})", count - 1));
                }
            }
        }
    }
}

/// A way with the settings of `fully_shard` that the training has; `None` where it would compute or store weights in another type.
fn with_settings_of(given: &Parallel, way: Parallel) -> Option<Parallel> {
    match (given, way) {
        (Parallel::Sharded(given), Parallel::Sharded(Sharded { shards, replicas, after_forward, offloads, .. })) => {
            Some(Parallel::Sharded(Sharded { shards, replicas, after_forward, offloads, ..given.clone() }))
        }
        (Parallel::Sharded(Sharded { param_dtype: Some(_), .. }), _) => None,
        (_, way) => Some(way),
    }
}

/// Whether a setup can be spread in a way. With weights on the CPU a GradScaler was not measured, and updates of the CPU are only priced for
/// optimizers of torch.optim that are not fused.
fn is_possible(setup: &Setup, way: &Parallel) -> bool {
    let Recipe { kind, implementation, .. } = setup.training.optimizer;
    let is_of_torch = kind.library() == Library::Torch && kind != Kind::Muon && implementation != Implementation::Fused;
    !way.offloads() || (setup.variant.amp != Some(Dtype::Float16) && (is_of_torch || kind == Kind::None))
}

/// A setup with the optimizer's state on the CPU.
fn with_state_on_cpu(setup: &Setup) -> Setup {
    let mut setup = setup.clone();
    setup.training.optimizer_state = StatePlace::Cpu;
    setup
}

/// Wraps the optimizer that the loop has in `ZeroRedundancyOptimizer`, which takes its arguments.
fn split_optimizer(code: &mut PrintedLoop) {
    let Some(class) = &mut code.optimizer_class else { return };
    let class = std::mem::replace(class, "ZeroRedundancyOptimizer".to_owned());
    code.imports.once("from torch.distributed.optim import ZeroRedundancyOptimizer");
    code.optimizer_arguments.insert(0, format!("optimizer_class={class}"));
}

/// The command that starts it.
fn launch(bench: &Workbench<'_>, setup: &Setup) -> Lines {
    match bench.cluster {
        Some(cluster) if cluster.nodes > 1 => {
            let mut lines = Lines::of(&format!(
                "# torchrun --nnodes {} --nproc-per-node {} --rdzv-backend c10d",
                cluster.nodes, cluster.gpus
            ));
            lines.line(0, "#     --rdzv-endpoint HOST:29500 train.py");
            lines
        }
        _ => Lines::of(&format!("# torchrun --nproc-per-node {} train.py", setup.training.parallel.world())),
    }
}
