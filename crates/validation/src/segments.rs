//! The addresses of a run's segments: recorded, and as the simulated driver chooses them.

use std::fmt::Write;

use vramfit_allocator::SegmentAction;
use vramfit_training::Run;

use crate::measured::{RecordedTrace, measured, trace};
use crate::simulation::simulate;

const MIB: f64 = 1_048_576.0;

/// A segment: its address in units of 512 bytes, and its size in bytes.
type Segment = (u64, u64);

/// The segments of a case in the order of their allocation, recorded and simulated, each with its distance from the first.
///
/// # Errors
/// There is no such case, or no trace of it.
pub fn page(name: &str) -> Result<String, String> {
    let measured = measured()?;
    let case = measured.cases.get(name).ok_or_else(|| format!("no measured case is called `{name}`"))?;
    let recorded = trace(name)?;
    simulate(case, |_, run| table(&recorded, run))
}

/// The same of a trace and a run.
pub fn table(recorded: &RecordedTrace, run: &Run) -> String {
    let allocated = recorded.actions.chars().enumerate().filter(|(_, action)| *action == 'S');
    let real: Vec<Segment> = allocated.map(|(index, _)| (recorded.addresses[index], recorded.sizes[index])).collect();
    let allocated = run.segments.iter().filter(|(_, change)| change.action == SegmentAction::Allocate);
    let simulated: Vec<Segment> = allocated.map(|(_, change)| (change.address / 512, change.size)).collect();
    let mut text = String::from("        size MiB   recorded at  simulated at  (MiB from the first)\n");
    for index in 0..real.len().max(simulated.len()) {
        let distance = |list: &[Segment]| {
            let (&(first, _), &(address, size)) = (list.first()?, list.get(index)?);
            Some(((address as f64 - first as f64) * 512.0 / MIB, size))
        };
        let (one, other) = (distance(&real), distance(&simulated));
        let size = one.or(other).map_or(0.0, |(_, size)| size as f64 / MIB);
        let show = |found: Option<(f64, u64)>| found.map_or("-".to_owned(), |(at, _)| format!("{at:.1}"));
        let sign = if one == other { ' ' } else { '!' };
        let _ = writeln!(text, "{sign} {index:4} {size:10.1} {:>13} {:>13}", show(one), show(other));
    }
    text
}
