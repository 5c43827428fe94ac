//! The state of the simulated process: memory, the graph being recorded, the libraries' workspaces.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use smallvec::SmallVec;
use vramfit_catalogue::ComputeCapability;
use vramfit_graph::dtype::Dtype;

use vramfit_cudnn::GpuIdentity;
use vramfit_cudnn::convolution::{
    ConvolutionProblem, Evidence, LiveAnswers, PlanCache, PlanTable, Planned, Trial, WorkspaceRange,
};

use super::engine::GradientHook;
use super::{Backward, Checkpointing, Edge, Node, Offload, Packed, Plans, ResultKind, Results, Saved, Tensor, Visits};
use crate::kernels::reduce::{self, Gpu, Reduction};
use crate::launch::{Launch, Launched};
use crate::machine::Machine;
use crate::memory::{Category, SharedMemory, Storage};
use vramfit_graph::dims::Dims;
use vramfit_graph::format::Format;
use vramfit_graph::layout::Layout;

/// The thread that launches kernels; each has its own library handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    /// Python's.
    Main,
    /// Autograd's.
    Backward,
}

/// Memory of libraries: kept once it is allocated, but for `held`.
#[derive(Debug, Default)]
struct Workspaces {
    blas: [Option<Rc<Storage>>; 2],
    blas_lt: [Option<Rc<Storage>>; 2],
    launched: Launched,
    dropout: Option<Rc<Storage>>,
    /// Workspaces of the running call.
    held: Vec<Rc<Storage>>,
}

/// Workspaces that were estimated from similar recordings: which, and how often.
pub type Guessed = BTreeMap<String, u32>;

/// Operators without a rule, with the steps of the pass that call them.
pub type Missing = BTreeMap<String, Vec<u32>>;

/// Where the workspaces of cuDNN came from, recorded ones aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CudnnSources {
    /// An installed cuDNN was asked about a convolution, and answered.
    pub is_asked: bool,
    /// A shipped table had cuDNN's answer for the GPU's compute capability.
    pub is_tabulated: bool,
    /// A convolution was guessed from recordings of others, or of another GPU.
    pub is_guessed: bool,
    /// A layer that no installed cuDNN is asked about takes what it takes on an H200: a recurrent layer, or attention.
    pub is_assumed: bool,
}

