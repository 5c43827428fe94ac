//! Configurations of Llama and of the decoders that are built like it.

use serde_json::Value;

use super::ConfigError;
use super::fields::Config;
use super::packed_templates;
use super::request::{Request, Stack};
use super::windows;

/// What transformers has for a family where a file does not say.
struct Defaults {
    architecture: &'static str,
    vocabulary: i64,
    hidden: i64,
    inner: i64,
    layers: i64,
    heads: i64,
    /// `None` is as many as heads.
    kv_heads: Option<i64>,
    /// `None` is the hidden size over the heads.
    head_dim: Option<i64>,
    activation: &'static str,
    is_tied: bool,
    /// `None` is no window.
    window: Option<i64>,
}

const LLAMA: Defaults = Defaults {
    architecture: "LlamaForCausalLM",
    vocabulary: 32000,
    hidden: 4096,
    inner: 11008,
    layers: 32,
    heads: 32,
    kv_heads: None,
    head_dim: None,
    activation: "silu",
    is_tied: false,
    window: None,
};
const MISTRAL: Defaults =
    Defaults { architecture: "MistralForCausalLM", inner: 14336, kv_heads: Some(8), window: Some(4096), ..LLAMA };
const QWEN2: Defaults = Defaults {
    architecture: "Qwen2ForCausalLM",
    vocabulary: 151936,
    inner: 22016,
    kv_heads: Some(32),
    window: Some(4096),
    ..LLAMA
};
const GEMMA: Defaults = Defaults {
    architecture: "GemmaForCausalLM",
    vocabulary: 256_000,
    hidden: 3072,
    inner: 24576,
    layers: 28,
    heads: 16,
    kv_heads: Some(16),
    head_dim: Some(256),
    activation: "gelu_pytorch_tanh",
    is_tied: true,
    window: None,
};
const GEMMA2: Defaults = Defaults {
    architecture: "Gemma2ForCausalLM",
    hidden: 2304,
    inner: 9216,
    layers: 26,
    heads: 8,
    kv_heads: Some(4),
    window: Some(4096),
    ..GEMMA
};

fn defaults(family: &str) -> Defaults {
    match family {
        "mistral" => MISTRAL,
        "mixtral" => Defaults { architecture: "MixtralForCausalLM", window: None, ..MISTRAL },
        "qwen2" => QWEN2,
        "qwen3" => Defaults { architecture: "Qwen3ForCausalLM", head_dim: Some(128), ..QWEN2 },
        "phi3" => Defaults { architecture: "Phi3ForCausalLM", vocabulary: 32064, hidden: 3072, inner: 8192, ..LLAMA },
        "gemma" => GEMMA,
        "gemma2" => GEMMA2,
        "gemma3_text" => Defaults { architecture: "Gemma3ForCausalLM", vocabulary: 262_208, ..GEMMA2 },
        "olmo" => Defaults { architecture: "OlmoForCausalLM", vocabulary: 50304, ..LLAMA },
        "starcoder2" => Defaults {
            architecture: "Starcoder2ForCausalLM",
            vocabulary: 49152,
            hidden: 3072,
            inner: 12288,
            layers: 30,
            heads: 24,
            kv_heads: Some(2),
            activation: "gelu_pytorch_tanh",
            is_tied: true,
            ..LLAMA
        },
        _ => LLAMA,
    }
}

pub(super) fn llama(config: &Config<'_>) -> Result<Request, ConfigError> {
    let family = defaults(config.family);
    config.architecture(&[family.architecture])?;
    let has_other_gelu = fields_of_family(config, &family)?;
    config.only("use_cache", &[true.into()])?;
    config.only("attention_bias", &[false.into()])?;
    config.only("mlp_bias", &[false.into()])?;
    config.dropout("attention_dropout", if config.family == "starcoder2" { 0.1 } else { 0.0 })?;
    rotary(config)?;
    let hidden = config.count("hidden_size", family.hidden)?;
    let heads = config.heads("num_attention_heads", family.heads)?;
    let kv_heads = config.count("num_key_value_heads", family.kv_heads.unwrap_or(heads))?;
    if !matches!(config.family, "qwen3" | "gemma") {
        config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    }
    config.divides("num_key_value_heads", kv_heads, heads, "num_attention_heads")?;
    let head_dim = config.count("head_dim", family.head_dim.unwrap_or(hidden / heads))?;
    if head_dim % 2 != 0 {
        return Err(config.wrong("head_dim", "an even number"));
    }
    let layers = config.layers("num_hidden_layers", family.layers)?;
    let (window, kinds) = windows::windows(config, family.window, layers)?;
    let (template, window) = template(config, &family, [heads, kv_heads], window)?;
    let (order, ending) = windows::order(config, kinds)?;
    let template = format!("{template}{}{ending}", if has_other_gelu { "-gelu" } else { "" });
    let mut values = config.common_sizes(family.vocabulary)?;
    values.extend([("hidden", hidden), ("inner", config.count("intermediate_size", family.inner)?)]);
    values.extend([("heads", heads), ("kv_heads", kv_heads), ("head_dim", head_dim)]);
    values.extend(window.map(|window| ("window", window)));
    if config.family == "mixtral" {
        let (experts, chosen) = (config.count("num_local_experts", 8)?, config.count("num_experts_per_tok", 2)?);
        if chosen < 2 || chosen > experts {
            return Err(config.wrong("num_experts_per_tok", &format!("2 to num_local_experts, {experts}")));
        }
        values.extend([("experts", experts), ("chosen", chosen)]);
    }
    let stacks = match order {
        Some(order) => vec![Stack::of_kinds("model.layers", order)],
        None => Stack::of("model.layers", layers),
    };
    Ok(Request { window, ..Request::new(template, values, stacks) })
}

