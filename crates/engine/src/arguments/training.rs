//! The flags of `estimate`, `plan`, `max-batch` and `layers`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use vramfit_catalogue::TorchRelease;
use vramfit_training::script::MOST_MICRO_BATCHES;

use super::ranks::{ClusterFlags, RankFlags};
use super::values::{
    AutocastDtype, Chance, CheckpointChoice, FusedLoss, ImplementationName, InputLocation, Kept, KeptResultsChoice,
    LossKind, Margin, ModeKind, ModelDtype, OffloadTarget, OptimizerName, OutputLifetime, QuantizeScheme,
    StateLocation, ZeroGradPosition, implementations, optimizers, parse_chance, parse_checkpoint, parse_keep,
    parse_kept_results, parse_margin, parse_rank,
};

/// Help headings.
const MODEL: &str = "Model";
const FINE_TUNING: &str = "Fine-tuning";
const TRAINING: &str = "Training";
const GPU: &str = "GPU";

/// A model with its sizes, precision and mode.
#[derive(Args, Debug)]
pub struct ModelAt {
    /// A capture written by vramfit.capture(model, inputs, "model.vramfit"), a name from `vramfit models`, a .pt2 of
    /// torch.export.save, a config.json of Hugging Face, or a model.toml with a list of layers.
    #[arg(value_name = "MODEL", value_hint = clap::ValueHint::FilePath)]
    pub model: String,
    /// Batch size: every symbol in the first dimension of an input or target.
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = MODEL)]
    pub batch: Option<i64>,
    /// Sequence length: every symbol in the second dimension of an integer input.
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = MODEL)]
    pub seq: Option<i64>,
    /// Any other size: SYMBOL=N, or INPUT=AxBxC for the whole shape of an input.
    #[arg(long, value_name = "SIZE", help_heading = MODEL)]
    pub size: Vec<String>,
    /// Cast the whole model to this type [default: as it was built].
    #[arg(long, value_enum, ignore_case = true, help_heading = MODEL)]
    pub dtype: Option<ModelDtype>,
    /// Train under autocast in this type; fp16 adds a GradScaler.
    #[arg(long, value_enum, ignore_case = true, value_name = "DTYPE", help_heading = MODEL)]
    pub amp: Option<AutocastDtype>,
    /// Train, or evaluate under no_grad.
    #[arg(long, value_enum, default_value_t = ModeKind::Train, help_heading = MODEL)]
    pub mode: ModeKind,
    /// Keep the autograd graph in evaluation.
    #[arg(long, help_heading = MODEL)]
    pub grad: bool,
    /// Use scaled_dot_product_attention where the model computes attention by products of matrices and a softmax.
    #[arg(long, help_heading = MODEL)]
    pub fused_attention: bool,
    /// Let activation modules write into their input where nothing else needs it: nn.ReLU(inplace=True) and the like.
    #[arg(long, help_heading = MODEL)]
    pub in_place: bool,
    /// How it is fine-tuned.
    #[command(flatten)]
    pub fine_tuning: FineTuningFlags,
}

/// How a plain model is fine-tuned. A captured module with adapters or quantised weights needs none of these.
#[derive(Args, Debug)]
pub struct FineTuningFlags {
    /// Freeze the model and train low-rank adapters of peft, of rank 8 or the one given.
    #[arg(long, value_name = "RANK", num_args = 0..=1, default_missing_value = "8", allow_negative_numbers = true, value_parser = parse_rank, help_heading = FINE_TUNING)]
    pub lora: Option<u32>,
    /// The linear layers that get adapters: names with commas between, or all-linear for all but an output embedding
    /// [default: peft's own for this model].
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = FINE_TUNING)]
    pub lora_targets: Vec<String>,
    /// The adapters' dropout, such as 0.05.
    #[arg(long, value_name = "P", value_parser = parse_chance, help_heading = FINE_TUNING)]
    pub lora_dropout: Option<Chance>,
    /// Quantise the frozen linear layers with bitsandbytes: nf4 (with double quantisation) or int8; with --lora this is QLoRA.
    #[arg(long, value_enum, value_name = "HOW", help_heading = FINE_TUNING)]
    pub quantize: Option<QuantizeScheme>,
    /// The type that nf4 layers compute in [default: bf16].
    #[arg(long, value_enum, ignore_case = true, value_name = "DTYPE", help_heading = FINE_TUNING)]
    pub quantize_compute: Option<ModelDtype>,
}

