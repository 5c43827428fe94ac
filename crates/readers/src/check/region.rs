//! Regions: what begins ends, in the right order.

use super::Checker;
use super::error::CheckError;
use super::reference::step_location;
use vramfit_graph::model::Step;

/// More regions within each other than this are no model's.
const REGION_LIMIT: usize = 1000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Region {
    Module(u32),
    Autocast,
    Checkpoint,
    Function,
    Loss,
}

impl Region {
    fn name(self) -> String {
        match self {
            Region::Module(module) => format!("module {module}"),
            Region::Autocast => "autocast".to_owned(),
            Region::Checkpoint => "checkpoint".to_owned(),
            Region::Function => "function".to_owned(),
            Region::Loss => "loss".to_owned(),
        }
    }
}

enum Change {
    Begin(Region),
    End(Region),
}

fn change(step: &Step) -> Option<Change> {
    Some(match step {
        Step::Enter(module, _) => Change::Begin(Region::Module(*module)),
        Step::Exit(module, _) => Change::End(Region::Module(*module)),
        Step::Autocast { .. } => Change::Begin(Region::Autocast),
        Step::EndAutocast => Change::End(Region::Autocast),
        Step::Checkpoint { .. } => Change::Begin(Region::Checkpoint),
        Step::EndCheckpoint(_) => Change::End(Region::Checkpoint),
        Step::Function { .. } => Change::Begin(Region::Function),
        Step::EndFunction { .. } => Change::End(Region::Function),
        Step::Loss => Change::Begin(Region::Loss),
        Step::EndLoss => Change::End(Region::Loss),
        Step::Call(_) | Step::Free(_) | Step::Grad(_) => return None,
    })
}

impl Checker<'_> {
    /// Whether the regions of a section nest properly.
    pub(super) fn regions(&self, section: usize) -> Result<(), CheckError> {
        check_regions(&self.model.steps[section], &|at| step_location(section, at))
    }
}

/// Whether the regions of these steps nest properly; `location` says where each step is.
pub(super) fn check_regions(steps: &[Step], location: &dyn Fn(usize) -> String) -> Result<(), CheckError> {
    let mut open: Vec<(usize, Region)> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        match change(step) {
            None => {}
            Some(Change::Begin(_)) if open.len() == REGION_LIMIT => {
                return Err(CheckError::RegionsTooDeep { location: location(at), limit: REGION_LIMIT });
            }
            Some(Change::Begin(region)) => open.push((at, region)),
            Some(Change::End(region)) => match open.pop() {
                Some((_, begun)) if begun == region => {}
                Some((begin, begun)) => {
                    return Err(CheckError::WrongRegionEnd {
                        location: location(at),
                        found: region.name(),
                        needed: begun.name(),
                        begin: location(begin),
                    });
                }
                None => return Err(CheckError::EndWithoutBegin { location: location(at), found: region.name() }),
            },
        }
    }
    match open.pop() {
        Some((begin, region)) => Err(CheckError::RegionNeverEnds { location: location(begin), region: region.name() }),
        None => Ok(()),
    }
}
