//! The fields of a configuration, each of which is used, harmless, or refused.

use std::cell::RefCell;

use serde_json::{Map, Value};
use vramfit_graph::dtype::Dtype;

use super::ConfigError;

/// Fields of any family that do not change which calls a training step makes, nor their sizes; those that say how text is generated
/// among them.
const HARMLESS: [&str; 77] = [
    "_name_or_path",
    "_num_labels",
    "architectures",
    "auto_map",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "directionality",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "init_std",
    "initializer_range",
    "is_decoder",
    "is_encoder_decoder",
    "is_llama_config",
    "label2id",
    "language",
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
    "original_max_position_embeddings",
    "output_past",
    "pad_token_id",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "position_embedding_type",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "qa_dropout",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "rms_norm_eps",
    "rope_interleaved",
    "rope_theta",
    "sep_token_id",
    "seq_classif_dropout",
    "summary_activation",
    "summary_first_dropout",
    "summary_last_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "temperature",
    "tie_weights_",
    "tokenizer_class",
    "top_k",
    "top_p",
    "transformers_version",
    "type_vocab_size",
    "typical_p",
    "unk_token_id",
    "vocab_size",
];

/// Fields that a whole dump of a configuration has, which do nothing where they are false.
const OFF: [&str; 10] = [
    "add_cross_attention",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "return_dict_in_generate",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "torchscript",
    "use_bfloat16",
    "use_mrope",
];

/// A configuration being read; it remembers which fields were used.
pub(super) struct Config<'a> {
    pub(super) fields: &'a Map<String, Value>,
    pub(super) family: &'a str,
    used: RefCell<Vec<&'static str>>,
    /// Sizes that the file does not have, with what transformers takes for them.
    defaults: RefCell<Vec<String>>,
}

/// Sizes that follow from others, or that not every family has: their defaults are not reported.
const FOLLOWING: [&str; 6] =
    ["head_dim", "num_key_value_heads", "n_inner", "num_labels", "max_position_embeddings", "type_vocab_size"];
const COUNT_LIMIT: i64 = 1 << 32;

impl<'a> Config<'a> {
    pub(super) fn new(fields: &'a Map<String, Value>, family: &'a str) -> Self {
        Self { fields, family, used: RefCell::default(), defaults: RefCell::default() }
    }
}

