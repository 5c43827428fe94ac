//! The settings of a run, defaults included, as JSON and pages show them.

mod choices;
mod ranks;

use indexmap::IndexMap;
use serde::Serialize;
use vramfit_eager::autograd::KeptResults;
use vramfit_eager::forward::{Choice, LossHead};
use vramfit_graph::bind::Bound;
use vramfit_graph::model::{Mode, Precision};
use vramfit_training::answer::Device;
#[cfg(test)]
use vramfit_training::script::Parallel;
use vramfit_training::{Loop, StatePlace, ZeroGrad};

use crate::size::human;
use choices::{InputsName, LossName, ModeName, OffloadName, OutputsName, StateName, ZeroGradName};
use ranks::RankSettingsReport;
pub(crate) use ranks::how_spread;

/// Settings that an answer belongs to.
pub trait AnswerSettings {
    /// The command that answers.
    const COMMAND: &'static str;

    /// Names and values for a page.
    fn rows(&self) -> Vec<(String, String)>;
}

/// Every setting of a run. A key is the name of the flag that sets it, with underscores.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SettingsReport {
    /// The model's sizes by name, such as `batch` and `seq`.
    pub(crate) sizes: IndexMap<String, i64>,
    /// `as-built`, an element type such as `bf16`, or one of autocast such as `amp-bf16`.
    precision: String,
    /// The rank of adapters that were added to the model, or `none`.
    lora: String,
    /// `all-linear`, or names of layers with commas between; empty for peft's own.
    lora_targets: String,
    /// The adapters' dropout.
    lora_dropout: f64,
    /// How the weights of linear layers were quantised: `nf4`, `int8` or `none`.
    quantize: String,
    /// The type that nf4 layers compute in; empty without them.
    quantize_compute: String,
    /// Whether `scaled_dot_product_attention` is in place of attention that the model writes itself.
    fused_attention: bool,
    /// Whether activation modules write into their input where they may.
    in_place: bool,
    /// Training or evaluation.
    mode: ModeName,
    /// Whether autograd keeps the graph.
    grad: bool,
    /// The optimizer's name on the command line.
    optimizer: &'static str,
    /// How the optimizer goes over the weights.
    optimizer_impl: &'static str,
    /// `--optimizer-groups`; empty for one group of all weights.
    optimizer_groups: String,
    /// Where the optimizer's state is.
    optimizer_state: StateName,
    /// Whether each weight is updated in the backward pass.
    step_in_backward: bool,
    /// Whether weight decay is added to the gradients.
    weight_decay: bool,
    /// Whether gradients are clipped with `clip_grad_norm_`.
    clip_grad: bool,
    /// Micro-batches in a step.
    accumulate: u32,
    /// `none`, `blocks`, `sequential:N`, or module names with commas between.
    checkpoint: String,
    /// `none`, or results that checkpointed modules keep: `matmul`, `attention`, `convolution` with commas between.
    checkpoint_save: String,
    /// Where what autograd saves is kept.
    offload_activations: OffloadName,
    /// Chunks in which the loss of a language model is computed.
    chunked_loss: Option<u32>,
    /// `liger`, where its fused function computes the loss.
    fused_linear_loss: Option<&'static str>,
    /// Names of weights and modules that are not trained, with commas between; empty where all are.
    freeze: String,
    /// Whether an exponential moving average of the weights is kept on the GPU.
    ema: bool,
    /// Where `optimizer.zero_grad()` is called.
    zero_grad: ZeroGradName,
    /// `optimizer.zero_grad(set_to_none=…)`.
    set_to_none: bool,
    /// `torch.backends.cudnn.benchmark`.
    cudnn_benchmark: bool,
    /// Whether images and the weights they meet have their channels last in memory.
    channels_last: bool,
    /// Whether inputs stay on the GPU.
    inputs: InputsName,
    /// How long the script holds the model's outputs and the loss.
    outputs: OutputsName,
    /// Where the loss comes from.
    loss: LossName,
    /// How many steps are simulated.
    steps: u32,
    /// The GPU that is simulated.
    gpu: String,
    /// `--vram`: bytes that PyTorch may reserve.
    vram: Option<u64>,
    /// `PYTORCH_CUDA_ALLOC_CONF`, empty for the defaults.
    alloc_conf: String,
    /// How the training is spread over GPUs.
    #[serde(flatten)]
    ranks: RankSettingsReport,
}

