//! The families that are known, and what a configuration of one asks for.

use serde_json::{Map, Value};
use vramfit_graph::dtype::Dtype;

use super::ConfigError;
use super::fields::Config;
use super::request::{Request, Stack};
use super::{decoders, encoders, llama};

const KNOWN: [&str; 26] = [
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen3",
    "phi3",
    "gemma",
    "gemma2",
    "gemma3_text",
    "olmo",
    "starcoder2",
    "gpt2",
    "gpt_neox",
    "opt",
    "falcon",
    "bloom",
    "bert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "distilbert",
    "electra",
    "deberta-v2",
    "albert",
    "vit",
    "t5",
];

/// Families whose program does not follow from sizes, and why.
const REFUSED: [(&str, &str); 3] = [
    (
        "mamba",
        "without the kernels of mamba_ssm it calls operators for each position of the sequence, one after the other",
    ),
    (
        "falcon_mamba",
        "without the kernels of mamba_ssm it calls operators for each position of the sequence, one after the other",
    ),
    ("mamba2", "without the kernels of mamba_ssm its calls depend on how the sequence divides into chunks"),
];

/// What a configuration asks for.
pub(super) fn request(fields: &Map<String, Value>) -> Result<Request, ConfigError> {
    let found = fields.get("model_type").unwrap_or(&Value::Null);
    let family = found.as_str().unwrap_or_default();
    let config = Config::new(fields, family);
    let mut request = match family {
        "llama" | "mistral" | "mixtral" | "qwen2" | "qwen3" | "phi3" | "gemma" | "gemma2" | "gemma3_text" | "olmo"
        | "starcoder2" => llama::llama(&config)?,
        "gpt2" => decoders::gpt2(&config)?,
        "gpt_neox" => decoders::gpt_neox(&config)?,
        "opt" => decoders::opt(&config)?,
        "falcon" => decoders::falcon(&config)?,
        "bloom" => decoders::bloom(&config)?,
        "bert" | "roberta" | "xlm-roberta" | "camembert" => encoders::bert(&config)?,
        "distilbert" => encoders::distilbert(&config)?,
        "electra" => encoders::electra(&config)?,
        "deberta-v2" => encoders::deberta(&config)?,
        "albert" => encoders::albert(&config)?,
        "vit" => vit(&config)?,
        "t5" => t5(&config)?,
        _ => {
            let known = KNOWN.join(", ");
            let refused = REFUSED.iter().find(|(name, _)| *name == family);
            let found = found.as_str().map_or_else(|| found.to_string(), |name| format!("`{name}`"));
            if let Some((_, why)) = refused {
                return Err(ConfigError::Refused { found, why });
            }
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
    let mut values = config.common_sizes(1)?;
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
    for field in ["initializer_factor", "relative_attention_max_distance"] {
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
    let stacks = [("encoder.block", encoder), ("decoder.block", decoder)];
    let stacks = stacks.into_iter().filter_map(|(path, layers)| Stack::after(1, path, layers)).collect();
    Ok(Request::new(template, sizes, stacks))
}
