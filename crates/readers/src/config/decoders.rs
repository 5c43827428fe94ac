//! Configurations of decoders: which fields give sizes, which choose a template, which change nothing.

use serde_json::Value;

use super::ConfigError;
use super::fields::Config;
use super::request::{Request, Stack};

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
    for field in ["enable_bias", "layer_norm_elementwise_affine", "tie_word_embeddings", "use_cache"] {
        config.only(field, &[true.into()])?;
    }
    config.only("_remove_final_layer_norm", &[false.into()])?;
    config.dropout("dropout", 0.1)?;
    config.dropout("attention_dropout", 0.0)?;
    config.dropout("layerdrop", 0.0)?;
    // Not a field of transformers' class, though published files have it.
    config.find("activation_dropout");
    let hidden = config.count("hidden_size", 768)?;
    let embedding = config.count("word_embed_proj_dim", hidden)?;
    // As opt-350m is built, or as all others are.
    let is_projected = embedding != hidden;
    let does_norm_before = config.flag("do_layer_norm_before", true)?;
    if does_norm_before == is_projected {
        return Err(ConfigError::NotModelled {
            field: "do_layer_norm_before".to_owned(),
            found: does_norm_before.to_string(),
            known: format!("{}, where word_embed_proj_dim is {embedding} of {hidden}", !does_norm_before),
        });
    }
    let heads = config.heads("num_attention_heads", 12)?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    let mut values = config.common_sizes(50272)?;
    values.retain(|(name, _)| *name != "positions");
    values.push(("positions", config.count("max_position_embeddings", 2048)?));
    values.extend([("hidden", hidden), ("inner", config.count("ffn_dim", 3072)?)]);
    values.extend([("heads", heads), ("head_dim", hidden / heads)]);
    values.push(("embedding", embedding));
    let stacks = Stack::of("model.decoder.layers", config.layers("num_hidden_layers", 12)?);
    Ok(Request::new(if is_projected { "opt-projected" } else { "opt" }, values, stacks))
}

/// Falcon as its 7b is configured.
pub(super) fn falcon(config: &Config<'_>) -> Result<Request, ConfigError> {
    config.architecture(&["FalconForCausalLM"])?;
    for field in ["alibi", "new_decoder_architecture", "bias", "apply_residual_connection_post_layernorm"] {
        config.only(field, &[false.into()])?;
    }
    for field in ["multi_query", "parallel_attn", "use_cache", "tie_word_embeddings"] {
        config.only(field, &[true.into()])?;
    }
    config.only("activation", &["gelu".into()])?;
    config.dropout("attention_dropout", 0.0)?;
    config.dropout("hidden_dropout", 0.0)?;
    // With one key and value head for all, transformers does not read it.
    config.find("num_kv_heads");
    config.only("num_ln_in_parallel_attn", &[1.into()])?;
    for field in ["rope_scaling", "rope_parameters"] {
        config.only(field, &[])?;
    }
    let hidden = config.count(present(config, ["n_embed", "hidden_size"]), 4544)?;
    config.only("ffn_hidden_size", &[(4 * hidden).into()])?;
    let heads = config.heads("num_attention_heads", 71)?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    let head_dim = hidden / heads;
    if head_dim % 2 != 0 {
        return Err(config.wrong("num_attention_heads", "heads of an even width"));
    }
    let mut values = config.common_sizes(65024)?;
    values.extend([("hidden", hidden), ("heads", heads), ("head_dim", head_dim)]);
    Ok(Request::new("falcon", values, Stack::of("transformer.h", config.layers("num_hidden_layers", 32)?)))
}

pub(super) fn bloom(config: &Config<'_>) -> Result<Request, ConfigError> {
    config.architecture(&["BloomForCausalLM"])?;
    for field in ["apply_residual_connection_post_layernorm", "slow_but_exact"] {
        config.only(field, &[false.into()])?;
    }
    for field in ["use_cache", "tie_word_embeddings"] {
        config.only(field, &[true.into()])?;
    }
    config.dropout("attention_dropout", 0.0)?;
    config.dropout("hidden_dropout", 0.0)?;
    // Of the training code that published files come from; transformers does not read them.
    for field in [
        "attention_softmax_in_fp32",
        "bias_dropout_fusion",
        "masked_softmax_fusion",
        "n_inner",
        "offset_alibi",
        "seq_length",
        "skip_bias_add",
        "skip_bias_add_qkv",
    ] {
        config.find(field);
    }
    let hidden = config.count(present(config, ["n_embed", "hidden_size"]), 64)?;
    let heads = config.heads(present(config, ["n_head", "num_attention_heads"]), 8)?;
    config.divides("n_head", heads, hidden, "hidden_size")?;
    let layers = config.layers(present(config, ["n_layer", "num_hidden_layers"]), 2)?;
    // Slopes of positions are made for a power of two of heads, and others for the rest.
    let power = 1_i64 << heads.ilog2();
    let template = if power == heads { "bloom-power" } else { "bloom" };
    let vocabulary = config.count("vocab_size", 250_880)?;
    let sizes = vec![
        ("vocabulary", vocabulary),
        ("hidden", hidden),
        ("heads", heads),
        ("head_dim", hidden / heads),
        ("power", power),
    ];
    Ok(Request::new(template, sizes, Stack::of("transformer.h", layers)))
}

/// Which of two names of a field counts: the first that is there, as in transformers.
fn present(config: &Config<'_>, [first, second]: [&'static str; 2]) -> &'static str {
    let has_first = config.find(first).is_some();
    if config.find(second).is_some() && !has_first { second } else { first }
}
