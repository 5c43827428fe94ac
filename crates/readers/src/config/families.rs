//! What is known of each family's configuration: which fields give sizes, which choose a template, which change nothing.

use serde_json::{Map, Value};
use vramfit_graph::dtype::Dtype;

use super::ConfigError;
use super::fields::Config;

/// Which template to use, and its sizes.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) template: &'static str,
    /// Values of the template's symbols.
    pub(super) sizes: Vec<(&'static str, i64)>,
    pub(super) stacks: Vec<Stack>,
    /// The type that the model is built in; `None` where the template is built in it.
    pub(super) dtype: Option<Dtype>,
    /// Classes of the template begin with the first name, those of the family with the second.
    pub(super) renamed: Option<(&'static str, &'static str)>,
    /// Why an estimate cannot be called exact.
    pub(super) causes: Vec<String>,
    /// What the reader of an answer should know.
    pub(super) notes: Vec<String>,
}

impl Request {
    fn new(template: &'static str, sizes: Vec<(&'static str, i64)>, stacks: Vec<Stack>) -> Self {
        Self { template, sizes, stacks, dtype: None, renamed: None, causes: Vec::new(), notes: Vec::new() }
    }
}

/// Modules that the layers are in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stack {
    pub(super) path: &'static str,
    /// How many layers the template has before the three that are repeated.
    pub(super) kept: u32,
    /// How many there will be in all.
    pub(super) layers: u32,
}

impl Stack {
    /// Layers that are all repeated.
    fn of(path: &'static str, layers: u32) -> Vec<Self> {
        vec![Self { path, kept: 0, layers }]
    }
}

macro_rules! templates {
    ($($name:literal $(+ $bf16:literal + $fp16:literal)?),+ $(,)?) => {
        /// The template of that name, where it has forms for half precision the one of `half`.
        pub(super) fn packed(name: &str, half: Option<Dtype>) -> Option<&'static [u8]> {
            match (name, half) {
                $($(($name, Some(Dtype::Bfloat16)) => Some(include_bytes!(concat!("templates/", $name, "-", $bf16, ".packed"))),
                ($name, Some(Dtype::Float16)) => Some(include_bytes!(concat!("templates/", $name, "-", $fp16, ".packed"))),)?
                ($name, _) => Some(include_bytes!(concat!("templates/", $name, ".packed"))),)+
                _ => None,
            }
        }

        /// Whether a template has forms that are built in half precision.
        pub(super) fn has_half_forms(name: &str) -> bool {
            match name {
                $($($name => [$bf16, $fp16].len() == 2,)?)+
                _ => false,
            }
        }
    };
}
templates!(
    "llama" + "bf16" + "fp16",
    "llama-grouped" + "bf16" + "fp16",
    "llama-tied" + "bf16" + "fp16",
    "llama-tied-grouped" + "bf16" + "fp16",
    "mistral-grouped" + "bf16" + "fp16",
    "mixtral-grouped" + "bf16" + "fp16",
    "qwen2" + "bf16" + "fp16",
    "qwen2-grouped" + "bf16" + "fp16",
    "qwen2-tied-grouped" + "bf16" + "fp16",
    "vit" + "bf16" + "fp16",
    "bert-sequence",
    "bert-masked",
    "bert-tokens",
    "bert-spans",
    "roberta-sequence",
    "roberta-masked",
    "roberta-tokens",
    "roberta-spans",
    "xlm-roberta-sequence",
    "xlm-roberta-masked",
    "xlm-roberta-tokens",
    "xlm-roberta-spans",
    "gpt2",
    "t5",
    "t5-unscaled",
    "t5-gated",
    "t5-gated-unscaled",
    "t5-no-dropout",
    "t5-unscaled-no-dropout",
    "t5-gated-no-dropout",
    "t5-gated-unscaled-no-dropout",
);

/// The architectures of an encoder, the one that is used where a file names none first.
macro_rules! heads {
    ($prefix:literal) => {
        [
            concat!($prefix, "ForMaskedLM"),
            concat!($prefix, "ForSequenceClassification"),
            concat!($prefix, "ForTokenClassification"),
            concat!($prefix, "ForQuestionAnswering"),
        ]
    };
}

