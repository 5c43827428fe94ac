//! If nothing fits: how much memory is missing, and which GPU is large enough.

use vramfit_training::Run;
use vramfit_training::answer::Device;

use super::base_setups::corners;
use super::by_role::Search;
use super::free_tricks::FreeTricks;
use crate::control::Control;
use crate::setup::Setup;
use crate::tricks::differences;
use crate::workbench::Workbench;

/// A setup that needs little memory.
#[derive(Clone, Debug)]
pub struct LeanSetup {
    /// The settings.
    pub setup: Setup,
    /// Bytes counted against the GPU's memory or `--vram`.
    pub taken: u64,
    /// Its expected run on a GPU of unlimited memory.
    pub run: Run,
}

/// How much memory is missing.
#[derive(Clone, Debug)]
pub struct Shortfall {
    /// The candidate that needs the least memory.
    pub leanest: LeanSetup,
    /// Its changes of the start, in words.
    pub changes: Vec<String>,
    /// Bytes missing for it.
    pub missing: u64,
    /// The smallest GPU on which it fits.
    pub gpu: Option<SufficientGpu>,
    /// The smallest GPU on which the start fits.
    pub gpu_for_start: Option<SufficientGpu>,
}

/// A GPU that is large enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SufficientGpu {
    /// Its name in the catalogue.
    pub name: String,
    /// Lower bound of the bytes a process can use.
    pub capacity: u64,
}

impl Shortfall {
    /// The smallest GPU that is enough, and whether the start fits on it. The leanest setup may need what only larger GPUs
    /// have, such as bfloat16.
    pub fn smallest_gpu(&self) -> Option<(&SufficientGpu, bool)> {
        let with_changes = self.gpu.as_ref().map(|gpu| (gpu, false));
        let unchanged = self.gpu_for_start.as_ref().map(|gpu| (gpu, true));
        unchanged.into_iter().chain(with_changes).min_by_key(|(gpu, _)| gpu.capacity)
    }
}

/// Computes the shortfall of the leanest candidate.
pub fn shortfall<'m>(search: &Search<'_, 'm>, free: &FreeTricks, gpus: &[Device<'m>]) -> Option<Shortfall> {
    let Search { bench, tricks, start, control, .. } = *search;
    let leanest = leanest(search, free)?;
    let capacity = bench.usable()?;
    let changes = differences(bench, tricks, start, &leanest.setup).into_iter();
    Some(Shortfall {
        changes: changes.map(|(trick, _)| trick.describe(bench, &leanest.setup)).collect(),
        missing: leanest.taken.saturating_sub(capacity),
        gpu: smallest(bench, &leanest.setup, gpus, control),
        gpu_for_start: smallest(bench, start, gpus, control),
        leanest,
    })
}

/// The setup that needs the least memory, with all free tricks.
fn leanest(search: &Search<'_, '_>, free: &FreeTricks) -> Option<LeanSetup> {
    let Search { bench, start, control, .. } = *search;
    let with_free_tricks = |setup: &Setup| -> Option<LeanSetup> {
        let setup = free.leanest(bench, setup);
        let run = bench.probe_run(&setup, control)?;
        Some(LeanSetup { taken: bench.device.taken(&run), setup, run })
    };
    // A stopped search falls back to the start.
    let found = control.map(&corners(search), with_free_tricks);
    found.into_iter().flatten().flatten().min_by_key(|lean| lean.taken).or_else(|| with_free_tricks(start))
}

/// The GPU with the least memory on which the setup fits.
fn smallest<'m>(bench: &Workbench<'m>, setup: &Setup, gpus: &[Device<'m>], control: &Control) -> Option<SufficientGpu> {
    let needed = bench.peaks(setup, control)?.reserved;
    let mut gpus: Vec<&Device<'m>> = gpus.iter().collect();
    gpus.sort_by_key(|device| device.gpu.capacity().low);
    // PyTorch releases cached memory when it runs out, so a GPU a little smaller than the uncapped peak may do.
    let can_hold = |device: &&Device<'m>| device.gpu.capacity().low > needed / 10 * 8;
    let can_run = |device: &&Device<'m>| device.gpu.compute.has_bfloat16() || !bench.uses_bfloat16(setup);
    gpus.into_iter().filter(|device| can_hold(device) && can_run(device)).find_map(|device| {
        bench.on(*device).fitting_run(setup, control)?;
        Some(SufficientGpu { name: device.gpu.name.clone(), capacity: device.gpu.capacity().low })
    })
}