/// Libraries that a process has loaded: on how many of its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// cuBLAS.
    pub blas: u32,
    /// cuDNN.
    pub dnn: u32,
    /// Whether FSDP's streams have been created.
    pub has_streams: bool,
    /// How many groups of ranks the process communicates with.
    pub communicators: u32,
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
    /// Whether FSDP's streams have been created.
    pub has_streams: bool,
    /// How many groups of ranks the process communicates with.
    pub communicators: u32,
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
            communicators: 0,
            gradient_hook: None,
        }
    }

    /// The GPU's compute capability.
    pub fn compute(&self) -> ComputeCapability {
        self.machine.compute
    }

    /// The libraries loaded so far.
    pub fn libraries(&self) -> Libraries {
        let blas = self.workspaces.blas.iter().flatten().count();
        let dnn = self.uses_dnn.iter().filter(|&&is_used| is_used).count();
        let (has_streams, communicators) = (self.has_streams, self.communicators);
        Libraries { blas: blas as u32, dnn: dnn as u32, has_streams, communicators }
    }

    /// The kinds of kernels launched so far.
    pub fn launched_so_far(&self) -> Launched {
        self.workspaces.launched
    }

    /// The memory.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Calls `look` with all memory that libraries keep. The training loop compares it to find steps that repeat, so
    /// state that decides what later calls allocate must be reported here or in [`Context::launched_so_far`].
    pub fn each_workspace(&self, mut look: impl FnMut(&Rc<Storage>)) {
        let Workspaces { blas, blas_lt, dropout, .. } = &self.workspaces;
        blas.iter().chain(blas_lt).flatten().chain(dropout).for_each(&mut look);
    }

    /// Sets the type that autocast casts to.
    pub fn set_autocast(&mut self, dtype: Option<Dtype>) {
        self.autocast = dtype;
    }

    /// The type that autocast casts to; `None` where it is off.
    pub fn autocast(&self) -> Option<Dtype> {
        self.autocast
    }

    /// Keeps a workspace until [`Context::release_scratch`].
    pub(crate) fn hold_scratch(&mut self, workspace: Rc<Storage>) {
        self.workspaces.held.push(workspace);
    }

    /// Frees the workspaces of the running call.
    pub(crate) fn release_scratch(&mut self) {
        self.workspaces.held.clear();
    }

    /// The state of cuDNN's dropout, made from a seed by the first call and then kept.
    pub(crate) fn use_dropout_state(&mut self, bytes: u64) {
        if self.workspaces.dropout.is_none() && !self.memory.borrow().is_muted() {
            drop(self.scratch(8));
            let state = self.scratch(bytes);
            state.become_category(Category::Workspace);
            self.workspaces.dropout = Some(state);
        }
    }

    /// Whether the state of cuDNN's dropout has been made.
    pub fn has_dropout_state(&self) -> bool {
        self.workspaces.dropout.is_some()
    }

    /// Sets how cuDNN's plans are chosen.
    pub fn set_plans(&mut self, plans: Plans) {
        self.plans = plans;
    }

    pub(crate) fn plans(&self) -> Plans {
        self.plans
    }

    /// The plan for a convolution and its workspace, found once.
    pub(crate) fn planned(
        &mut self,
        problem: &ConvolutionProblem,
        find: impl FnOnce(&ConvolutionProblem) -> (WorkspaceRange, Option<Trial>),
    ) -> Planned {
        self.plan_cache.get(problem, self.thread as usize, find)
    }

    /// Takes the workspace of a library that does not say how much it needs, for as long as its kernels are launched. `what`
    /// names it in the answer.
    pub(crate) fn uncertain_workspace(&mut self, what: &str, (lower, expected, upper): (u64, u64, u64)) {
        if self.memory.borrow().is_muted() {
            return;
        }
        self.note_guess(what);
        let range = WorkspaceRange { expected, lower, upper, evidence: Evidence::Guessed };
        let plan = self.plan_cache.other(range);
        self.memory.borrow_mut().pass_through(range.assuming(self.plans.assumption), plan);
    }

    /// Counts a workspace that was estimated from similar recordings.
    pub(crate) fn note_guess(&mut self, what: &str) {
        match self.guessed.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.guessed.insert(what.to_owned(), 1)),
        }
    }

    /// The workspaces that were estimated from similar recordings.
    pub fn guessed(&self) -> &Guessed {
        &self.guessed
    }

    /// Notes that the backward pass calls an operator without a rule.
    pub(crate) fn note_unmodelled(&mut self, name: &str) {
        let origin = self.memory.borrow().origin();
        self.unmodelled.entry(name.to_owned()).or_default().push(origin);
    }

    /// The operators without a rule that the backward pass has called; forgets them.
    pub fn take_unmodelled(&mut self) -> Missing {
        std::mem::take(&mut self.unmodelled)
    }

    /// Notes where the workspace of a convolution comes from.
    pub(crate) fn note_cudnn_source(&mut self, evidence: Evidence) {
        match evidence {
            Evidence::Recorded => {}
            Evidence::Asked => self.cudnn_sources.is_asked = true,
            Evidence::Tabulated => self.cudnn_sources.is_tabulated = true,
            Evidence::Guessed => self.cudnn_sources.is_guessed = true,
        }
    }

    /// Notes a workspace that is taken to be as on an H200.
    pub(crate) fn note_assumed_workspace(&mut self) {
        self.cudnn_sources.is_assumed = true;
    }

    /// Where the workspaces of cuDNN came from.
    pub fn cudnn_sources(&self) -> CudnnSources {
        self.cudnn_sources
    }

    /// The workspaces of cuDNN's plans, with the smaller ones that follow where there is no room.
    pub fn plan_table(&self) -> PlanTable {
        self.plan_cache.table()
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

    /// `expect_contiguous`: a contiguous copy where the tensor is not contiguous, else the tensor itself.
    pub fn contiguous(&mut self, tensor: &Tensor) -> Tensor {
        if tensor.layout().is_contiguous() {
            return tensor.clone();
        }
        self.empty_contiguous(tensor.dtype(), tensor.shape())
    }

    /// `contiguous(memory_format)`: a copy where the tensor is not in the format, else the tensor itself.
    pub fn contiguous_in(&self, tensor: &Tensor, format: Format) -> Tensor {
        if format.is_kept_by(tensor.layout()) {
            return tensor.clone();
        }
        self.empty(format.layout(tensor.dtype(), tensor.shape()))
    }

    /// A new tensor.
    pub fn empty(&self, layout: impl Into<Rc<Layout>>) -> Tensor {
        Tensor::empty(&self.memory, layout)
    }

    /// A new contiguous tensor.
    pub fn empty_contiguous(&self, dtype: Dtype, shape: &[i64]) -> Tensor {
        self.empty(Layout::contiguous(dtype, shape))
    }

    /// Memory that is not a tensor, such as a kernel's buffer; freed when the handle is dropped.
    pub fn scratch(&self, bytes: u64) -> Rc<Storage> {
        Storage::new(&self.memory, bytes)
    }

    /// Memory of a tensor whose layout and graph do not matter, with a single owner.
    pub fn storage(&self, bytes: u64) -> Storage {
        Storage::unshared(&self.memory, bytes)
    }

    /// A call of cuDNN: the first on a thread makes a handle, whose memory PyTorch does not see.
    pub fn use_dnn(&mut self) {
        self.use_dnn_on(self.thread);
    }

    /// A call of cuDNN on a thread.
    pub fn use_dnn_on(&mut self, thread: Thread) {
        self.uses_dnn[thread as usize] = true;
    }

    /// A call of cuBLAS: the first on a thread allocates a workspace and keeps it.
    pub fn use_blas(&mut self) {
        let index = self.thread as usize;
        if self.workspaces.blas[index].is_none() && !self.memory.borrow().is_muted() {
            self.workspaces.launched.blas_handle(&mut self.memory.borrow_mut());
            let workspace = self.scratch(self.machine.blas.handle);
            workspace.become_category(Category::Workspace);
            self.workspaces.blas[index] = Some(workspace);
        }
    }

    /// An operator's kernels have been launched.
    pub fn launched(&mut self, launch: Launch) {
        if launch != Launch::Nothing && !self.memory.borrow().is_muted() {
            self.workspaces.launched.add(launch, &mut self.memory.borrow_mut());
        }
    }

    /// A call of cuBLASLt, which has its own workspace beside the handle's.
    pub fn use_blas_lt(&mut self) {
        self.use_blas();
        let index = self.thread as usize;
        if self.workspaces.blas_lt[index].is_none() && !self.memory.borrow().is_muted() {
            let workspace = self.scratch(self.machine.blas.lt);
            workspace.become_category(Category::Workspace);
            self.workspaces.blas_lt[index] = Some(workspace);
        }
    }

    /// A sum over `dims`, with the buffers a split reduction needs.
    pub fn sum(&self, tensor: &Tensor, dims: &[i64], keeps_dims: bool, dtype: Dtype) -> Tensor {
        self.reduce(tensor, dims, keeps_dims, dtype, Reduction::summing(dtype))
    }

    /// A reduction over `dims`; no dims are all dims.
    pub fn reduce(
        &self,
        tensor: &Tensor,
        dims: &[i64],
        keeps_dims: bool,
        dtype: Dtype,
        reduction: Reduction,
    ) -> Tensor {
        let rank = tensor.shape().len();
        let all: Dims = (0..rank as i64).collect();
        let dims = if dims.is_empty() { &*all } else { dims };
        let is_reduced =
            |dim: usize| dims.iter().any(|&reduced| reduced == dim as i64 || reduced + rank as i64 == dim as i64);
        let wrapped: Dims = (0..rank).filter(|&dim| is_reduced(dim)).map(|dim| dim as i64).collect();
        let shape: Dims = (0..rank)
            .filter(|&dim| keeps_dims || !is_reduced(dim))
            .map(|dim| if is_reduced(dim) { 1 } else { tensor.shape()[dim] })
            .collect();
        let result = self.empty_contiguous(dtype, &shape);
        self.reduction_buffers(tensor.layout(), &wrapped, reduction);
        result
    }

    /// A sum over all elements into existing memory.
    pub fn sum_into(&self, tensor: &Tensor, dtype: Dtype) {
        let all: Dims = (0..tensor.shape().len() as i64).collect();
        self.reduction_buffers(tensor.layout(), &all, Reduction::summing(dtype));
    }

    /// The buffers that a reduction of `layout` over `dims` needs while its kernel is launched.
    pub fn reduction_buffers(&self, layout: &Layout, dims: &[i64], reduction: Reduction) {
        if let Some(buffers) = reduce::buffers(layout, dims, reduction, self.machine.gpu) {
            let partials = self.scratch(buffers.partials);
            let semaphores = self.scratch(buffers.semaphores);
            drop(semaphores);
            drop(partials);
        }
    }

    /// The results of an operator: `compute` finds them, unless a checkpointed region kept them.
    pub(crate) fn computed(&mut self, kind: ResultKind, compute: impl FnOnce(&mut Context) -> Results) -> Results {
        let is_muted = self.memory.borrow().is_muted();
        let kept = if is_muted { None } else { self.checkpointing.take_kept(kind) };
        if let Some(kept) = kept {
            return kept;
        }
        let results = compute(self);
        self.checkpointing.keep(kind, &results);
        results
    }

    /// Records a call in the graph if one of its inputs requires a gradient; returns the edge of its first output.
    pub fn record(
        &mut self,
        inputs: &[Option<&Tensor>],
        outputs: usize,
        saved: impl FnOnce(&dyn Fn(usize) -> bool) -> Saved,
        backward: impl Backward + 'static,
    ) -> Option<Edge> {
        if !self.is_grad_on || !inputs.iter().flatten().any(|input| input.requires_grad()) {
            return None;
        }
        let mut next: SmallVec<[Option<Edge>; 3]> = SmallVec::new();
        let mut shapes: SmallVec<[Option<Rc<Layout>>; 3]> = SmallVec::new();
        for input in inputs {
            next.push(input.and_then(|input| input.edge().cloned()));
            shapes.push(input.map(Tensor::shared_layout));
        }
        let wants = |index: usize| next.get(index).is_some_and(Option::is_some);
        let saved = saved(&wants);
        let early = if backward.saves_afterwards() { &[] } else { inputs };
        let (saved, packed) = match self.offload.target().filter(|_| !self.checkpointing.is_on()) {
            Some(to) => {
                let copies = self.offload.pack(to, early, saved, &self.memory);
                (Saved::new(), copies.map(|copies| Box::new(Packed::HostCopies(copies))))
            }
            None => self.checkpointing.pack(early, saved, &self.memory),
        };
        if let Some(visits) = &mut self.visits {
            visits.note_saved(self.memory.borrow().origin(), saved.iter().flatten());
        }
        self.sequences[self.thread as usize] += 1;
        let node = Node {
            sequence: self.sequences[self.thread as usize],
            saved: RefCell::new(saved),
            packed: RefCell::new(packed),
            inputs: shapes,
            next,
            outputs,
            origin: self.memory.borrow().origin(),
            dependencies: Cell::new(0),
            visited: Cell::new(0),
            is_skipped: Cell::new(false),
            is_end: Cell::new(false),
            buffer: RefCell::default(),
            hooks: RefCell::default(),
            backward,
        };
        Some(Edge { node: Rc::new(node), output: 0 })
    }

    /// Records a node with these edges and input layouts, which saves no tensors.
    pub fn record_as(
        &mut self,
        inputs: impl Iterator<Item = (Option<Edge>, Option<Rc<Layout>>)>,
        backward: impl Backward + 'static,
    ) -> Edge {
        let (next, inputs) = inputs.unzip();
        self.sequences[self.thread as usize] += 1;
        let node = Node {
            sequence: self.sequences[self.thread as usize],
            saved: RefCell::default(),
            packed: RefCell::default(),
            inputs,
            next,
            outputs: 1,
            origin: self.memory.borrow().origin(),
            dependencies: Cell::new(0),
            visited: Cell::new(0),
            is_skipped: Cell::new(false),
            is_end: Cell::new(false),
            buffer: RefCell::default(),
            hooks: RefCell::default(),
            backward,
        };
        Edge { node: Rc::new(node), output: 0 }
    }
}
