//! Where nothing fits: how much is missing, what the floor is, which GPU would do.

use vramfit_training::Run;
use vramfit_training::answer::Device;

use super::cells::corners;
use super::walk::Free;
use crate::control::Control;
use crate::setup::Setup;
use crate::workbench::Workbench;

/// A setup that needs little.
#[derive(Clone, Debug)]
pub struct Lean {
    /// The setup.
    pub setup: Setup,
    /// Bytes of the device or of `--vram`.
    pub taken: u64,
    /// Its expected run on a GPU of unlimited memory.
    pub run: Run,
}

/// That nothing fits.
#[derive(Clone, Debug)]
pub struct Nothing {
    /// The leanest candidate.
    pub leanest: Lean,
    /// Bytes that are missing for it.
    pub missing: u64,
    /// The smallest GPU on which it fits.
    pub gpu: Option<GpuThatDoes>,
    /// The smallest GPU on which the start fits.
    pub gpu_for_start: Option<GpuThatDoes>,
}

/// A GPU of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuThatDoes {
    /// Its name.
    pub name: String,
    /// Bytes it has for a process, at least.
    pub capacity: u64,
}

/// What is missing.
pub fn nothing<'m>(
    bench: &Workbench<'m>,
    start: &Setup,
    free: &Free,
    gpus: &[Device<'m>],
    control: &Control,
) -> Option<Nothing> {
    let leanest = leanest(bench, start, free, control)?;
    let capacity = bench.device.capacity()?.low;
    Some(Nothing {
        missing: leanest.taken.saturating_sub(capacity),
        gpu: smallest(bench, &leanest.setup, gpus, control),
        gpu_for_start: smallest(bench, start, gpus, control),
        leanest,
    })
}

/// The setup that needs the least, with all free tricks.
fn leanest(bench: &Workbench<'_>, start: &Setup, free: &Free, control: &Control) -> Option<Lean> {
    let lean = |setup: &Setup| -> Option<Lean> {
        let setup = free.leanest(bench, setup);
        let run = bench.run_free(&setup, control)?;
        Some(Lean { taken: bench.device.taken(&run), setup, run })
    };
    // Also where the search has been stopped there is one.
    let found = control.map(&corners(bench, start), lean);
    found.into_iter().flatten().flatten().min_by_key(|lean| lean.taken).or_else(|| lean(start))
}

/// The GPU with the least memory on which a setup fits.
fn smallest<'m>(bench: &Workbench<'m>, setup: &Setup, gpus: &[Device<'m>], control: &Control) -> Option<GpuThatDoes> {
    let needed = bench.peaks(setup, control)?.reserved;
    let mut gpus: Vec<&Device<'m>> = gpus.iter().collect();
    gpus.sort_by_key(|device| device.gpu.capacity().low);
    // PyTorch may give back and ask again: a little less than it reserves without a cap may do.
    gpus.into_iter().filter(|device| device.gpu.capacity().low > needed / 10 * 8).find_map(|device| {
        bench.on(*device).fitting(setup, control)?;
        Some(GpuThatDoes { name: device.gpu.name.clone(), capacity: device.gpu.capacity().low })
    })
}