/// What a configuration asks for.
pub(super) fn request(fields: &Map<String, Value>) -> Result<Request, ConfigError> {
    let found = fields.get("model_type").unwrap_or(&Value::Null);
    let family = found.as_str().unwrap_or_default();
    let config = Config::new(fields, family);
    let mut request = match family {
        "llama" | "mistral" | "mixtral" | "qwen2" => llama(&config)?,
        "bert" | "roberta" | "xlm-roberta" | "camembert" => bert(&config)?,
        "gpt2" => gpt2(&config)?,
        "vit" => vit(&config)?,
        "t5" => t5(&config)?,
        _ => {
            let known =
                "llama, mistral, mixtral, qwen2, bert, roberta, xlm-roberta, camembert, gpt2, vit, t5".to_owned();
            let found = found.as_str().map_or_else(|| found.to_string(), |name| format!("`{name}`"));
            return Err(ConfigError::Family { found, known });
        }
    };
    let dtype = config.half()?;
    if family == "t5" && dtype == Some(Dtype::Float16) {
        let cause = "built as from_config does; from_pretrained in float16 keeps the weights named wo in float32";
        request.causes.push(cause.to_owned());
    }
    config.no_others()?;
    request.dtype = dtype;
    request.notes = config.notes();
    Ok(request)
}

fn llama(config: &Config<'_>) -> Result<Request, ConfigError> {
    let (architecture, sizes): (_, [i64; 5]) = match config.family {
        "llama" => ("LlamaForCausalLM", [32000, 4096, 11008, 32, 32]),
        "mistral" => ("MistralForCausalLM", [32000, 4096, 14336, 32, 8]),
        "mixtral" => ("MixtralForCausalLM", [32000, 4096, 14336, 32, 8]),
        _ => ("Qwen2ForCausalLM", [151936, 4096, 22016, 32, 32]),
    };
    config.architecture(&[architecture])?;
    config.only("hidden_act", &["silu".into()])?;
    config.only("use_cache", &[true.into()])?;
    config.only("attention_bias", &[false.into()])?;
    config.only("mlp_bias", &[false.into()])?;
    config.only("use_sliding_window", &[false.into()])?;
    config.dropout("attention_dropout", 0.0)?;
    config.no_window()?;
    config.only("output_router_logits", &[false.into()])?;
    config.dropout("router_jitter_noise", 0.0)?;
    config.find("router_aux_loss_coef");
    config.find("layer_types");
    for field in ["rope_scaling", "rope_parameters"] {
        let kind = config.find(field).and_then(|scaling| scaling.get("rope_type").or(scaling.get("type")));
        if let Some(kind) = kind.filter(|kind| !["default", "linear", "llama3"].map(Value::from).contains(kind)) {
            return Err(ConfigError::NotModelled {
                field: format!("{field}.rope_type"),
                found: kind.to_string(),
                known: "default, linear, llama3".to_owned(),
            });
        }
    }
    let hidden = config.count("hidden_size", sizes[1])?;
    let heads = config.heads("num_attention_heads", sizes[3])?;
    // Where it says nothing, Llama has as many as heads; the others have their own numbers.
    let kv_heads = config.count("num_key_value_heads", if config.family == "llama" { heads } else { sizes[4] })?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    config.divides("num_key_value_heads", kv_heads, heads, "num_attention_heads")?;
    let head_dim = config.count("head_dim", hidden / heads)?;
    if head_dim % 2 != 0 {
        return Err(config.wrong("head_dim", "an even number"));
    }
    let tied = config.flag("tie_word_embeddings", false)?;
    let template = match (config.family, tied, kv_heads != heads) {
        ("llama", false, false) => "llama",
        ("llama", false, true) => "llama-grouped",
        ("llama", true, false) => "llama-tied",
        ("llama", true, true) => "llama-tied-grouped",
        ("mistral", false, true) => "mistral-grouped",
        ("mixtral", false, true) => "mixtral-grouped",
        ("qwen2", false, false) => "qwen2",
        ("qwen2", false, true) => "qwen2-grouped",
        ("qwen2", true, true) => "qwen2-tied-grouped",
        (family, true, _) => {
            return Err(ConfigError::NotModelled {
                field: "tie_word_embeddings".to_owned(),
                found: "true".to_owned(),
                known: if family.starts_with('m') {
                    "false".to_owned()
                } else {
                    "true with fewer num_key_value_heads".to_owned()
                },
            });
        }
        (_, false, false) => {
            return Err(ConfigError::NotModelled {
                field: "num_key_value_heads".to_owned(),
                found: kv_heads.to_string(),
                known: "fewer than num_attention_heads".to_owned(),
            });
        }
        (family, false, true) => {
            return Err(ConfigError::Family {
                found: format!("`{family}`"),
                known: "llama, mistral, qwen2".to_owned(),
            });
        }
    };
    let mut values = fixed(config, sizes[0])?;
    values.extend([("hidden", hidden), ("inner", config.count("intermediate_size", sizes[2])?)]);
    values.extend([("heads", heads), ("kv_heads", kv_heads), ("head_dim", head_dim)]);
    if config.family == "mixtral" {
        let (experts, chosen) = (config.count("num_local_experts", 8)?, config.count("num_experts_per_tok", 2)?);
        if chosen < 2 || chosen > experts {
            return Err(config.wrong("num_experts_per_tok", &format!("2 to num_local_experts, {experts}")));
        }
        values.extend([("experts", experts), ("chosen", chosen)]);
    }
    let stacks = Stack::of("model.layers", config.layers("num_hidden_layers", 32)?);
    Ok(Request::new(template, values, stacks))
}

