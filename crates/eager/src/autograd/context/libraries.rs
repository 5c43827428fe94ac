//! Memory that libraries keep, and which libraries a process has loaded.

use std::rc::Rc;

use super::{Context, Thread};
use crate::launch::{Launch, Launched};
use crate::memory::{Category, Storage};

/// Memory of libraries: kept once it is allocated, but for `held`.
#[derive(Debug, Default)]
pub(super) struct Workspaces {
    blas: [Option<Rc<Storage>>; 2],
    blas_lt: [Option<Rc<Storage>>; 2],
    launched: Launched,
    dropout: Option<Rc<Storage>>,
    /// Workspaces of the running call.
    held: Vec<Rc<Storage>>,
}

/// Libraries that a process has loaded: on how many of its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// PyTorch's handles of cuBLAS.
    pub blas: u32,
    /// cuDNN.
    pub dnn: u32,
    /// Whether FSDP's streams have been created.
    pub has_streams: bool,
    /// How many groups of ranks the process communicates with.
    pub communicators: u32,
    /// Whether bitsandbytes has made its own handle of cuBLAS, one for all threads.
    pub has_eight_bit_handle: bool,
}

impl Libraries {
    /// All handles of cuBLAS: PyTorch's, one for each thread, and that of bitsandbytes.
    pub fn blas_handles(self) -> u32 {
        self.blas + u32::from(self.has_eight_bit_handle)
    }
}

impl Context {
    /// The libraries loaded so far.
    pub fn libraries(&self) -> Libraries {
        let blas = self.workspaces.blas.iter().flatten().count();
        let dnn = self.uses_dnn.iter().filter(|&&is_used| is_used).count();
        Libraries {
            blas: blas as u32,
            dnn: dnn as u32,
            has_streams: self.has_streams,
            communicators: self.communicators,
            has_eight_bit_handle: self.has_eight_bit_handle,
        }
    }

    /// The kinds of kernels launched so far.
    pub fn launched_so_far(&self) -> Launched {
        self.workspaces.launched
    }

    /// Calls `look` with all memory that libraries keep. The training loop compares it to find steps that repeat, so
    /// state that decides what later calls allocate must be reported here or in [`Context::launched_so_far`].
    pub fn each_workspace(&self, mut look: impl FnMut(&Rc<Storage>)) {
        let Workspaces { blas, blas_lt, dropout, .. } = &self.workspaces;
        blas.iter().chain(blas_lt).flatten().chain(dropout).for_each(&mut look);
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

    /// A call of cuDNN: the first on a thread makes a handle, whose memory PyTorch does not see.
    pub fn use_dnn(&mut self) {
        self.use_dnn_on(self.thread);
    }

    /// A call of cuDNN on a thread.
    pub fn use_dnn_on(&mut self, thread: Thread) {
        self.uses_dnn[thread as usize] = true;
    }

    /// The handle of cuDNN that a convolution takes before its workspace: the first on a thread is made.
    pub(crate) fn use_dnn_handle(&mut self) {
        if !self.memory.borrow().is_muted() {
            self.workspaces.launched.dnn_handle(self.thread as usize, &mut self.memory.borrow_mut());
        }
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

    /// An operator's kernels have been launched.
    pub fn launched(&mut self, launch: Launch) {
        if launch != Launch::Nothing && !self.memory.borrow().is_muted() {
            self.workspaces.launched.add(launch, &mut self.memory.borrow_mut());
        }
    }
}
