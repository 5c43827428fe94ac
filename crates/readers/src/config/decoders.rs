//! Configurations of decoders: which fields give sizes, which choose a template, which change nothing.

use serde_json::Value;

use super::ConfigError;
use super::fields::Config;
use super::packed_templates;
use super::request::{Request, Stack};

pub(super) fn llama(config: &Config<'_>) -> Result<Request, ConfigError> {
    let (architecture, sizes): (_, [i64; 5]) = match config.family {
        "llama" => ("LlamaForCausalLM", [32000, 4096, 11008, 32, 32]),
        "mistral" => ("MistralForCausalLM", [32000, 4096, 14336, 32, 8]),
        "mixtral" => ("MixtralForCausalLM", [32000, 4096, 14336, 32, 8]),
        "qwen3" => ("Qwen3ForCausalLM", [151936, 4096, 22016, 32, 32]),
        "phi3" => ("Phi3ForCausalLM", [32064, 3072, 8192, 32, 32]),
        "gemma" => ("GemmaForCausalLM", [256000, 3072, 24576, 16, 16]),
        _ => ("Qwen2ForCausalLM", [151936, 4096, 22016, 32, 32]),
    };
    config.architecture(&[architecture])?;
    let activation = if config.family == "gemma" { "gelu_pytorch_tanh" } else { "silu" };
    config.only("hidden_act", &[activation.into()])?;
    if config.family == "gemma" {
        config.find("hidden_activation");
        config.only("use_bidirectional_attention", &[false.into()])?;
    }
    if config.family == "phi3" {
        config.dropout("embd_pdrop", 0.0)?;
        config.dropout("resid_pdrop", 0.0)?;
        config.only("partial_rotary_factor", &[1.0.into()])?;
    }
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
        let partial = config.find(field).and_then(|scaling| scaling.get("partial_rotary_factor"));
        if let Some(partial) = partial.filter(|share| share.as_f64() != Some(1.0)) {
            return Err(ConfigError::NotModelled {
                field: format!("{field}.partial_rotary_factor"),
                found: partial.to_string(),
                known: "1.0".to_owned(),
            });
        }
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
    // Without the field, Llama and Phi-3 have as many as heads; the others have their own numbers.
    let has_all = matches!(config.family, "llama" | "phi3");
    let kv_heads = config.count("num_key_value_heads", if has_all { heads } else { sizes[4] })?;
    if !matches!(config.family, "qwen3" | "gemma") {
        config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    }
    config.divides("num_key_value_heads", kv_heads, heads, "num_attention_heads")?;
    let head_dim = match config.family {
        "qwen3" => config.count("head_dim", 128)?,
        "gemma" => config.count("head_dim", 256)?,
        _ => config.count("head_dim", hidden / heads)?,
    };
    if head_dim % 2 != 0 {
        return Err(config.wrong("head_dim", "an even number"));
    }
    let tied = config.flag("tie_word_embeddings", config.family == "gemma")?;
    let is_grouped = kv_heads != heads;
    let template =
        format!("{}{}{}", config.family, if tied { "-tied" } else { "" }, if is_grouped { "-grouped" } else { "" });
    if packed_templates::packed(&template, None).is_none() {
        let has = |name: &str| packed_templates::packed(&format!("{}{name}", config.family), None).is_some();
        let ending = if is_grouped { "-grouped" } else { "" };
        // The field that, changed alone, gives a template.
        let (field, found, known) = if has(&format!("{}{ending}", if tied { "" } else { "-tied" })) {
            ("tie_word_embeddings", tied.to_string(), (!tied).to_string())
        } else {
            let known = if is_grouped { "as many as num_attention_heads" } else { "fewer than num_attention_heads" };
            ("num_key_value_heads", kv_heads.to_string(), known.to_owned())
        };
        return Err(ConfigError::NotModelled { field: field.to_owned(), found, known });
    }
    let mut values = config.common_sizes(sizes[0])?;
    values.extend([("hidden", hidden), ("inner", config.count("intermediate_size", sizes[2])?)]);
    values.extend([("heads", heads), ("kv_heads", kv_heads), ("head_dim", head_dim)]);
    if config.family == "mixtral" {
        let (experts, chosen) = (config.count("num_local_experts", 8)?, config.count("num_experts_per_tok", 2)?);
        if chosen < 2 || chosen > experts {
            return Err(config.wrong("num_experts_per_tok", &format!("2 to num_local_experts, {experts}")));
        }
        values.extend([("experts", experts), ("chosen", chosen)]);
    }
    let stacks =
        Stack::of("model.layers", config.layers("num_hidden_layers", if config.family == "gemma" { 28 } else { 32 })?);
    Ok(Request::new(template, values, stacks))
}