impl SettingsReport {
    /// Of a run of `bound` on a GPU.
    pub fn new(bound: &Bound<'_>, training: &Loop, device: &Device<'_>, alloc_conf: &str) -> SettingsReport {
        let tuned = &bound.model.fine_tuning;
        SettingsReport {
            sizes: sizes(bound),
            precision: precision(bound, training).to_string(),
            lora: or_none(&tuned.lora),
            lora_targets: tuned.lora_targets.clone(),
            lora_dropout: f64::from(tuned.lora_dropout) / 1e6,
            quantize: or_none(&tuned.quantize),
            quantize_compute: tuned.quantize_compute.clone(),
            fused_attention: tuned.has_fused_attention,
            in_place: tuned.has_activations_in_place,
            mode: if bound.variant.mode == Mode::Train { ModeName::Train } else { ModeName::Eval },
            grad: bound.variant.has_grad,
            optimizer: training.optimizer.kind.name(),
            optimizer_impl: training.optimizer.implementation.name(),
            optimizer_groups: training.groups.as_ref().map_or_else(String::new, ToString::to_string),
            optimizer_state: match training.optimizer_state {
                StatePlace::Gpu => StateName::Gpu,
                StatePlace::Cpu => StateName::Cpu,
            },
            step_in_backward: training.steps_in_backward,
            weight_decay: training.optimizer.adds_decay,
            clip_grad: training.clips_gradients,
            accumulate: training.accumulate,
            checkpoint: checkpoint(&training.checkpoint),
            checkpoint_save: kept_results(training.kept_results),
            offload_activations: OffloadName::of(training.offload),
            chunked_loss: match training.loss_head {
                LossHead::Chunked(chunks) => Some(chunks),
                LossHead::Captured | LossHead::Liger => None,
            },
            fused_linear_loss: (training.loss_head == LossHead::Liger).then_some("liger"),
            freeze: training.frozen.join(","),
            ema: training.averages_weights,
            zero_grad: match training.zero_grad {
                ZeroGrad::BeforeForward => ZeroGradName::BeforeForward,
                ZeroGrad::BeforeBackward => ZeroGradName::BeforeBackward,
            },
            set_to_none: training.sets_to_none,
            cudnn_benchmark: training.is_cudnn_benchmarked,
            channels_last: training.has_channels_last,
            inputs: match (training.has_fresh_inputs, training.holds_whole_batch) {
                (true, _) => InputsName::Fresh,
                (false, true) => InputsName::Whole,
                (false, false) => InputsName::Kept,
            },
            outputs: if training.releases_outputs { OutputsName::Released } else { OutputsName::Held },
            loss: LossName::of(bound, training),
            steps: training.steps,
            gpu: device.gpu.name.clone(),
            vram: device.vram,
            alloc_conf: alloc_conf.to_owned(),
            ranks: RankSettingsReport::new(&training.parallel),
        }
    }

    /// The settings that decide most, in words: `batch 8, seq 512; fp32, adamw, its own loss`. `built` is the type
    /// that the weights have.
    pub fn summary(&self, built: &str) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(|(name, size)| format!("{name} {size}")).collect();
        let mut words = vec![match self.precision.split_once('-') {
            Some(("amp", dtype)) => format!("{built} under autocast {dtype}"),
            _ => built.to_owned(),
        }];
        match self.mode {
            ModeName::Eval => words.push("evaluation".to_owned()),
            ModeName::Train => {
                words.push(match self.optimizer {
                    "none" => "no optimizer".to_owned(),
                    name => name.to_owned(),
                });
                words.push(self.loss.words().to_owned());
            }
        }
        words.extend((self.lora != "none").then(|| self.adapters_in_words()));
        words.extend((self.quantize != "none").then(|| match self.quantize_compute.as_str() {
            "" => format!("weights in {}", self.quantize),
            compute => format!("weights in {}, computing in {compute}", self.quantize),
        }));
        words.extend((self.accumulate > 1).then(|| format!("{} micro-batches a step", self.accumulate)));
        words.extend(match self.checkpoint.as_str() {
            "none" => None,
            "blocks" => Some("every block checkpointed".to_owned()),
            _ => Some("checkpoints".to_owned()),
        });
        words.extend(self.ranks.words());
        [sizes.join(", "), words.join(", ")].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

impl SettingsReport {
    /// Such as `LoRA rank 8, all-linear, dropout`.
    fn adapters_in_words(&self) -> String {
        let targets = if self.lora_targets.is_empty() { "default targets" } else { &self.lora_targets };
        let dropout = if self.lora_dropout > 0.0 { ", dropout" } else { "" };
        format!("LoRA rank {}, {targets}{dropout}", self.lora)
    }
}

impl AnswerSettings for SettingsReport {
    const COMMAND: &'static str = "estimate";