/// A training run: the model, the training loop, the GPU.
#[derive(Args, Debug)]
pub struct RunSettings {
    /// The model.
    #[command(flatten)]
    pub at: ModelAt,
    /// The optimizer, with its library's default arguments. Names with 8bit, paged or lion are of bitsandbytes, adafactor-hf is
    /// the one of transformers' Trainer, all others are of torch.optim. muon is Muon for matrices except embeddings, and AdamW
    /// for the other weights.
    #[arg(long, value_name = "NAME", default_value = "adamw", value_parser = optimizers(), ignore_case = true, help_heading = TRAINING)]
    pub optimizer: OptimizerName,
    /// Groups of weights, which the optimizer updates one after another: groups with semicolons between, each a list of names
    /// of weights with commas between. A name may have * in it, or be a number or a range (0-5) of model.parameters(). A weight
    /// belongs to the first group that names it. `decay:` before a group passes it a weight_decay.
    #[arg(long, value_name = "GROUPS", help_heading = TRAINING)]
    pub optimizer_groups: Option<String>,
    /// Where the optimizer's state is. cpu: the weights stay on the GPU, and an optimizer on the CPU updates copies of them.
    #[arg(long, value_enum, value_name = "PLACE", default_value_t = StateLocation::Gpu, help_heading = TRAINING)]
    pub optimizer_state: StateLocation,
    /// Update each weight in the backward pass, as soon as it has its gradient, and free the gradient.
    #[arg(long, help_heading = TRAINING)]
    pub step_in_backward: bool,
    /// The optimizer's implementation; default is what torch.optim chooses on CUDA.
    #[arg(long, value_name = "HOW", default_value = "default", value_parser = implementations(), help_heading = TRAINING)]
    pub optimizer_impl: ImplementationName,
    /// Pass a weight_decay to the optimizer, which adds it to the gradients. AdamW's own decay needs no memory.
    #[arg(long, help_heading = TRAINING)]
    pub weight_decay: bool,
    /// Clip gradients with clip_grad_norm_ before the step.
    #[arg(long, help_heading = TRAINING)]
    pub clip_grad: bool,
    /// Set torch.backends.cudnn.benchmark = True: cuDNN tries all plans of a convolution, which widens the range.
    #[arg(long, help_heading = TRAINING)]
    pub cudnn_benchmark: bool,
    /// Keep the channels of images last in memory, those of the weights too: model.to(memory_format=torch.channels_last)
    /// before it is moved to the GPU, and the same for the batch.
    #[arg(long, help_heading = TRAINING)]
    pub channels_last: bool,
    /// Whether inputs stay on the GPU or are copied there in each step.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = InputLocation::Kept, help_heading = TRAINING)]
    pub inputs: InputLocation,
    /// Whether the script holds outputs and loss until the next iteration, or frees the outputs before the backward pass
    /// and the loss after it.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = OutputLifetime::Held, help_heading = TRAINING)]
    pub outputs: OutputLifetime,
    /// Modules to checkpoint: none, blocks, sequential:N, or module names separated by commas.
    #[arg(long, value_name = "WHAT", default_value = "none", value_parser = parse_checkpoint, help_heading = TRAINING)]
    pub checkpoint: CheckpointChoice,
    /// Results that checkpointed modules keep instead of computing them again: matmul, attention, convolution, separated by
    /// commas (create_selective_checkpoint_contexts).
    #[arg(long, value_name = "WHAT", default_value = "none", value_parser = parse_kept_results, help_heading = TRAINING)]
    pub checkpoint_save: KeptResultsChoice,
    /// Keep what autograd saves in host memory and copy it back in the backward pass (save_on_cpu); without a value,
    /// pinned.
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = OffloadTarget::None, num_args = 0..=1, default_missing_value = "pinned", help_heading = TRAINING)]
    pub offload_activations: OffloadTarget,
    /// Compute the loss of a causal language model of transformers in so many checkpointed chunks, so that the logits of
    /// one chunk exist at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = TRAINING)]
    pub chunked_loss: Option<u32>,
    /// Compute the loss of a causal language model of transformers by a fused function, which keeps no logits: liger is
    /// LigerFusedLinearCrossEntropyLoss.
    #[arg(long, value_enum, value_name = "WHOSE", conflicts_with = "chunked_loss", help_heading = TRAINING)]
    pub fused_linear_loss: Option<FusedLoss>,
    /// Weights that are not trained, by their names or those of their modules, separated by commas; * matches within a
    /// part between dots. The optimizer has only the others.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = TRAINING)]
    pub freeze: Vec<String>,
    /// Keep an exponential moving average of the weights on the GPU (AveragedModel of torch.optim.swa_utils), updated
    /// after each step.
    #[arg(long, help_heading = TRAINING)]
    pub ema: bool,
    /// Micro-batches per step, each of the size --batch.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_MICRO_BATCHES)), help_heading = TRAINING)]
    pub accumulate: u32,
    /// Where zero_grad is called.
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = ZeroGradPosition::BeforeForward, help_heading = TRAINING)]
    pub zero_grad: ZeroGradPosition,
    /// Whether zero_grad frees gradients (true) or fills them with zeros (false).
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, help_heading = TRAINING)]
    pub set_to_none: bool,
    /// The loss to add if the captured step returns none [default: cross-entropy].
    #[arg(long, value_enum, value_name = "KIND", help_heading = TRAINING)]
    pub loss: Option<LossKind>,
    /// Training steps to simulate.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = TRAINING)]
    pub steps: u32,
    /// How it is spread over GPUs.
    #[command(flatten)]
    pub ranks: RankFlags,
    /// The GPU, such as "RTX 3060". Its memory is the limit, and its architecture decides what libraries allocate.
    /// `vramfit catalogue` lists all names; `this` is the GPU of this machine with what is free there now (`this:1` the second).
    #[arg(long, value_name = "NAME", value_hint = clap::ValueHint::Other, help_heading = GPU)]
    pub gpu: Option<String>,
    /// Limit on what PyTorch may reserve, such as 11GiB, instead of the GPU's memory. A run beyond it is out of memory.
    #[arg(long, value_name = "SIZE", value_parser = vramfit_report::size::parse, help_heading = GPU)]
    pub vram: Option<u64>,
    /// Allocator settings in the syntax of PYTORCH_CUDA_ALLOC_CONF.
    #[arg(long, value_name = "STR", help_heading = GPU)]
    pub alloc_conf: Option<String>,
    /// The PyTorch that the training runs with, such as 2.8: what may differ from 2.11, which was measured, is said
    /// [default: the one that captured the model].
    #[arg(long, value_name = "VERSION", help_heading = GPU)]
    pub torch: Option<TorchRelease>,
    /// The cuDNN to ask for the workspaces of convolutions: libcudnn.so.9, a folder with it, a Python environment with
    /// torch, or `off` for the built-in tables only [default: VRAMFIT_CUDNN, else the one of the active Python
    /// environment or of the system].
    #[arg(long, value_name = "PATH|off", value_hint = clap::ValueHint::AnyPath, help_heading = GPU)]
    pub cudnn: Option<OsString>,
}