/// Sizes that several families have; a template that has no such symbol does not miss it.
fn fixed(config: &Config<'_>, vocabulary: i64) -> Result<Vec<(&'static str, i64)>, ConfigError> {
    let labels = match config.fields.get("id2label").and_then(Value::as_object) {
        Some(labels) => labels.len() as i64,
        None => config.count("num_labels", 2)?,
    };
    Ok(vec![
        ("vocabulary", config.count("vocab_size", vocabulary)?),
        ("positions", config.count("max_position_embeddings", 512)?),
        ("kinds", config.count("type_vocab_size", 2)?),
        ("labels", labels),
    ])
}

fn bert(config: &Config<'_>) -> Result<Request, ConfigError> {
    let (prefix, vocabulary, architectures) = match config.family {
        "bert" => ("Bert", 30522, heads!("Bert")),
        "roberta" => ("Roberta", 50265, heads!("Roberta")),
        "xlm-roberta" => ("XLMRoberta", 30522, heads!("XLMRoberta")),
        _ => ("Camembert", 30522, heads!("Camembert")),
    };
    let head = config.architecture(&architectures)?.trim_start_matches(prefix);
    config.only("hidden_act", &["gelu".into()])?;
    config.only("position_embedding_type", &["absolute".into()])?;
    config.only("is_decoder", &[false.into()])?;
    config.only("add_cross_attention", &[false.into()])?;
    config.only("tie_word_embeddings", &[true.into()])?;
    config.only("problem_type", &["single_label_classification".into()])?;
    config.find("use_cache");
    config.dropout("hidden_dropout_prob", 0.1)?;
    config.dropout("attention_probs_dropout_prob", 0.1)?;
    let hidden = config.count("hidden_size", 768)?;
    let heads = config.heads("num_attention_heads", 12)?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    let mut values = fixed(config, vocabulary)?;
    let inner = config.count("intermediate_size", 3072)?;
    values.extend([("hidden", hidden), ("inner", inner), ("heads", heads), ("head_dim", hidden / heads)]);
    let labels = values.iter().find(|(name, _)| *name == "labels").map_or(2, |(_, labels)| *labels);
    match head {
        "ForMaskedLM" => {}
        "ForQuestionAnswering" if labels != 2 => {
            return Err(config.wrong("num_labels", "2: where an answer begins and where it ends"));
        }
        _ if labels == 1 => return Err(config.wrong("num_labels", "2 or more; regression is not modelled")),
        _ => {}
    }
    let template = match (config.family, head) {
        ("bert", "ForMaskedLM") => "bert-masked",
        ("bert", "ForSequenceClassification") => "bert-sequence",
        ("bert", "ForTokenClassification") => "bert-tokens",
        ("bert", _) => "bert-spans",
        ("roberta", "ForMaskedLM") => "roberta-masked",
        ("roberta", "ForSequenceClassification") => "roberta-sequence",
        ("roberta", "ForTokenClassification") => "roberta-tokens",
        ("roberta", _) => "roberta-spans",
        (_, "ForMaskedLM") => "xlm-roberta-masked",
        (_, "ForSequenceClassification") => "xlm-roberta-sequence",
        (_, "ForTokenClassification") => "xlm-roberta-tokens",
        (_, _) => "xlm-roberta-spans",
    };
    let path = if config.family == "bert" { "bert.encoder.layer" } else { "roberta.encoder.layer" };
    let stacks = Stack::of(path, config.layers("num_hidden_layers", 12)?);
    let renamed = (config.family == "camembert").then_some(("XLMRoberta", prefix));
    Ok(Request { renamed, ..Request::new(template, values, stacks) })
}

fn gpt2(config: &Config<'_>) -> Result<Request, ConfigError> {
    config.architecture(&["GPT2LMHeadModel"])?;
    config.only("activation_function", &["gelu_new".into()])?;
    for field in ["scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"] {
        config.only(field, &[false.into()])?;
    }
    for field in ["scale_attn_weights", "use_cache", "tie_word_embeddings"] {
        config.only(field, &[true.into()])?;
    }
    for field in ["attn_pdrop", "embd_pdrop", "resid_pdrop"] {
        config.dropout(field, 0.1)?;
    }
    let hidden = config.count("n_embd", 768)?;
    let heads = config.heads("n_head", 12)?;
    config.divides("n_head", heads, hidden, "n_embd")?;
    let inner = config.count("n_inner", 4 * hidden)?;
    let mut values = fixed(config, 50257)?;
    values.retain(|(name, _)| *name != "positions");
    values.extend([("positions", config.count("n_positions", 1024)?), ("hidden", hidden), ("inner", inner)]);
    values.extend([("heads", heads), ("head_dim", hidden / heads)]);
    Ok(Request::new("gpt2", values, Stack::of("transformer.h", config.layers("n_layer", 12)?)))
}

