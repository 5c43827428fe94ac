//! What a recording of a script has beside its steps.

/// A recorded script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedScript {
    /// How many elements the parameters have that it moved to the GPU.
    pub parameters: u64,
    /// How many optimizer steps it took.
    pub steps: u32,
    /// Whether it set `torch.backends.cudnn.benchmark`.
    pub is_cudnn_benchmarked: bool,
    /// Whether a `GradScaler` decides by the gradients' values if an optimizer does its step.
    pub has_grad_scaler: bool,
    /// Whether sizes depend on values that were assumed, such as how many rows a router sends where.
    pub has_assumed_sizes: bool,
    /// Who called each line of [`Model::sources`](super::Model::sources).
    pub callers: Vec<Caller>,
    /// The script's own files as they were when it ran; empty in recordings of older versions.
    pub files: Vec<RecordedFile>,
}

/// A source file of a recorded script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedFile {
    /// Its name, as in [`Model::sources`](super::Model::sources).
    pub name: String,
    /// The CRC-32 of its bytes.
    pub checksum: u32,
}

/// Who called a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The line that called it, an index into [`Model::sources`](super::Model::sources); `None` for the outermost.
    pub source: Option<u32>,
    /// Whether that line called a module, within which this line is.
    pub is_in_module: bool,
    /// What the line itself calls.
    pub calls: Calls,
}

/// What a line of a script calls, as far as it is PyTorch's own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// An operator.
    Operator,
    /// A module of PyTorch.
    Module,
    /// An optimizer, a gradient scaler or gradient clipping.
    Optimizer,
    /// `DistributedDataParallel`, for its own buffers.
    Replica,
}
