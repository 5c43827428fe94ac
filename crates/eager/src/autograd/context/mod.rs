//! The state of the simulated process: memory, the graph being recorded, the libraries' workspaces.

mod graph;
mod libraries;
mod tensors;
mod uncertain;

use vramfit_catalogue::ComputeCapability;
use vramfit_cudnn::GpuIdentity;
use vramfit_cudnn::convolution::{LiveAnswers, PlanCache};
use vramfit_graph::dtype::Dtype;

use super::engine::GradientHook;
use super::{Checkpointing, Node, Offload, Plans, Visits};
use crate::kernels::reduce::Gpu;
use crate::machine::Machine;
use crate::memory::SharedMemory;
pub use libraries::Libraries;
use libraries::Workspaces;
pub use uncertain::{CudnnSources, Guessed, Missing};

/// The thread that launches kernels; each has its own library handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// Python's.
    Main,
    /// Autograd's.
    Backward,
}

/// Where the weights of recurrent modules are. cuDNN takes them from one block; what lies apart is copied into one for each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecurrentWeights {
    /// In one block, into which the module was moved.
    Flattened,
    /// They have been given other memory since, in which they do not lie as cuDNN wants them.
    Moved,
    /// Where a recorded script put them: in one storage, or each in its own, as those of a copied module are.
    AsStored,
}

/// The state of the simulated process.
#[derive(Debug)]
pub struct Context {
    memory: SharedMemory,
    machine: Machine,
    thread: Thread,
    workspaces: Workspaces,
    uses_dnn: [bool; 2],
    /// What has run, where the caller asked for it.
    pub visits: Option<Box<Visits>>,
    /// The number of the last node that each thread recorded.
    sequences: [u64; 2],
    pass: u32,
    /// How many backward passes are running: a function may start one within another.
    pub(super) open_passes: u32,
    is_grad_on: bool,
    autocast: Option<Dtype>,
    plans: Plans,
    plan_cache: PlanCache,
    guessed: Guessed,
    unmodelled: Missing,
    cudnn_sources: CudnnSources,
    /// The state of checkpointed regions.
    pub checkpointing: Checkpointing,
    /// Whether saved tensors go to the host.
    pub offload: Offload,
    /// Whether what is recorded was recorded before as a part of an operator, and has its number.
    pub is_recalling: bool,
    /// Whether streams beside the one that computes have been created.
    pub has_streams: bool,
    /// Whether the linear layer that runs is split by rows, so that each rank adds its share of the bias.
    pub adds_bias_share: bool,
    /// Whether linear layers are functions written in Python, as DeepSpeed makes them when it partitions weights.
    pub linear_is_function: bool,
    /// Whether the weights of a recurrent module are one block.
    pub recurrent_weights: RecurrentWeights,
    /// How many groups of ranks the process communicates with.
    pub communicators: u32,
    /// Whether bitsandbytes has made its own handle of cuBLAS.
    pub(crate) has_eight_bit_handle: bool,
    /// Whether gradients may be sparse: where the optimizers that take them are a script's own.
    pub has_sparse_gradients: bool,
    /// Whether there ever was a sparse tensor.
    pub(crate) has_met_sparse: bool,
    has_assumed_rows: bool,
    /// Called when a leaf has got its gradient.
    pub gradient_hook: Option<GradientHook>,
}

impl Context {
    /// A process that has not run anything yet.
    pub fn new(memory: SharedMemory, machine: Machine) -> Context {
        Context {
            memory,
            machine,
            thread: Thread::Main,
            workspaces: Workspaces::default(),
            uses_dnn: [false; 2],
            visits: None,
            sequences: [0; 2],
            pass: 0,
            open_passes: 0,
            is_grad_on: true,
            autocast: None,
            plans: Plans::default(),
            plan_cache: PlanCache::default(),
            guessed: Guessed::new(),
            unmodelled: Missing::new(),
            cudnn_sources: CudnnSources::default(),
            checkpointing: Checkpointing::default(),
            offload: Offload::default(),
            has_streams: false,
            adds_bias_share: false,
            linear_is_function: false,
            recurrent_weights: RecurrentWeights::Flattened,
            is_recalling: false,
            communicators: 0,
            has_eight_bit_handle: false,
            has_sparse_gradients: false,
            has_met_sparse: false,
            has_assumed_rows: false,
            gradient_hook: None,
        }
    }

    /// The GPU's compute capability.
    pub fn compute(&self) -> ComputeCapability {
        self.machine.compute
    }

    /// The memory.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Sets the type that autocast casts to.
    pub fn set_autocast(&mut self, dtype: Option<Dtype>) {
        self.autocast = dtype;
    }

    /// The type that autocast casts to; `None` where it is off.
    pub fn autocast(&self) -> Option<Dtype> {
        self.autocast
    }

    /// Sets the thread that launches kernels.
    pub fn set_thread(&mut self, thread: Thread) {
        self.thread = thread;
    }

    /// Sets whether calls are recorded in the graph.
    pub fn set_grad(&mut self, is_on: bool) {
        self.is_grad_on = is_on;
    }

    /// Whether calls are recorded in the graph.
    pub fn is_grad_on(&self) -> bool {
        self.is_grad_on
    }

    /// A backward pass begins.
    pub fn next_pass(&mut self) {
        self.pass += 1;
    }

    /// The number of the running backward pass.
    pub fn pass(&self) -> u32 {
        self.pass
    }

    pub(crate) fn enter_node(&mut self, node: &Node) {
        self.memory.borrow_mut().set_origin(node.origin);
        if let Some(visits) = &mut self.visits {
            visits.note_node(node.origin);
        }
    }

    /// The GPU's size.
    pub fn gpu(&self) -> Gpu {
        self.machine.gpu
    }

    /// The GPU whose answers cuDNN gives.
    pub(crate) fn gpu_identity(&self) -> GpuIdentity {
        let Machine { gpu, compute, .. } = self.machine;
        GpuIdentity {
            compute_capability: (compute.major, compute.minor),
            multiprocessors: gpu.multiprocessors,
            threads_per_multiprocessor: gpu.threads_per_multiprocessor,
        }
    }

    /// An installed cuDNN that answers for the GPU.
    pub(crate) fn live_cudnn(&self) -> Option<&'static dyn LiveAnswers> {
        self.machine.cudnn
    }
}
