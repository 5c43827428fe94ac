//! Configurations of encoders: which fields give sizes, which choose a template, which change nothing.

use serde_json::Value;

use super::ConfigError;
use super::fields::Config;
use super::request::{Request, Stack};

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

pub(super) fn bert(config: &Config<'_>) -> Result<Request, ConfigError> {
    let (prefix, vocabulary, architectures) = match config.family {
        "bert" => ("Bert", 30522, heads!("Bert")),
        "roberta" => ("Roberta", 50265, heads!("Roberta")),
        "xlm-roberta" => ("XLMRoberta", 30522, heads!("XLMRoberta")),
        _ => ("Camembert", 30522, heads!("Camembert")),
    };
    let head = config.architecture(&architectures)?.trim_start_matches(prefix);
    same_as_bert(config)?;
    let hidden = config.count("hidden_size", 768)?;
    let heads = config.heads("num_attention_heads", 12)?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    let mut values = config.common_sizes(vocabulary)?;
    let inner = config.count("intermediate_size", 3072)?;
    values.extend([("hidden", hidden), ("inner", inner), ("heads", heads), ("head_dim", hidden / heads)]);
    let template = format!(
        "{}-{}",
        if config.family == "camembert" { "xlm-roberta" } else { config.family },
        form(config, head, &values)?
    );
    let path = if config.family == "bert" { "bert.encoder.layer" } else { "roberta.encoder.layer" };
    let stacks = Stack::of(path, config.layers("num_hidden_layers", 12)?);
    let renamed = (config.family == "camembert").then_some(("XLMRoberta", prefix));
    Ok(Request { renamed, ..Request::new(template, values, stacks) })
}

pub(super) fn distilbert(config: &Config<'_>) -> Result<Request, ConfigError> {
    let head = config.architecture(&heads!("DistilBert"))?.trim_start_matches("DistilBert");
    config.only("activation", &["gelu".into()])?;
    // Sinusoids are written into the same parameter when the model is built.
    config.find("sinusoidal_pos_embds");
    config.only("tie_word_embeddings", &[true.into()])?;
    config.only("problem_type", &["single_label_classification".into()])?;
    for (field, default) in
        [("dropout", 0.1), ("attention_dropout", 0.1), ("seq_classif_dropout", 0.2), ("qa_dropout", 0.1)]
    {
        config.dropout(field, default)?;
    }
    let hidden = config.count("dim", 768)?;
    let heads = config.heads("n_heads", 12)?;
    config.divides("n_heads", heads, hidden, "dim")?;
    let mut values = config.common_sizes(30522)?;
    let inner = config.count("hidden_dim", 3072)?;
    values.extend([("hidden", hidden), ("inner", inner), ("heads", heads), ("head_dim", hidden / heads)]);
    let template = format!("distilbert-{}", form(config, head, &values)?);
    Ok(Request::new(template, values, Stack::of("distilbert.transformer.layer", config.layers("n_layers", 6)?)))
}

pub(super) fn electra(config: &Config<'_>) -> Result<Request, ConfigError> {
    let head = config.architecture(&heads!("Electra"))?.trim_start_matches("Electra");
    same_as_bert(config)?;
    let hidden = config.count("hidden_size", 256)?;
    let heads = config.heads("num_attention_heads", 4)?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    let embedding = config.count("embedding_size", 128)?;
    let mut values = config.common_sizes(30522)?;
    let inner = config.count("intermediate_size", 1024)?;
    values.extend([("hidden", hidden), ("inner", inner), ("heads", heads), ("head_dim", hidden / heads)]);
    values.push(("embedding", embedding));
    let form = form(config, head, &values)?;
    let path = "electra.encoder.layer";
    if embedding == hidden {
        let stacks = Stack::of(path, config.layers("num_hidden_layers", 12)?);
        return Ok(Request::new(format!("electra-{form}"), values, stacks));
    }
    // Under autocast, the first layer gets what a linear layer returns, and needs no casts: it is not one of those repeated.
    let layers = config.layers_from(3, "num_hidden_layers", 12)?;
    let stacks = Stack::after(1, path, layers).into_iter().collect();
    Ok(Request::new(format!("electra-{form}-projected"), values, stacks))
}

