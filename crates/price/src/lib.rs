//! How long a training step takes on a GPU of the catalogue, so that plans can be ranked by slowdown.
//!
//! [`CostModel::price`] computes the CPU and GPU cost of every captured call, forward and backward. These depend on the
//! bound graph alone. [`PricedGraph::step_time`] then simulates one step of a loop: recomputation for checkpoints,
//! micro-batches, the optimizer. [`CostModel::step_time`] does both.
//!
//! In eager PyTorch the CPU launches kernels one by one and the GPU runs them in order. [`queues`] simulates both sides,
//! so the slower one decides at every point of the step. All costs were measured one operator at a time on an H200;
//! `docs/price.md` says how they are scaled to other GPUs and CPUs.

mod call;
mod call_tensors;
mod compute;
mod cost_model;
mod curve;
mod grid;
mod host_copies;
mod operator;
mod optimizer;
mod points;
mod priced_graph;
mod queues;
mod scale;
mod step;
mod step_time;
mod tables;
mod traffic;

pub use cost_model::CostModel;
pub use priced_graph::PricedGraph;
pub use step_time::StepTime;
