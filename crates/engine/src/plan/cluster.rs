//! The GPUs that `plan --gpus` spreads a training over.

use vramfit_plan::{Cluster, Control, Outcome, Setup, Workbench};
use vramfit_training::answer::Verdict;
use vramfit_training::script::Parallel;

use crate::arguments::{ParallelWay, PlanArguments, Speed};
use vramfit_report::failure::Failure;

/// Settings that no plan changes where a training is spread: what they do together is not simulated.
const NOT_SPREAD: [&str; 5] = ["step-in-backward", "offload-activations", "adapters", "optimizer", "chunked-loss"];

/// The GPUs that the flags describe; `None` for one.
pub fn cluster(given: &PlanArguments) -> Result<Option<Cluster>, Failure> {
    let flags = &given.cluster;
    let Some(gpus) = flags.gpus else {
        return match (flags.nodes, flags.link, flags.network) {
            (Some(nodes), ..) => {
                Err(Failure::new(format!("--nodes {nodes}: needs --gpus, the number of GPUs of each")))
            }
            (_, Some(_), _) => Err(Failure::new("--link: needs --gpus, the number of GPUs that it joins")),
            (.., Some(_)) => {
                Err(Failure::new("--network: needs --gpus and --nodes, the number of machines that it joins"))
            }
            (None, None, None) => Ok(None),
        };
    };
    let nodes = flags.nodes.unwrap_or(1);
    if nodes == 1 && flags.network.is_some() {
        return Err(Failure::new("--network: found one machine, needed --nodes, the number of machines that it joins"));
    }
    let speed = |given: Option<Speed>, default: Speed| given.unwrap_or(default).0;
    let (link, network) = (speed(flags.link, Speed::LINK), speed(flags.network, Speed::NETWORK));
    let cluster = Cluster { nodes, gpus, link, network };
    let ranks = &given.run.ranks;
    if let Some(world) = ranks.world.filter(|world| *world != cluster.world()) {
        return Err(Failure::new(format!("--world {world}: found {} GPUs by --gpus and --nodes", cluster.world())));
    }
    if cluster.world() > MOST {
        return Err(Failure::new(format!(
            "--gpus {gpus} --nodes {nodes}: found {} GPUs, needed at most {MOST}",
            cluster.world()
        )));
    }
    if let ParallelWay::Hsdp { replicas, shards } = ranks.parallel
        && replicas * shards != cluster.world()
    {
        return Err(Failure::new(format!(
            "--gpus {gpus} --nodes {nodes}: found --parallel {}, which needs {} GPUs, and {} of them",
            ranks.parallel,
            replicas * shards,
            cluster.world()
        )));
    }
    if cluster.world() < 2 {
        return Err(Failure::new(format!("--gpus {gpus}: found one GPU, needed at least two"))
            .with_hint(Some("without --gpus, `vramfit plan` is for one")));
    }
    if given.run.at.fine_tuning.quantize.is_some() && ranks.parallel == ParallelWay::None {
        return Err(Failure::new("--gpus: found --quantize, which is not simulated with it"));
    }
    Ok(Some(cluster))
}

/// The settings that must not change.
pub fn kept(given: &[&'static str], setup: &Setup) -> Vec<&'static str> {
    let more = match setup.training.parallel {
        Parallel::None => &[][..],
        _ => &NOT_SPREAD,
    };
    given.iter().chain(more).copied().collect()
}

/// The most GPUs that a plan is for, and that are tried.
const MOST: u32 = 4096;

/// `--gpus` and `--nodes` say how many GPUs there are where `--world` does not.
pub fn count_gpus(given: &mut PlanArguments) {
    let ranks = &mut given.run.ranks;
    let is_spread = ranks.parallel != ParallelWay::None || ranks.deepspeed_config.is_some();
    if let Some(gpus) = given.cluster.gpus.filter(|_| is_spread) {
        ranks.world.get_or_insert(gpus * given.cluster.nodes.unwrap_or(1));
    }
}

/// How many GPUs would do with FSDP2: as the training starts, or with what else the recommended plan changes. The first does not depend on
/// how many there are. `None` where the start fits.
pub fn fewest(bench: &Workbench<'_>, outcome: &Outcome, control: &Control) -> Option<String> {
    let cluster = bench.cluster.filter(|_| outcome.fit.verdict != Verdict::Fits)?;
    let start = &outcome.start;
    if start.training.parallel.has_engine() {
        return None;
    }
    let of_start = fewest_for(bench, cluster, start, control)?;
    if let Some(gpus) = of_start {
        return Some(format!("{gpus} GPUs are the fewest that would do, sharded by FSDP2 and otherwise as it is"));
    }
    let plan = outcome.plans().next().map(|plan| &plan.setup).filter(|plan| !plan.training.parallel.has_engine());
    let of_plan = match plan {
        Some(plan) => fewest_for(bench, cluster, plan, control)?,
        None => None,
    };
    Some(match of_plan {
        Some(gpus) => {
            format!("{gpus} GPUs are the fewest that would do, sharded by FSDP2 and otherwise as the first plan")
        }
        None => format!("no number of GPUs up to {MOST} makes it fit by sharding alone"),
    })
}

/// The fewest GPUs on which a setup fits with FSDP2; an inner `None` if more than [`MOST`] are needed, an outer one if it is not known.
fn fewest_for(bench: &Workbench<'_>, cluster: Cluster, setup: &Setup, control: &Control) -> Option<Option<u32>> {
    let fits = |gpus: u32| {
        let mut sharded = setup.clone();
        sharded.training.parallel = Cluster { nodes: 1, gpus, ..cluster }.sharded_as(&setup.training.parallel);
        bench.fits_uncached(&sharded, control)
    };
    let mut enough = 2;
    while !fits(enough)? {
        enough *= 2;
        if enough > MOST {
            return Some(None);
        }
        if control.is_stopped() {
            return None;
        }
    }
    let mut too_few = enough / 2;
    while enough - too_few > 1 {
        let between = too_few.midpoint(enough);
        match fits(between)? {
            true => enough = between,
            false => too_few = between,
        }
    }
    Some(Some(enough))
}