fn vit(config: &Config<'_>) -> Result<Request, ConfigError> {
    config.architecture(&["ViTForImageClassification"])?;
    config.only("hidden_act", &["gelu".into()])?;
    config.only("qkv_bias", &[true.into()])?;
    config.only("num_channels", &[3.into()])?;
    config.only("problem_type", &["single_label_classification".into()])?;
    for field in ["encoder_stride", "pooler_act", "pooler_output_size"] {
        config.find(field);
    }
    config.dropout("hidden_dropout_prob", 0.0)?;
    config.dropout("attention_probs_dropout_prob", 0.0)?;
    let hidden = config.count("hidden_size", 768)?;
    let heads = config.heads("num_attention_heads", 12)?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    let (image, patch) = (config.count("image_size", 224)?, config.count("patch_size", 16)?);
    if patch > image {
        return Err(config.wrong("patch_size", &format!("at most image_size, {image}")));
    }
    let mut values = fixed(config, 1)?;
    if values.contains(&("labels", 1)) {
        return Err(config.wrong("num_labels", "2 or more; regression is not modelled"));
    }
    values.extend([("hidden", hidden), ("inner", config.count("intermediate_size", 3072)?)]);
    values.extend([("heads", heads), ("head_dim", hidden / heads), ("image", image), ("patch", patch)]);
    values.push(("tokens", (image / patch) * (image / patch) + 1));
    Ok(Request::new("vit", values, Stack::of("vit.layers", config.layers("num_hidden_layers", 12)?)))
}

fn t5(config: &Config<'_>) -> Result<Request, ConfigError> {
    config.architecture(&["T5ForConditionalGeneration"])?;
    config.only("feed_forward_proj", &["relu".into(), "gated-gelu".into()])?;
    let is_gated = config.find("feed_forward_proj").is_some_and(|kind| kind == "gated-gelu");
    // Written by some versions of transformers beside feed_forward_proj, and followed before it.
    config.only("dense_act_fn", &[if is_gated { "gelu_new" } else { "relu" }.into()])?;
    config.only("is_gated_act", &[is_gated.into()])?;
    config.only("is_encoder_decoder", &[true.into()])?;
    config.only("use_cache", &[true.into()])?;
    for field in ["initializer_factor", "output_past", "relative_attention_max_distance"] {
        config.find(field);
    }
    if config.find("decoder_start_token_id").and_then(Value::as_u64).is_none() {
        return Err(config.wrong("decoder_start_token_id", "a token, without which labels give no decoder inputs"));
    }
    if config.fields.get("pad_token_id").is_some_and(Value::is_null) {
        return Err(config.wrong("pad_token_id", "a token, without which labels give no decoder inputs"));
    }
    let drops = match config.find("dropout_rate").map(Value::as_f64) {
        None => true,
        Some(Some(share)) if (0.0..1.0).contains(&share) => share > 0.0,
        Some(_) => return Err(config.wrong("dropout_rate", "a number from 0 to less than 1")),
    };
    // The embeddings are tied either way: transformers takes it for whether what the decoder gives is scaled.
    let is_scaled = config.flag("tie_word_embeddings", true)?;
    let template = match (is_gated, is_scaled, drops) {
        (false, true, true) => "t5",
        (false, false, true) => "t5-unscaled",
        (true, true, true) => "t5-gated",
        (true, false, true) => "t5-gated-unscaled",
        (false, true, false) => "t5-no-dropout",
        (false, false, false) => "t5-unscaled-no-dropout",
        (true, true, false) => "t5-gated-no-dropout",
        (true, false, false) => "t5-gated-unscaled-no-dropout",
    };
    let buckets = config.count("relative_attention_num_buckets", 32)?;
    if buckets < 4 {
        return Err(config.wrong("relative_attention_num_buckets", "4 or more"));
    }
    let sizes = vec![
        ("vocabulary", config.count("vocab_size", 32128)?),
        ("hidden", config.count("d_model", 512)?),
        ("inner", config.count("d_ff", 2048)?),
        ("heads", config.heads("num_heads", 8)?),
        ("head_dim", config.count("d_kv", 64)?),
        ("buckets", buckets),
    ];
    // The first layer of each stack makes the bias that all add, so it is not one of those that are repeated, at least two.
    let encoder = config.layers_from(3, "num_layers", 6)?;
    let decoder = config.layers_from(3, "num_decoder_layers", encoder.into())?;
    let stack = |path, layers| Stack { path, kept: 1, layers };
    Ok(Request::new(template, sizes, vec![stack("encoder.block", encoder), stack("decoder.block", decoder)]))
}
