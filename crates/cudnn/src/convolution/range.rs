//! What is known about the size of a workspace.

use super::problem::ConvolutionProblem;
use crate::Scenario;

/// The bytes that a workspace may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkspaceRange {
    /// The likeliest size.
    pub expected: u64,
    /// The smallest possible size.
    pub lower: u64,
    /// The largest possible size.
    pub upper: u64,
    /// Whether cuDNN itself answered for this convolution. Without that, even a range of one value may be wrong.
    pub is_recorded: bool,
}

impl WorkspaceRange {
    /// What cuDNN answered.
    pub(super) fn recorded(bytes: u64) -> WorkspaceRange {
        WorkspaceRange { expected: bytes, lower: bytes, upper: bytes, is_recorded: true }
    }

    /// Anything from no workspace to `upper`.
    pub(super) fn up_to(expected: u64, upper: u64) -> WorkspaceRange {
        WorkspaceRange { expected, lower: 0, upper, is_recorded: false }
    }

    /// A convolution about which nothing is known: no workspace, or copies of all tensors.
    pub(super) fn not_recorded(problem: &ConvolutionProblem) -> WorkspaceRange {
        WorkspaceRange::up_to(0, problem.all_copies().unsigned_abs())
    }

    /// The same convolution on another GPU than the one that answered. There cuDNN may choose any plan.
    pub(super) fn on_another_gpu(self, problem: &ConvolutionProblem) -> WorkspaceRange {
        WorkspaceRange::up_to(self.expected, self.upper.max(problem.all_copies().unsigned_abs()))
    }

    /// Whether only one size is possible.
    pub fn is_certain(&self) -> bool {
        self.lower == self.upper
    }

    /// The size that a scenario assumes.
    pub fn assuming(&self, scenario: Scenario) -> u64 {
        match scenario {
            Scenario::Expected => self.expected,
            Scenario::Lower => self.lower,
            Scenario::Upper => self.upper,
        }
    }

    /// One possible size, chosen by a random number: the expected one in half of all cases, else the smallest, the largest, or none.
    pub(super) fn sampled(&self, random: u64) -> u64 {
        match random % 8 {
            _ if self.is_recorded => self.expected,
            0..4 => self.expected,
            4 => self.lower,
            5 => self.upper,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUESSED: WorkspaceRange = WorkspaceRange { expected: 5, lower: 3, upper: 9, is_recorded: false };

    #[test]
    fn samples_cover_the_range_and_leave_recorded_sizes_alone() {
        let samples = |range: WorkspaceRange| (0..8).map(|random| range.sampled(random)).collect::<Vec<u64>>();
        assert_eq!(samples(GUESSED), [5, 5, 5, 5, 3, 9, 0, 0]);
        assert_eq!(samples(WorkspaceRange { is_recorded: true, ..GUESSED }), [5; 8]);
    }

    #[test]
    fn each_scenario_takes_its_end_of_the_range() {
        let scenarios = [Scenario::Expected, Scenario::Lower, Scenario::Upper];
        assert_eq!(scenarios.map(|scenario| GUESSED.assuming(scenario)), [5, 3, 9]);
        assert!(!GUESSED.is_certain() && WorkspaceRange::recorded(7).is_certain());
    }
}
