//! What is known of each family's configuration: which fields give sizes, which choose a template, which change nothing.

use serde_json::{Map, Value};

use super::ConfigError;

/// What is asked of a template.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) template: &'static str,
    /// Values of the template's symbols.
    pub(super) sizes: Vec<(&'static str, i64)>,
    pub(super) stacks: Vec<Stack>,
    /// What the reader of an answer should know.
    pub(super) notes: Vec<String>,
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
    ($($name:literal),+ $(,)?) => {
        /// The template of that name.
        pub(super) fn packed(name: &str) -> Option<&'static [u8]> {
            match name {
                $($name => Some(include_bytes!(concat!("templates/", $name, ".packed"))),)+
                _ => None,
            }
        }
    };
}
templates!(
    "llama",
    "llama-grouped",
    "llama-tied",
    "llama-tied-grouped",
    "mistral-grouped",
    "qwen2",
    "qwen2-grouped",
    "qwen2-tied-grouped",
    "bert-sequence",
    "bert-masked",
    "gpt2",
    "vit",
    "t5",
    "t5-unscaled",
    "t5-gated",
    "t5-gated-unscaled",
    "t5-no-dropout",
    "t5-unscaled-no-dropout",
    "t5-gated-no-dropout",
    "t5-gated-unscaled-no-dropout",
);

/// Fields of any family that do not change which calls a training step makes, nor their sizes; those that say how text is generated
/// among them.
const HARMLESS: [&str; 61] = [
    "_name_or_path",
    "architectures",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "label2id",
    "layer_norm_eps",
    "layer_norm_epsilon",
    "length_penalty",
    "max_length",
    "max_position_embeddings",
    "max_window_layers",
    "min_length",
    "model_type",
    "n_ctx",
    "n_positions",
    "name",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "pad_token_id",
    "position_embedding_type",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "rms_norm_eps",
    "rope_theta",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "transformers_version",
    "type_vocab_size",
    "typical_p",
    "unk_token_id",
    "vocab_size",
];

/// Fields that a whole dump of a configuration has, which do nothing where they are false.
const OFF: [&str; 9] = [
    "add_cross_attention",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "return_dict_in_generate",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "torchscript",
    "use_bfloat16",
];

/// A configuration being read; fields that were asked for are known.
struct Config<'a> {
    fields: &'a Map<String, Value>,
    family: &'a str,
    asked: std::cell::RefCell<Vec<&'static str>>,
    /// Sizes that the file does not have, with what transformers takes for them.
    defaults: std::cell::RefCell<Vec<String>>,
}

/// Sizes that follow from others, or that not every family has, so that there is nothing to tell.
const FOLLOWING: [&str; 6] =
    ["head_dim", "num_key_value_heads", "n_inner", "num_labels", "max_position_embeddings", "type_vocab_size"];
const COUNT_LIMIT: i64 = 1 << 32;