pub(super) fn gpt2(config: &Config<'_>) -> Result<Request, ConfigError> {
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
    let mut values = config.common_sizes(50257)?;
    values.retain(|(name, _)| *name != "positions");
    values.extend([("positions", config.count("n_positions", 1024)?), ("hidden", hidden), ("inner", inner)]);
    values.extend([("heads", heads), ("head_dim", hidden / heads)]);
    Ok(Request::new("gpt2", values, Stack::of("transformer.h", config.layers("n_layer", 12)?)))
}

pub(super) fn gpt_neox(config: &Config<'_>) -> Result<Request, ConfigError> {
    config.architecture(&["GPTNeoXForCausalLM"])?;
    config.only("hidden_act", &["gelu".into()])?;
    config.only("tie_word_embeddings", &[false.into()])?;
    for field in ["use_cache", "use_parallel_residual", "attention_bias"] {
        config.only(field, &[true.into()])?;
    }
    config.dropout("attention_dropout", 0.0)?;
    config.dropout("hidden_dropout", 0.0)?;
    config.find("rotary_emb_base");
    for field in ["rope_scaling", "rope_parameters"] {
        config.only(field, &[])?;
    }
    let hidden = config.count("hidden_size", 6144)?;
    let heads = config.heads("num_attention_heads", 64)?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    let head_dim = hidden / heads;
    let share = match config.find("rotary_pct").map(Value::as_f64) {
        None => 0.25,
        Some(Some(share)) if share > 0.0 && share <= 1.0 => share,
        Some(_) => return Err(config.wrong("rotary_pct", "a number over 0, at most 1")),
    };
    let rotary = (head_dim as f64 * share) as i64;
    if rotary < 2 || rotary % 2 != 0 || rotary == head_dim {
        return Err(config.wrong("rotary_pct", &format!("an even part of a head's width, {head_dim}")));
    }
    let mut values = config.common_sizes(50432)?;
    values.extend([("hidden", hidden), ("inner", config.count("intermediate_size", 24576)?)]);
    values.extend([("heads", heads), ("head_dim", head_dim), ("rotary", rotary)]);
    let stacks = Stack::of("gpt_neox.layers", config.layers("num_hidden_layers", 44)?);
    Ok(Request::new("gpt_neox", values, stacks))
}

pub(super) fn opt(config: &Config<'_>) -> Result<Request, ConfigError> {
    config.architecture(&["OPTForCausalLM"])?;
    config.only("activation_function", &["relu".into()])?;
    for field in
        ["do_layer_norm_before", "enable_bias", "layer_norm_elementwise_affine", "tie_word_embeddings", "use_cache"]
    {
        config.only(field, &[true.into()])?;
    }
    config.only("_remove_final_layer_norm", &[false.into()])?;
    config.dropout("dropout", 0.1)?;
    config.dropout("attention_dropout", 0.0)?;
    config.dropout("layerdrop", 0.0)?;
    // Not a field of transformers' class, though published files have it.
    config.find("activation_dropout");
    let hidden = config.count("hidden_size", 768)?;
    config.only("word_embed_proj_dim", &[hidden.into()])?;
    let heads = config.heads("num_attention_heads", 12)?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    let mut values = config.common_sizes(50272)?;
    values.retain(|(name, _)| *name != "positions");
    values.push(("positions", config.count("max_position_embeddings", 2048)?));
    values.extend([("hidden", hidden), ("inner", config.count("ffn_dim", 3072)?)]);
    values.extend([("heads", heads), ("head_dim", hidden / heads)]);
    let stacks = Stack::of("model.decoder.layers", config.layers("num_hidden_layers", 12)?);
    Ok(Request::new("opt", values, stacks))
}
