//! What a setup costs: the time of a step.

use vramfit_catalogue::Gpu;
use vramfit_graph::bind::{Bound, BoundStep, Value};
use vramfit_step::checkpoint::regions;
use vramfit_step::training::Loop;

/// Seconds of a step on a GPU.
pub fn seconds(gpu: &Gpu, bound: &Bound<'_>, training: &Loop) -> f64 {
    let bandwidth = gpu.bandwidth * 1e9 * 0.7;
    let mut forward = 0.0;
    let mut by_place = vec![0.0; bound.steps.len()];
    for (place, step) in bound.steps.iter().enumerate() {
        if let BoundStep::Call(call) = step {
            let mut bytes: u64 = call.results.iter().flatten().map(|&id| bound.tensor(id).bytes).sum();
            for value in &call.arguments {
                if let Value::Tensor(id) = value {
                    bytes += bound.tensor(*id).bytes;
                }
            }
            by_place[place] = bytes as f64 / bandwidth + 5e-6;
            forward += by_place[place];
        }
    }
    let again: f64 = regions(bound, &training.checkpoint)
        .map(|regions| regions.iter().map(|region| by_place[region.first..=region.last].iter().sum::<f64>()).sum())
        .unwrap_or(0.0);
    let weights = bound.model.parameter_count().unwrap_or(0) as f64 * 4.0;
    f64::from(training.accumulate) * (3.0 * forward + again) + 10.0 * weights / bandwidth
}