/// Checks the fields that only some families have. Whether the activation is the exact GELU instead of the family's own.
fn fields_of_family(config: &Config<'_>, family: &Defaults) -> Result<bool, ConfigError> {
    let activation = Value::from(family.activation);
    match config.family {
        "gemma" => {
            config.only("hidden_act", &[activation, "gelu".into()])?;
            // Not read by transformers.
            config.find("hidden_activation");
            config.only("use_bidirectional_attention", &[false.into()])?;
            return Ok(config.find("hidden_act").is_some_and(|found| found == "gelu"));
        }
        "gemma2" | "gemma3_text" => {
            config.only("hidden_activation", &[activation])?;
            for field in ["hidden_act", "query_pre_attn_scalar", "cache_implementation", "rope_local_base_freq"] {
                config.find(field);
            }
            config.only("use_bidirectional_attention", &[false.into()])?;
            for field in ["attn_logit_softcapping", "final_logit_softcapping"] {
                let is_capped = config.fields.get(field).map_or(config.family == "gemma2", |found| !found.is_null());
                config.find(field);
                if is_capped != (config.family == "gemma2") {
                    let known = if is_capped { "null" } else { "a number" };
                    return Err(config.wrong(field, known));
                }
            }
            return Ok(false);
        }
        "phi3" => {
            config.dropout("embd_pdrop", 0.0)?;
            config.dropout("resid_pdrop", 0.0)?;
            config.only("partial_rotary_factor", &[1.0.into()])?;
        }
        "mixtral" => {
            config.only("output_router_logits", &[false.into()])?;
            config.dropout("router_jitter_noise", 0.0)?;
            config.find("router_aux_loss_coef");
        }
        "olmo" => config.only("clip_qkv", &[])?,
        "starcoder2" => {
            for field in ["embedding_dropout", "residual_dropout", "attention_dropout"] {
                if config.find(field).is_none() {
                    return Err(config.wrong(field, "a number over 0"));
                }
                config.dropout(field, 0.1)?;
            }
            config.only("use_bias", &[true.into()])?;
            // Of older classes than transformers' own.
            for field in [
                "activation_function",
                "attention_softmax_in_fp32",
                "mlp_type",
                "norm_epsilon",
                "norm_type",
                "scale_attention_softmax_in_fp32",
                "scale_attn_weights",
            ] {
                config.find(field);
            }
        }
        _ => {}
    }
    config.only("hidden_act", &[activation])?;
    Ok(false)
}

/// Refuses rotary positions that are computed in other calls.
fn rotary(config: &Config<'_>) -> Result<(), ConfigError> {
    for field in ["rope_scaling", "rope_parameters"] {
        let Some(found) = config.find(field) else { continue };
        // Gemma 3 has one set of values for each kind of layer.
        let of_kinds = ["sliding_attention", "full_attention"].into_iter().filter_map(|kind| found.get(kind));
        for values in std::iter::once(found).chain(of_kinds) {
            let refused = |name: &str, found: &Value, known: &str| ConfigError::NotModelled {
                field: format!("{field}.{name}"),
                found: found.to_string(),
                known: known.to_owned(),
            };
            if let Some(partial) = values.get("partial_rotary_factor").filter(|share| share.as_f64() != Some(1.0)) {
                return Err(refused("partial_rotary_factor", partial, "1.0"));
            }
            let kind = values.get("rope_type").or(values.get("type"));
            if let Some(kind) = kind.filter(|kind| !["default", "linear", "llama3"].map(Value::from).contains(kind)) {
                return Err(refused("rope_type", kind, "default, linear, llama3"));
            }
        }
    }
    Ok(())
}

/// The template for such heads, embeddings and windows, and the window if it is one for windows.
fn template(
    config: &Config<'_>,
    family: &Defaults,
    [heads, kv_heads]: [i64; 2],
    window: Option<i64>,
) -> Result<(String, Option<i64>), ConfigError> {
    let tied = config.flag("tie_word_embeddings", family.is_tied)?;
    let is_grouped = kv_heads != heads;
    let name = |tied: bool, is_grouped: bool, has_window: bool| {
        // Where there is a mask, a single key and value head is repeated as a view, several are copied.
        let grouped = if has_window && kv_heads == 1 { "-one" } else { "-grouped" };
        let parts = [(tied, "-tied"), (is_grouped, grouped), (has_window, "-window")];
        let endings = parts.into_iter().filter(|(is_so, _)| *is_so).map(|(_, ending)| ending);
        std::iter::once(config.family).chain(endings).collect::<String>()
    };
    let has = |name: &str| packed_templates::packed(name, None).is_some();
    let found = name(tied, is_grouped, window.is_some());
    if has(&found) {
        return Ok((found, window));
    }
    // The field that, changed alone, gives a template.
    let (field, found, known) = if kv_heads != 1 && has(&name(tied, is_grouped, window.is_none())) {
        let known = if window.is_some() { "null" } else { "a number" };
        ("sliding_window", window.map_or("null".to_owned(), |window| window.to_string()), known.to_owned())
    } else if has(&name(!tied, is_grouped, window.is_some())) {
        ("tie_word_embeddings", tied.to_string(), (!tied).to_string())
    } else {
        let known = match is_grouped {
            true if window.is_some() && kv_heads == 1 => "2 or more with a sliding window",
            true => "as many as num_attention_heads",
            false => "fewer than num_attention_heads",
        };
        ("num_key_value_heads", kv_heads.to_string(), known.to_owned())
    };
    Err(ConfigError::NotModelled { field: field.to_owned(), found, known })
}