impl Config<'_> {
    fn find(&self, field: &'static str) -> Option<&Value> {
        self.asked.borrow_mut().push(field);
        self.fields.get(field).filter(|value| !value.is_null())
    }

    fn wrong(&self, field: &str, needed: &str) -> ConfigError {
        let found = self.fields.get(field).map_or("nothing".to_owned(), Value::to_string);
        ConfigError::Field { field: field.to_owned(), found, needed: needed.to_owned() }
    }

    /// A number of something, 1 at least; `None` where it is not there.
    fn maybe_count(&self, field: &'static str) -> Result<Option<i64>, ConfigError> {
        let Some(value) = self.find(field) else { return Ok(None) };
        let count = value.as_i64().filter(|count| (1..COUNT_LIMIT).contains(count));
        count.map(Some).ok_or_else(|| self.wrong(field, &format!("a whole number from 1 to {}", COUNT_LIMIT - 1)))
    }

    /// One that must be there, or has what transformers takes otherwise.
    fn count(&self, field: &'static str, default: i64) -> Result<i64, ConfigError> {
        if let Some(count) = self.maybe_count(field)? {
            return Ok(count);
        }
        if !FOLLOWING.contains(&field) {
            self.defaults.borrow_mut().push(format!("{field} {default}"));
        }
        Ok(default)
    }

    fn flag(&self, field: &'static str, default: bool) -> Result<bool, ConfigError> {
        match self.find(field) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(field, "true or false")),
        }
    }

    /// Refuses all but these values; where it is not there, it is as modelled.
    fn only(&self, field: &'static str, known: &[Value]) -> Result<(), ConfigError> {
        match self.find(field) {
            Some(value) if !known.contains(value) => Err(ConfigError::NotModelled {
                field: field.to_owned(),
                found: value.to_string(),
                known: match known {
                    [] => "null".to_owned(),
                    known => known.iter().map(Value::to_string).collect::<Vec<_>>().join(", "),
                },
            }),
            _ => Ok(()),
        }
    }

    /// Refuses a chance of 0 where templates drop out, and another one where they do not.
    fn dropout(&self, field: &'static str, default: f64) -> Result<(), ConfigError> {
        let Some(value) = self.find(field) else { return Ok(()) };
        let share = value.as_f64().ok_or_else(|| self.wrong(field, "a number from 0 to 1"))?;
        if (share > 0.0) == (default > 0.0) {
            return Ok(());
        }
        let known = if default > 0.0 { "a number over 0" } else { "0" };
        Err(ConfigError::NotModelled { field: field.to_owned(), found: value.to_string(), known: known.to_owned() })
    }

    /// What the reader of an answer should know of the file.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let defaults = self.defaults.borrow();
        if !defaults.is_empty() {
            notes.push(format!(
                "not in the configuration, so as transformers has it for {}: {}",
                self.family,
                defaults.join(", ")
            ));
        }
        for field in ["torch_dtype", "dtype"] {
            let found = self.fields.get(field).and_then(Value::as_str);
            if let Some(found) = found.filter(|name| *name != "float32") {
                notes.push(format!("{field} {found} is not followed: without --dtype the model is in float32"));
            }
        }
        notes
    }

    /// Refuses fields nobody has asked for.
    fn no_others(&self) -> Result<(), ConfigError> {
        let asked = self.asked.borrow();
        let is_known = |field: &str, value: &Value| {
            asked.contains(&field)
                || HARMLESS.contains(&field)
                || (OFF.contains(&field) && value == &Value::Bool(false))
                || (field == "pruned_heads" && value.as_object().is_some_and(Map::is_empty))
        };
        match self.fields.iter().find(|(field, value)| !is_known(field, value) && !value.is_null()) {
            None => Ok(()),
            Some((field, value)) => Err(ConfigError::UnknownField {
                field: field.clone(),
                found: value.to_string(),
                family: self.family.to_owned(),
            }),
        }
    }

    fn architecture(&self, known: &[&'static str]) -> Result<&'static str, ConfigError> {
        let named = self.fields.get("architectures").and_then(Value::as_array).and_then(|list| list.first());
        let Some(named) = named else { return Ok(known[0]) };
        let found = known.iter().find(|name| named.as_str() == Some(name));
        found.copied().ok_or_else(|| ConfigError::Architecture { found: named.to_string(), known: known.join(", ") })
    }

    fn layers(&self, field: &'static str, default: i64) -> Result<u32, ConfigError> {
        self.layers_from(2, field, default)
    }

    fn layers_from(&self, least: i64, field: &'static str, default: i64) -> Result<u32, ConfigError> {
        let layers = self.count(field, default)?;
        if !(least..=10_000).contains(&layers) {
            return Err(self.wrong(field, &format!("{least} to 10,000 layers")));
        }
        Ok(layers as u32)
    }

    /// Two heads or more: one alone lies in memory as the whole does, and copies that others need are left out.
    fn heads(&self, field: &'static str, default: i64) -> Result<i64, ConfigError> {
        match self.count(field, default)? {
            1 => Err(ConfigError::NotModelled {
                field: field.to_owned(),
                found: "1".to_owned(),
                known: "2 or more".to_owned(),
            }),
            heads => Ok(heads),
        }
    }

    fn divides(&self, field: &str, divisor: i64, whole: i64, of: &str) -> Result<(), ConfigError> {
        if whole % divisor == 0 { Ok(()) } else { Err(self.wrong(field, &format!("a divisor of {of}, {whole}"))) }
    }
}

/// What a configuration asks for.
pub(super) fn request(fields: &Map<String, Value>) -> Result<Request, ConfigError> {
    let found = fields.get("model_type").unwrap_or(&Value::Null);
    let family = found.as_str().unwrap_or_default();
    let config = Config { fields, family, asked: Default::default(), defaults: Default::default() };
    let mut request = match family {
        "llama" | "mistral" | "qwen2" => llama(&config)?,
        "bert" => bert(&config)?,
        "gpt2" => gpt2(&config)?,
        "vit" => vit(&config)?,
        "t5" => t5(&config)?,
        _ => {
            let known = "llama, mistral, qwen2, bert, gpt2, vit, t5".to_owned();
            let found = found.as_str().map_or_else(|| found.to_string(), |name| format!("`{name}`"));
            return Err(ConfigError::Family { found, known });
        }
    };
    config.no_others()?;
    request.notes = config.notes();
    Ok(request)
}

fn llama(config: &Config<'_>) -> Result<Request, ConfigError> {
    let (architecture, sizes): (_, [i64; 5]) = match config.family {
        "llama" => ("LlamaForCausalLM", [32000, 4096, 11008, 32, 32]),
        "mistral" => ("MistralForCausalLM", [32000, 4096, 14336, 32, 8]),
        _ => ("Qwen2ForCausalLM", [151936, 4096, 22016, 32, 32]),
    };
    config.architecture(&[architecture])?;
    config.only("hidden_act", &["silu".into()])?;
    config.only("use_cache", &[true.into()])?;
    config.only("attention_bias", &[false.into()])?;
    config.only("mlp_bias", &[false.into()])?;
    config.only("use_sliding_window", &[false.into()])?;
    config.dropout("attention_dropout", 0.0)?;
    if config.family == "mistral" {
        config.only("sliding_window", &[])?;
    } else {
        // Qwen2 has the number, and uses it only with use_sliding_window.
        config.find("sliding_window");
    }
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
        ("qwen2", false, false) => "qwen2",
        ("qwen2", false, true) => "qwen2-grouped",
        ("qwen2", true, true) => "qwen2-tied-grouped",
        (family, true, _) => {
            return Err(ConfigError::NotModelled {
                field: "tie_word_embeddings".to_owned(),
                found: "true".to_owned(),
                known: if family == "mistral" {
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
    Ok(Request {
        notes: Vec::new(),
        template,
        sizes: values,
        stacks: Stack::of("model.layers", config.layers("num_hidden_layers", 32)?),
    })
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
    let architecture = config.architecture(&["BertForMaskedLM", "BertForSequenceClassification"])?;
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
    let mut values = fixed(config, 30522)?;
    let inner = config.count("intermediate_size", 3072)?;
    values.extend([("hidden", hidden), ("inner", inner), ("heads", heads), ("head_dim", hidden / heads)]);
    let is_masked = architecture == "BertForMaskedLM";
    if !is_masked && values.contains(&("labels", 1)) {
        return Err(config.wrong("num_labels", "2 or more; regression is not modelled"));
    }
    let template = if is_masked { "bert-masked" } else { "bert-sequence" };
    Ok(Request {
        notes: Vec::new(),
        template,
        sizes: values,
        stacks: Stack::of("bert.encoder.layer", config.layers("num_hidden_layers", 12)?),
    })
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
    Ok(Request {
        notes: Vec::new(),
        template: "gpt2",
        sizes: values,
        stacks: Stack::of("transformer.h", config.layers("n_layer", 12)?),
    })
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
    Ok(Request {
        notes: Vec::new(),
        template: "vit",
        sizes: values,
        stacks: Stack::of("vit.layers", config.layers("num_hidden_layers", 12)?),
    })
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
    // The first layer of each makes the bias that all add, so it is none of those that are repeated, two at least.
    let encoder = config.layers_from(3, "num_layers", 6)?;
    let decoder = config.layers_from(3, "num_decoder_layers", encoder.into())?;
    let stack = |path, layers| Stack { path, kept: 1, layers };
    Ok(Request {
        notes: Vec::new(),
        template,
        sizes,
        stacks: vec![stack("encoder.block", encoder), stack("decoder.block", decoder)],
    })
}