    /// Each size is a row of its own.
    fn rows(&self) -> Vec<(String, String)> {
        let sizes = self.sizes.iter().map(|(name, size)| (name.clone(), size.to_string()));
        let others = [
            ("precision", self.precision.clone()),
            ("lora", self.lora.clone()),
            ("lora targets", or_none(&self.lora_targets)),
            ("lora dropout", self.lora_dropout.to_string()),
            ("quantize", self.quantize.clone()),
            ("quantize compute", or_none(&self.quantize_compute)),
            ("fused attention", yes_or_no(self.fused_attention)),
            ("in place", yes_or_no(self.in_place)),
            ("mode", self.mode.name().to_owned()),
            ("grad", yes_or_no(self.grad)),
            ("optimizer", self.optimizer.to_owned()),
            ("optimizer impl", self.optimizer_impl.to_owned()),
            ("optimizer groups", or_none(&self.optimizer_groups)),
            ("optimizer state", self.optimizer_state.name().to_owned()),
            ("step in backward", yes_or_no(self.step_in_backward)),
            ("weight decay", yes_or_no(self.weight_decay)),
            ("clip grad", yes_or_no(self.clip_grad)),
            ("accumulate", self.accumulate.to_string()),
            ("checkpoint", or_none(&self.checkpoint)),
            ("checkpoint save", self.checkpoint_save.clone()),
            ("offload activations", self.offload_activations.name().to_owned()),
            ("chunked loss", self.chunked_loss.map_or_else(|| or_none(""), |chunks| chunks.to_string())),
            ("fused linear loss", or_none(self.fused_linear_loss.unwrap_or_default())),
            ("freeze", or_none(&self.freeze)),
            ("ema", yes_or_no(self.ema)),
            ("zero grad", self.zero_grad.name().to_owned()),
            ("set to none", yes_or_no(self.set_to_none)),
            ("cudnn benchmark", yes_or_no(self.cudnn_benchmark)),
            ("channels last", yes_or_no(self.channels_last)),
            ("inputs", self.inputs.name().to_owned()),
            ("outputs", self.outputs.name().to_owned()),
            ("loss", self.loss.name().to_owned()),
            ("steps", self.steps.to_string()),
            ("gpu", self.gpu.clone()),
            ("vram", vram(self.vram)),
            ("alloc conf", or_none(&self.alloc_conf)),
        ];
        let others = others.into_iter().chain(self.ranks.rows());
        sizes.chain(others.map(|(name, value)| (name.to_owned(), value))).collect()
    }
}

/// The sizes that a model is bound to, by name.
pub(crate) fn sizes(bound: &Bound<'_>) -> IndexMap<String, i64> {
    let symbols = bound.model.symbols.iter().zip(bound.sizes.as_slice());
    symbols.map(|(symbol, &size)| (symbol.name.clone(), size)).collect()
}

/// What the whole model is cast to, or its autocast.
fn precision(bound: &Bound<'_>, training: &Loop) -> Precision {
    match bound.variant.precision {
        Precision::Cast(computed) => {
            training.parallel.cast_to(Some(computed)).map_or(Precision::AsBuilt, Precision::Cast)
        }
        other => other,
    }
}

/// The type that most of a model's weights are stored in, by bytes.
pub(crate) fn built_dtype(bound: &Bound<'_>, training: &Loop) -> &'static str {
    let mut bytes: IndexMap<&'static str, u64> = IndexMap::new();
    // Quantised weights are integers.
    let tensors = bound.model.parameters.iter().map(|weight| (weight.dtype, bound.tensor(weight.tensor)));
    for (built, tensor) in tensors.filter(|(_, tensor)| tensor.dtype.is_differentiable()) {
        *bytes.entry(training.parallel.stored(built, tensor.dtype).short_name()).or_default() += tensor.bytes;
    }
    bytes.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("no weights", |(name, _)| name)
}

/// A flag in words.
pub(crate) fn yes_or_no(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}

/// `--vram` in words.
pub(crate) fn vram(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| or_none(""), |bytes| format!("{bytes} B ({})", human(bytes)))
}

/// A text, or that there is none.
pub(crate) fn or_none(text: &str) -> String {
    if text.is_empty() { "none".to_owned() } else { text.to_owned() }
}

/// `--checkpoint`, as it is written.
fn kept_results(kept: KeptResults) -> String {
    if kept.is_empty() { "none".to_owned() } else { kept.names() }
}

pub(crate) fn checkpoint(choice: &Choice) -> String {
    match choice {
        Choice::Nothing => "none".to_owned(),
        Choice::Blocks => "blocks".to_owned(),
        Choice::Sequential(segments) => format!("sequential:{segments}"),
        Choice::Modules(names) => names.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> SettingsReport {
        SettingsReport {
            sizes: IndexMap::from([("batch".to_owned(), 4)]),
            precision: "as built".to_owned(),
            lora: "none".to_owned(),
            lora_targets: String::new(),
            lora_dropout: 0.0,
            quantize: "none".to_owned(),
            quantize_compute: String::new(),
            fused_attention: false,
            in_place: false,
            mode: ModeName::Train,
            grad: true,
            optimizer: "adamw",
            optimizer_impl: "default",
            optimizer_groups: String::new(),
            optimizer_state: StateName::Gpu,
            step_in_backward: false,
            weight_decay: false,
            clip_grad: false,
            accumulate: 1,
            checkpoint: "none".to_owned(),
            checkpoint_save: "none".to_owned(),
            offload_activations: OffloadName::None,
            chunked_loss: None,
            fused_linear_loss: None,
            freeze: String::new(),
            ema: false,
            zero_grad: ZeroGradName::BeforeForward,
            set_to_none: true,
            cudnn_benchmark: false,
            channels_last: false,
            inputs: InputsName::Kept,
            outputs: OutputsName::Held,
            loss: LossName::CrossEntropy,
            steps: 3,
            gpu: "H200".to_owned(),
            vram: Some(1 << 30),
            alloc_conf: String::new(),
            ranks: RankSettingsReport::new(&Parallel::None),
        }
    }

    #[test]
    fn a_page_shows_every_setting_that_json_has_in_the_same_order() {
        let json = serde_json::to_value(settings()).expect("settings can be written");
        let keys: Vec<String> = json.as_object().expect("an object").keys().map(|key| key.replace('_', " ")).collect();
        let names: Vec<String> = settings().rows().into_iter().map(|(name, _)| name).collect();
        assert_eq!((keys[0].as_str(), names[0].as_str()), ("sizes", "batch"));
        assert_eq!(keys[1..], names[1..]);
    }

    #[test]
    fn the_summary_has_sizes_type_optimizer_and_loss_and_what_else_was_chosen() {
        let mut settings = settings();
        assert_eq!(settings.summary("fp32"), "batch 4; fp32, adamw, cross-entropy loss");
        settings.precision = "amp-bf16".to_owned();
        (settings.accumulate, settings.checkpoint) = (4, "blocks".to_owned());
        settings.sizes.insert("seq".to_owned(), 8);
        let expected = "batch 4, seq 8; fp32 under autocast bf16, adamw, cross-entropy loss, 4 micro-batches a step, \
                        every block checkpointed";
        assert_eq!(settings.summary("fp32"), expected);
        settings.mode = ModeName::Eval;
        assert!(settings.summary("fp32").contains("evaluation") && !settings.summary("fp32").contains("adamw"));
    }

    #[test]
    fn settings_are_shown_in_words() {
        let rows = settings().rows();
        for (name, value) in
            [("batch", "4"), ("clip grad", "no"), ("vram", "1073741824 B (1.00 GiB)"), ("alloc conf", "none")]
        {
            assert!(rows.contains(&(name.to_owned(), value.to_owned())), "{rows:?}");
        }
    }

    #[test]
    fn a_choice_is_named_on_a_page_as_in_json() {
        let json = serde_json::to_value(settings()).expect("settings can be written");
        for (name, value) in settings().rows().into_iter().skip(1) {
            if let Some(word) = json[name.replace(' ', "_")].as_str().filter(|word| !word.is_empty()) {
                assert_eq!(value, word, "{name}");
            }
        }
    }
}
