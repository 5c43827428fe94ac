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

/// The largest number of GPUs that is tried.
const MOST: u32 = 4096;

/// How many GPUs would do, sharded, and otherwise as the recommended plan or the start is. `None` where the start fits.
pub fn fewest(bench: &Workbench<'_>, outcome: &Outcome, control: &Control) -> Option<String> {
    let cluster = bench.cluster.filter(|_| outcome.fit.verdict != Verdict::Fits)?;
    let setup = outcome.plans().next().map_or(&outcome.start, |plan| &plan.setup);
    let fits = |gpus: u32| {
        let mut sharded = setup.clone();
        sharded.training.parallel = Cluster { nodes: 1, gpus, ..cluster }.sharded();
        bench.fits_uncached(&sharded, control)
    };
    let mut enough = 2;
    while !fits(enough)? {
        enough *= 2;
        if enough > MOST {
            return Some(format!("no number of GPUs up to {MOST} makes it fit by sharding alone"));
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
    Some(format!("{enough} GPUs are the fewest that would do, sharded by FSDP2 and otherwise as the first plan"))
}
