//! The predicted time of a step.

/// The time of one step in steady state, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTime {
    /// The whole step: the sum of the three phases.
    pub seconds: f64,
    /// All forward passes.
    pub forward: f64,
    /// All backward passes, including recomputation for checkpoints.
    pub backward: f64,
    /// Gradient clipping, the optimizer and zeroing gradients.
    pub step: f64,
    /// GPU busy time. If it is less than `seconds`, the GPU waits for the CPU.
    pub gpu: f64,
    /// CPU time to launch the step's work.
    pub cpu: f64,
}