/// DeBERTa as v3 is configured: relative positions in buckets, whose projections are those of the content.
pub(super) fn deberta(config: &Config<'_>) -> Result<Request, ConfigError> {
    let head = config.architecture(&heads!("DebertaV2"))?.trim_start_matches("DebertaV2");
    config.only("hidden_act", &["gelu".into()])?;
    config.only("tie_word_embeddings", &[true.into()])?;
    config.only("problem_type", &["single_label_classification".into()])?;
    config.dropout("hidden_dropout_prob", 0.1)?;
    config.dropout("attention_probs_dropout_prob", 0.1)?;
    config.dropout("pooler_dropout", 0.0)?;
    config.only("legacy", &[true.into()])?;
    config.only("pooler_hidden_act", &["gelu".into()])?;
    config.only("conv_kernel_size", &[0.into()])?;
    config.only("type_vocab_size", &[0.into()])?;
    config.only("max_relative_positions", &[(-1).into()])?;
    for (field, known) in [
        ("relative_attention", vec![Value::from(true)]),
        ("share_att_key", vec![true.into()]),
        ("position_biased_input", vec![false.into()]),
        ("norm_rel_ebd", vec!["layer_norm".into()]),
        (
            "pos_att_type",
            vec!["p2c|c2p".into(), "c2p|p2c".into(), vec!["p2c", "c2p"].into(), vec!["c2p", "p2c"].into()],
        ),
    ] {
        if config.find(field).is_none() {
            let known: Vec<String> = known.iter().map(Value::to_string).collect();
            return Err(config.wrong(field, &format!("{}, as in DeBERTa v3", known.join(" or "))));
        }
        config.only(field, &known)?;
    }
    let hidden = config.count("hidden_size", 1536)?;
    config.only("pooler_hidden_size", &[hidden.into()])?;
    let heads = config.heads("num_attention_heads", 24)?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    let Some(buckets) = config.maybe_count("position_buckets")? else {
        return Err(config.wrong("position_buckets", "a number of buckets, as in DeBERTa v3"));
    };
    let mut values = config.common_sizes_without_kinds(128_100)?;
    let inner = config.count("intermediate_size", 6144)?;
    values.extend([("hidden", hidden), ("inner", inner), ("heads", heads), ("head_dim", hidden / heads)]);
    values.push(("buckets", buckets));
    let template = format!("deberta-v2-{}", form(config, head, &values)?);
    Ok(Request::new(template, values, Stack::of("deberta.encoder.layer", config.layers("num_hidden_layers", 24)?)))
}

/// One layer that is run as many times as there are layers.
pub(super) fn albert(config: &Config<'_>) -> Result<Request, ConfigError> {
    let head = config.architecture(&heads!("Albert"))?.trim_start_matches("Albert");
    for field in ["num_hidden_groups", "inner_group_num"] {
        config.only(field, &[1.into()])?;
    }
    config.only("hidden_act", &["gelu".into(), "gelu_new".into()])?;
    config.only("position_embedding_type", &["absolute".into()])?;
    config.only("tie_word_embeddings", &[true.into()])?;
    config.only("problem_type", &["single_label_classification".into()])?;
    config.dropout("classifier_dropout_prob", 0.1)?;
    // Not read by transformers.
    for field in ["down_scale_factor", "gap_size", "layers_to_keep", "net_structure_type", "num_memory_blocks"] {
        config.find(field);
    }
    let drops = config.find("hidden_dropout_prob").and_then(Value::as_f64).is_some_and(|share| share > 0.0);
    for field in ["hidden_dropout_prob", "attention_probs_dropout_prob"] {
        config.dropout(field, if drops { 0.1 } else { 0.0 })?;
    }
    let has_new_gelu = config.find("hidden_act").is_none_or(|found| found == "gelu_new");
    let hidden = config.count("hidden_size", 4096)?;
    let heads = config.heads("num_attention_heads", 64)?;
    config.divides("num_attention_heads", heads, hidden, "hidden_size")?;
    let mut values = config.common_sizes(30000)?;
    let inner = config.count("intermediate_size", 16384)?;
    values.extend([("hidden", hidden), ("inner", inner), ("heads", heads), ("head_dim", hidden / heads)]);
    values.push(("embedding", config.count("embedding_size", 128)?));
    let template = format!(
        "albert-{}{}{}",
        form(config, head, &values)?,
        if drops { "" } else { "-no-dropout" },
        if has_new_gelu { "-new" } else { "" }
    );
    let layers = config.layers_from(3, "num_hidden_layers", 12)?;
    let stacks = Stack::shared(1, "albert.encoder.albert_layer_groups.0", layers).into_iter().collect();
    Ok(Request::new(template, values, stacks))
}

/// Refuses what the templates of BERT and Electra do not have.
fn same_as_bert(config: &Config<'_>) -> Result<(), ConfigError> {
    config.only("hidden_act", &["gelu".into()])?;
    config.only("position_embedding_type", &["absolute".into()])?;
    config.only("is_decoder", &[false.into()])?;
    config.only("add_cross_attention", &[false.into()])?;
    config.only("tie_word_embeddings", &[true.into()])?;
    config.only("problem_type", &["single_label_classification".into()])?;
    config.find("use_cache");
    config.dropout("hidden_dropout_prob", 0.1)?;
    config.dropout("attention_probs_dropout_prob", 0.1)
}

/// The part of a template's name that the architecture's head decides.
fn form(config: &Config<'_>, head: &str, values: &[(&'static str, i64)]) -> Result<&'static str, ConfigError> {
    let labels = values.iter().find(|(name, _)| *name == "labels").map_or(2, |(_, labels)| *labels);
    match head {
        "ForMaskedLM" => Ok("masked"),
        "ForQuestionAnswering" if labels != 2 => {
            Err(config.wrong("num_labels", "2: where an answer begins and where it ends"))
        }
        "ForQuestionAnswering" => Ok("spans"),
        _ if labels == 1 => Err(config.wrong("num_labels", "2 or more; regression is not modelled")),
        "ForSequenceClassification" => Ok("sequence"),
        _ => Ok("tokens"),
    }
}
