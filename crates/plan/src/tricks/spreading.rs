//! How the training is spread over several GPUs.

use vramfit_eager::forward::{Choice, block_names};
use vramfit_graph::dtype::Dtype;
use vramfit_training::optimizer::{Implementation, Kind, Library, Recipe};
use vramfit_training::script::{AfterForward, DeepSpeed, Parallel, Sharded, ZeroStage};

use super::role::Role;
use super::trick::Trick;
use crate::printed_loop::{Lines, PrintedLoop};
use crate::setup::Setup;
use crate::workbench::Workbench;

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
            return of_deepspeed(start, settings);
        }
        let cluster = bench.cluster.ok_or("there is one GPU; --gpus says how many there are")?;
        let with = |parallel: Parallel| {
            let mut setup = start.clone();
            setup.training.parallel = parallel;
            setup
        };
        let ways = cluster.ways().into_iter().filter(|way| way != given && is_possible(start, way));
        let others: Vec<Setup> = ways.map(with).collect();
        let setups: Vec<Setup> = others.into_iter().filter(|setup| bench.scenarios(setup).is_ok()).collect();
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
            Parallel::Replicated(settings) => format!("a copy of the model on each of {} GPUs (DDP)", settings.world),
            Parallel::Sharded(settings) => described(settings),
            Parallel::DeepSpeed(settings) => {
                let DeepSpeed { stage, world, bucket, .. } = settings;
                format!("ZeRO stage {} of DeepSpeed over {world} GPUs, reduce_bucket_size {bucket}", stage.number())
            }
            Parallel::Tensor(settings) => {
                format!("linear layers split over {} GPUs (tensor parallelism)", settings.world)
            }
        }
    }

    fn warning(&self, bench: &Workbench<'_>, setup: &Setup) -> Option<String> {
        let cluster = bench.cluster.filter(|_| setup.training.parallel != Parallel::None)?;
        let on_cpu = if setup.training.parallel.offloads() {
            "; updates are priced as one machine's CPU and bus took, and yours may take several times as long"
        } else {
            ""
        };
        Some(format!(
            "the time counts what is sent at {} GB/s within a machine and {} GB/s between machines, as far as it does not overlap with \
             computing: an estimate{on_cpu}",
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

/// Whether a setup can be spread in a way. With weights on the CPU a GradScaler was not measured, and updates of the CPU are only priced for
/// optimizers of torch.optim that are not fused.
fn is_possible(setup: &Setup, way: &Parallel) -> bool {
    let Recipe { kind, implementation, .. } = setup.training.optimizer;
    let is_of_torch = kind.library() == Library::Torch && kind != Kind::Muon && implementation != Implementation::Fused;
    !way.offloads() || (setup.variant.amp != Some(Dtype::Float16) && (is_of_torch || kind == Kind::None))
}

/// The smaller buckets of gradients that are tried, in elements. The time of a step is not priced by the bucket.
const BUCKETS: [i64; 2] = [50_000_000, 10_000_000];

/// Smaller buckets of DeepSpeed, and higher stages.
fn of_deepspeed(start: &Setup, given: &DeepSpeed) -> Result<Vec<Setup>, String> {
    let higher = [ZeroStage::Two, ZeroStage::Three].into_iter().filter(|stage| stage.number() > given.stage.number());
    let stages: Vec<ZeroStage> = [given.stage].into_iter().chain(higher).collect();
    let buckets = [given.bucket].into_iter().chain(BUCKETS.into_iter().filter(|bucket| *bucket < given.bucket));
    let ways = buckets.flat_map(|bucket| {
        let overlaps = |stage: ZeroStage| given.overlaps || (stage != given.stage && stage.overlaps_by_default());
        stages.iter().map(move |&stage| DeepSpeed { stage, bucket, overlaps: overlaps(stage), ..given.clone() })
    });
    let mut setups: Vec<Setup> = Vec::new();
    for way in ways.filter(|way| way != given) {
        let mut setup = start.clone();
        setup.training.parallel = Parallel::DeepSpeed(way);
        if !setups.contains(&setup) {
            setups.push(setup);
        }
    }
    if setups.is_empty() {
        Err(format!("stage {} has a small bucket already", given.stage.number()))
    } else {
        Ok(setups)
    }
}

fn described(settings: &Sharded) -> String {
    let over = match settings.replicas {
        1 => format!("sharded over {} GPUs (FSDP2)", settings.shards),
        replicas => format!("{replicas} replicas, each sharded over {} GPUs (HSDP)", settings.shards),
    };
    let kept = match settings.after_forward {
        AfterForward::Kept => ", gathered weights kept until the backward pass",
        AfterForward::Freed | AfterForward::FreedButRoot => "",
        AfterForward::Split(_) => ", gathered weights split again",
    };
    let offload = if settings.offloads { ", weights and optimizer state on the CPU" } else { "" };
    over + kept + offload
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

/// The lists whose members these modules are, if they are all members of their lists.
fn lists_of(names: &[String]) -> Option<Vec<String>> {
    let mut lists: Vec<(String, usize)> = Vec::new();
    for name in names {
        let (list, number) = name.rsplit_once('.')?;
        let number: usize = number.parse().ok()?;
        match lists.iter_mut().find(|(known, _)| known == list) {
            Some((_, next)) if *next == number => *next += 1,
            None if number == 0 => lists.push((list.to_owned(), 1)),
            _ => return None,
        }
    }
    Some(lists.into_iter().map(|(list, _)| list).collect())
}

fn write_shards(bench: &Workbench<'_>, setup: &Setup, settings: &Sharded, code: &mut PrintedLoop) {
    code.imports.once("from torch.distributed.device_mesh import init_device_mesh");
    let mut needed = vec!["fully_shard"];
    let mut arguments = vec!["mesh=mesh".to_owned()];
    match settings.after_forward {
        AfterForward::FreedButRoot => {}
        AfterForward::Freed => arguments.push("reshard_after_forward=True".to_owned()),
        AfterForward::Kept => arguments.push("reshard_after_forward=False".to_owned()),
        AfterForward::Split(ranks) => arguments.push(format!("reshard_after_forward={ranks}")),
    }
    let dtype = |dtype: Option<Dtype>| dtype.map(|dtype| format!("torch.{}", dtype.name()));
    let types: Vec<String> =
        [("param_dtype", dtype(settings.param_dtype)), ("reduce_dtype", dtype(settings.reduce_dtype))]
            .into_iter()
            .filter_map(|(name, dtype)| Some(format!("{name}={}", dtype?)))
            .collect();
    if !types.is_empty() {
        needed.push("MixedPrecisionPolicy");
        arguments.push(format!("mp_policy=MixedPrecisionPolicy({})", types.join(", ")));
    }
    if settings.offloads {
        needed.push("CPUOffloadPolicy");
        arguments.push("offload_policy=CPUOffloadPolicy()".to_owned());
    }
    needed.sort_unstable();
    code.imports.once(&format!("from torch.distributed.fsdp import {}", needed.join(", ")));
    let lines = &mut code.before_move;
    match settings.replicas {
        1 => lines.line(0, "mesh = init_device_mesh(\"cuda\", (dist.get_world_size(),))"),
        replicas => lines.call(
            0,
            "mesh = init_device_mesh",
            &[
                "\"cuda\"".to_owned(),
                format!("({replicas}, {})", settings.shards),
                "mesh_dim_names=(\"replicate\", \"shard\")".to_owned(),
            ],
            "",
        ),
    }
    let names = match (&settings.modules, bench.bind(setup)) {
        (Choice::Nothing, _) | (_, None) => Vec::new(),
        (Choice::Modules(names), Some(_)) => names.to_vec(),
        (_, Some(bound)) => block_names(&bound),
    };
    let each =
        |module: &str| -> Vec<String> { std::iter::once(module.to_owned()).chain(arguments.iter().cloned()).collect() };
    match lists_of(&names).as_deref() {
        Some([list]) => {
            lines.line(0, &format!("for block in model.get_submodule(\"{list}\"):"));
            lines.call(1, "fully_shard", &each("block"), "");
        }
        Some(lists @ [_, _, ..]) => {
            lines.list("lists", lists);
            lines.line(0, "for block in [block for name in lists for block in model.get_submodule(name)]:");
            lines.call(1, "fully_shard", &each("block"), "");
        }
        _ if names.is_empty() => {}
        _ => {
            lines.list("blocks", &names);
            lines.line(0, "for name in blocks:");
            lines.call(1, "fully_shard", &each("model.get_submodule(name)"), "");
        }
    }
    let mut root = vec!["model".to_owned()];
    root.extend(arguments);
    lines.call(0, "fully_shard", &root, "");
    code.is_moved = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_lists_are_named_by_their_lists() {
        let named = |names: &[&str]| lists_of(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(named(&["h.0", "h.1"]), Some(vec!["h".to_owned()]));
        assert_eq!(named(&["a.b.0", "c.0", "c.1"]), Some(vec!["a.b".to_owned(), "c".to_owned()]));
        assert_eq!(named(&["h.1", "h.2"]), None);
        assert_eq!(named(&["encoder"]), None);
    }
}