/// `vramfit estimate`.
#[derive(Args, Debug)]
pub struct EstimateArguments {
    /// The training.
    #[command(flatten)]
    pub run: RunSettings,
    /// Print the phases, the largest holders, the second peak and all notes too.
    #[arg(short, long)]
    pub verbose: bool,
    /// Write a self-contained HTML page: verdict, timeline, treemap of the peak, modules.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What stays free of the capacity.
#[derive(Args, Debug)]
pub struct MarginSettings {
    /// The share of the capacity that stays free beyond the upper end of every range, such as 0.02 or 2%; 0 uses all of it.
    #[arg(long, value_name = "SHARE", default_value = "2%", allow_negative_numbers = true, value_parser = parse_margin, help_heading = GPU)]
    pub margin: Margin,
}

/// `vramfit plan`.
#[derive(Args, Debug)]
pub struct PlanArguments {
    /// The training.
    #[command(flatten)]
    pub run: RunSettings,
    /// What stays free.
    #[command(flatten)]
    pub margin: MarginSettings,
    /// The GPUs to spread it over.
    #[command(flatten)]
    pub cluster: ClusterFlags,
    /// Settings that must not change, separated by commas: zero-grad, outputs, in-place, fused-attention, adapters,
    /// optimizer, optimizer-impl, optimizer-state, step-in-backward, parallel, channels-last, alloc-conf, checkpoint,
    /// checkpoint-save, chunked-loss, offload-activations, accumulate, amp, dtype, batch, seq.
    #[arg(long, value_name = "SETTINGS", default_value = "", hide_default_value = true, value_parser = parse_keep)]
    pub keep: Kept,
    /// Print every plan, the code of the first and every trick, not only the recommended plan.
    #[arg(long, visible_alias = "verbose", visible_short_alias = 'v')]
    pub all: bool,
    /// Write a self-contained HTML page: verdict, plans with their code, memory against time.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// `vramfit max-batch`.
#[derive(Args, Debug)]
pub struct MaxBatchArguments {
    /// The training.
    #[command(flatten)]
    pub run: RunSettings,
    /// What stays free.
    #[command(flatten)]
    pub margin: MarginSettings,
}

/// `vramfit layers`.
#[derive(Args, Debug)]
pub struct Layers {
    /// The model.
    #[command(flatten)]
    pub model: ModelAt,
    /// Depth of the modules to show; 0 is the model itself.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub depth: usize,
    /// The optimizer for the simulated peak and for the rule of thumb.
    #[arg(long, value_name = "NAME", default_value = "adamw", value_parser = optimizers(), ignore_case = true)]
    pub optimizer: OptimizerName,
    /// Modules to checkpoint: none, blocks, sequential:N, or module names separated by commas.
    #[arg(long, value_name = "WHAT", default_value = "none", value_parser = parse_checkpoint)]
    pub checkpoint: CheckpointChoice,
    /// The loss to add if the model returns none [default: cross-entropy].
    #[arg(long, value_enum, value_name = "KIND")]
    pub loss: Option<LossKind>,
}