impl Config<'_> {
    pub(super) fn find(&self, field: &'static str) -> Option<&Value> {
        self.used.borrow_mut().push(field);
        self.fields.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn wrong(&self, field: &str, needed: &str) -> ConfigError {
        let found = self.fields.get(field).map_or("nothing".to_owned(), Value::to_string);
        ConfigError::Field { field: field.to_owned(), found, needed: needed.to_owned() }
    }

    /// A number of something, 1 at least; `None` where it is not there.
    pub(super) fn maybe_count(&self, field: &'static str) -> Result<Option<i64>, ConfigError> {
        let Some(value) = self.find(field) else { return Ok(None) };
        let count = value.as_i64().filter(|count| (1..COUNT_LIMIT).contains(count));
        count.map(Some).ok_or_else(|| self.wrong(field, &format!("a whole number from 1 to {}", COUNT_LIMIT - 1)))
    }

    /// One that must be there, or has what transformers takes otherwise.
    pub(super) fn count(&self, field: &'static str, default: i64) -> Result<i64, ConfigError> {
        if let Some(count) = self.maybe_count(field)? {
            return Ok(count);
        }
        if !FOLLOWING.contains(&field) {
            self.defaults.borrow_mut().push(format!("{field} {default}"));
        }
        Ok(default)
    }

    pub(super) fn flag(&self, field: &'static str, default: bool) -> Result<bool, ConfigError> {
        match self.find(field) {
            None => Ok(default),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong(field, "true or false")),
        }
    }

    /// Refuses all but these values; where it is not there, it is as modelled.
    pub(super) fn only(&self, field: &'static str, known: &[Value]) -> Result<(), ConfigError> {
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
    pub(super) fn dropout(&self, field: &'static str, default: f64) -> Result<(), ConfigError> {
        let Some(value) = self.find(field) else { return Ok(()) };
        let share = value.as_f64().ok_or_else(|| self.wrong(field, "a number from 0 to 1"))?;
        if (share > 0.0) == (default > 0.0) {
            return Ok(());
        }
        let known = if default > 0.0 { "a number over 0" } else { "0" };
        Err(ConfigError::NotModelled { field: field.to_owned(), found: value.to_string(), known: known.to_owned() })
    }

    /// What the reader of an answer should know of the file.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let defaults = self.defaults.borrow();
        if !defaults.is_empty() {
            notes.push(format!(
                "not in the configuration, so as transformers has it for {}: {}",
                self.family,
                defaults.join(", ")
            ));
        }
        if let Some((field, found)) = self.dtype_field().filter(|(_, found)| *found != "float32") {
            notes.push(format!(
                "{field}: built in {found}, as from_config and from_pretrained do; --dtype fp32 --amp bf16 is autocast with \
                 float32 weights"
            ));
        }
        notes
    }

    /// The type that the file names, and in which field: `dtype` counts before `torch_dtype`.
    fn dtype_field(&self) -> Option<(&'static str, &Value)> {
        let [dtype, torch_dtype] = ["dtype", "torch_dtype"].map(|field| Some((field, self.find(field)?)));
        dtype.or(torch_dtype)
    }

    /// The half-precision type that transformers builds the model in; `None` is float32, also where the file names none.
    pub(super) fn half(&self) -> Result<Option<Dtype>, ConfigError> {
        let Some((field, found)) = self.dtype_field() else { return Ok(None) };
        match found.as_str() {
            Some("float32") => Ok(None),
            Some("bfloat16") => Ok(Some(Dtype::Bfloat16)),
            Some("float16") => Ok(Some(Dtype::Float16)),
            _ => Err(ConfigError::NotModelled {
                field: field.to_owned(),
                found: found.to_string(),
                known: "\"float32\", \"bfloat16\", \"float16\"".to_owned(),
            }),
        }
    }

    /// Refuses fields that were not used.
    pub(super) fn no_others(&self) -> Result<(), ConfigError> {
        let used = self.used.borrow();
        let is_known = |field: &str, value: &Value| {
            used.contains(&field)
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

    pub(super) fn architecture(&self, known: &[&'static str]) -> Result<&'static str, ConfigError> {
        let named = self.fields.get("architectures").and_then(Value::as_array).and_then(|list| list.first());
        let Some(named) = named else { return Ok(known[0]) };
        let found = known.iter().find(|name| named.as_str() == Some(name));
        found.copied().ok_or_else(|| ConfigError::Architecture { found: named.to_string(), known: known.join(", ") })
    }

    pub(super) fn layers(&self, field: &'static str, default: i64) -> Result<u32, ConfigError> {
        self.layers_from(2, field, default)
    }

    pub(super) fn layers_from(&self, least: i64, field: &'static str, default: i64) -> Result<u32, ConfigError> {
        let layers = self.count(field, default)?;
        if !(least..=10_000).contains(&layers) {
            return Err(self.wrong(field, &format!("{least} to 10,000 layers")));
        }
        Ok(layers as u32)
    }

    /// At least two heads: with one, its layout is that of the whole, and PyTorch skips copies that it makes otherwise.
    pub(super) fn heads(&self, field: &'static str, default: i64) -> Result<i64, ConfigError> {
        match self.count(field, default)? {
            1 => Err(ConfigError::NotModelled {
                field: field.to_owned(),
                found: "1".to_owned(),
                known: "2 or more".to_owned(),
            }),
            heads => Ok(heads),
        }
    }

    pub(super) fn divides(&self, field: &str, divisor: i64, whole: i64, of: &str) -> Result<(), ConfigError> {
        if whole % divisor == 0 { Ok(()) } else { Err(self.wrong(field, &format!("a divisor of {of}, {whole}"))) }
    }

    /// Sizes that several families have; a template without such a symbol ignores it.
    pub(super) fn common_sizes(&self, vocabulary: i64) -> Result<Vec<(&'static str, i64)>, ConfigError> {
        let mut sizes = self.common_sizes_without_kinds(vocabulary)?;
        sizes.push(("kinds", self.count("type_vocab_size", 2)?));
        Ok(sizes)
    }

    /// The same for a family that may have no kinds of tokens.
    pub(super) fn common_sizes_without_kinds(&self, vocabulary: i64) -> Result<Vec<(&'static str, i64)>, ConfigError> {
        let labels = match self.fields.get("id2label").and_then(Value::as_object) {
            Some(labels) => labels.len() as i64,
            None => self.count("num_labels", 2)?,
        };
        Ok(vec![
            ("vocabulary", self.count("vocab_size", vocabulary)?),
            ("positions", self.count("max_position_embeddings", 512)?),
            ("labels", labels),
        ])
    }
}
