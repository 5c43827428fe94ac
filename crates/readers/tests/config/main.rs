//! `config.json`: the same program as real transformers runs for that configuration, and clear refusals.

#[path = "../toml/describe.rs"]
mod describe;

use std::path::Path;

use describe::{Described, assert_same};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::Model;
use vramfit_readers::packed::unpack;
use vramfit_readers::{read_bytes, read_file};

fn read(name: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(name);
    read_file(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A capture as it was written, or packed where it is large.
fn captured(name: &str) -> Model {
    let packed = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(format!("{name}.packed"));
    match std::fs::read(packed) {
        Ok(bytes) => unpack(&bytes).unwrap_or_else(|error| panic!("{name}: {error}")),
        Err(_) => read(&format!("{name}.vramfit")),
    }
}

/// The captures are made by `make.py`. Floats decide no memory and are those of the template.
fn is_as_captured(name: &str) {
    let (made, captured) = (read(&format!("{name}.json")), captured(name));
    assert_eq!(made.symbol_names(), captured.symbol_names(), "{name}");
    for sizes in [[2, 12, 10], [5, 9, 16]] {
        let sizes = &sizes[..made.symbols.len()];
        let at = |model| Described { model, sizes, has_floats: false };
        assert_same(at(&made), at(&captured), name);
    }
}

#[test]
fn llama_is_the_program_that_transformers_runs() {
    ["llama-odd", "llama-one-key", "llama-two-layers"].into_iter().for_each(is_as_captured);
}

#[test]
fn mistral_and_qwen2_are_the_programs_that_transformers_runs() {
    ["mistral-odd", "qwen2-odd"].into_iter().for_each(is_as_captured);
}

#[test]
fn gpt2_is_the_program_that_transformers_runs() {
    ["gpt2-odd", "gpt2-inner"].into_iter().for_each(is_as_captured);
}

#[test]
fn bert_is_the_program_that_transformers_runs() {
    ["bert-labels", "bert-masked", "bert-tokens", "bert-spans"].into_iter().for_each(is_as_captured);
}

#[test]
fn roberta_and_its_relatives_are_the_programs_that_transformers_runs() {
    ["roberta-labels", "roberta-masked", "xlm-roberta-tokens", "camembert-spans"].into_iter().for_each(is_as_captured);
}

#[test]
fn mixtral_is_the_program_that_transformers_runs() {
    is_as_captured("mixtral-odd");
}

#[test]
fn qwen3_phi3_and_gemma_are_the_programs_that_transformers_runs() {
    ["qwen3-odd", "qwen3-tied-bf16", "phi3-odd", "phi3-grouped", "gemma-odd", "gemma-equal"]
        .into_iter()
        .for_each(is_as_captured);
}

#[test]
fn gpt_neox_and_opt_are_the_programs_that_transformers_runs() {
    ["gpt_neox-odd", "gpt_neox-fp16", "opt-odd"].into_iter().for_each(is_as_captured);
}

#[test]
fn distilbert_is_the_program_that_transformers_runs() {
    ["distilbert-labels", "distilbert-masked", "distilbert-spans"].into_iter().for_each(is_as_captured);
}

#[test]
fn electra_is_the_program_that_transformers_runs() {
    ["electra-labels", "electra-masked", "electra-tokens", "electra-spans"].into_iter().for_each(is_as_captured);
}

#[test]
fn deberta_is_the_program_that_transformers_runs() {
    ["deberta-v2-labels", "deberta-v2-masked", "deberta-v2-spans"].into_iter().for_each(is_as_captured);
}

#[test]
fn a_model_is_built_in_the_type_that_the_file_names() {
    ["llama-bf16", "qwen2-fp16", "bert-bf16", "vit-bf16"].into_iter().for_each(is_as_captured);
    let built = |more: &str| {
        let text = format!("{{\"model_type\": \"gpt2\", \"n_layer\": 3{more}}}");
        let model = read_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        model.parameters[0].dtype
    };
    assert_eq!(built(""), Dtype::Float32);
    assert_eq!(built(", \"dtype\": null, \"torch_dtype\": \"float16\""), Dtype::Float16);
    assert_eq!(built(", \"dtype\": \"bfloat16\", \"torch_dtype\": \"float16\""), Dtype::Bfloat16);
    assert_eq!(
        refusal(", \"torch_dtype\": \"auto\""),
        "torch_dtype = \"auto\" is not modelled; what is: \"float32\", \"bfloat16\", \"float16\""
    );
}

#[test]
fn a_sliding_window_is_refused_also_where_transformers_has_it_by_default() {
    let refusal = |more: &str| {
        let text = format!("{{\"model_type\": \"mistral\"{more}}}");
        read_bytes(text.as_bytes()).expect_err("it is not modelled").to_string()
    };
    assert_eq!(refusal(", \"sliding_window\": 4096"), "sliding_window = 4096 is not modelled; what is: null");
    assert!(refusal("").starts_with("sliding_window: found nothing, needed null"));
}

#[test]
fn vit_is_the_program_that_transformers_runs() {
    ["vit-odd", "vit-two-heads"].into_iter().for_each(is_as_captured);
}

#[test]
fn t5_is_the_program_that_transformers_runs() {
    ["t5-odd", "t5-unscaled", "t5-scaled-no-dropout", "t5-no-dropout"].into_iter().for_each(is_as_captured);
    ["t5-gated-scaled", "t5-gated", "t5-gated-scaled-no-dropout", "t5-gated-no-dropout"]
        .into_iter()
        .for_each(is_as_captured);
}

fn refusal(more: &str) -> String {
    let text = format!("{{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"]{more}}}");
    read_bytes(text.as_bytes()).expect_err("it is not modelled").to_string()
}

#[test]
fn what_no_template_has_is_refused_by_name_and_value() {
    let read = |text: &str| read_bytes(text.as_bytes()).expect_err("it is not modelled").to_string();
    assert_eq!(
        read("{\"model_type\": \"mamba\"}"),
        "model_type: found `mamba`, needed one of llama, mistral, mixtral, qwen2, qwen3, phi3, gemma, gpt2, gpt_neox, opt, \
         bert, roberta, xlm-roberta, camembert, distilbert, electra, deberta-v2, vit, t5"
    );
    assert_eq!(
        read("{\"model_type\": \"bert\", \"architectures\": [\"BertForMultipleChoice\"]}"),
        "architectures: found \"BertForMultipleChoice\", needed one of BertForMaskedLM, BertForSequenceClassification, \
         BertForTokenClassification, BertForQuestionAnswering"
    );
    assert_eq!(refusal(", \"hidden_act\": \"gelu\""), "hidden_act = \"gelu\" is not modelled; what is: \"silu\"");
    assert_eq!(refusal(", \"attention_dropout\": 0.1"), "attention_dropout = 0.1 is not modelled; what is: 0");
    assert_eq!(
        refusal(", \"quantization_config\": 4"),
        "quantization_config = 4: this field of llama is not known, so what it does is not modelled"
    );
    assert_eq!(
        refusal(", \"rope_scaling\": {\"rope_type\": \"longrope\"}"),
        "rope_scaling.rope_type = \"longrope\" is not modelled; what is: default, linear, llama3"
    );
    assert_eq!(refusal(", \"num_hidden_layers\": 1"), "num_hidden_layers: found 1, needed 2 to 10,000 layers");
    assert_eq!(
        refusal(", \"num_attention_heads\": 7"),
        "num_attention_heads: found 7, needed a divisor of hidden_size, 4096"
    );
    assert_eq!(refusal(", \"num_attention_heads\": 1"), "num_attention_heads = 1 is not modelled; what is: 2 or more");
    assert_eq!(refusal(", \"hidden_size\": -1"), "hidden_size: found -1, needed a whole number from 1 to 4294967295");
}

#[test]
fn a_whole_dump_of_a_configuration_says_what_its_sizes_say() {
    let read = |more: &str| {
        let text = format!("{{\"model_type\": \"gpt2\", \"n_layer\": 3{more}}}");
        read_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
    };
    let dump = ", \"output_hidden_states\": false, \"return_dict\": true, \"torchscript\": false, \"pruned_heads\": {}, \
                \"temperature\": 0.7, \"top_k\": 50, \"num_beams\": 4, \"add_cross_attention\": false, \"cross_attention_hidden_size\": null";
    let (plain, dumped) = (read(""), read(dump));
    let at = |model| Described { model, sizes: &[2, 12], has_floats: false };
    assert_same(at(&plain), at(&dumped), "gpt2");
    assert_eq!(
        refusal(", \"output_hidden_states\": true"),
        "output_hidden_states = true: this field of llama is not known, so what it does is not modelled"
    );
    assert!(refusal(", \"pruned_heads\": {\"0\": [1]}").starts_with("pruned_heads = "));
}

#[test]
fn what_t5_does_not_run_or_no_template_has_is_refused() {
    let refusal = |more: &str| {
        let text = format!("{{\"model_type\": \"t5\"{more}}}");
        read_bytes(text.as_bytes()).expect_err("it is not modelled").to_string()
    };
    let with_start = |more: &str| refusal(&format!(", \"decoder_start_token_id\": 0, {more}"));
    assert_eq!(
        refusal(""),
        "decoder_start_token_id: found nothing, needed a token, without which labels give no decoder inputs"
    );
    assert_eq!(
        with_start("\"feed_forward_proj\": \"gated-silu\""),
        "feed_forward_proj = \"gated-silu\" is not modelled; what is: \"relu\", \"gated-gelu\""
    );
    assert_eq!(
        with_start("\"feed_forward_proj\": \"gated-gelu\", \"dense_act_fn\": \"relu\""),
        "dense_act_fn = \"relu\" is not modelled; what is: \"gelu_new\""
    );
    assert_eq!(with_start("\"num_decoder_layers\": 2"), "num_decoder_layers: found 2, needed 3 to 10,000 layers");
    assert_eq!(with_start("\"dropout_rate\": 1.0"), "dropout_rate: found 1.0, needed a number from 0 to less than 1");
}

#[test]
fn every_t5_has_a_template_and_the_parameters_that_transformers_makes() {
    let small = |more: &str| {
        let text = format!(
            "{{\"model_type\": \"t5\", \"decoder_start_token_id\": 0, \"pad_token_id\": 0, \"n_positions\": 512, \
             \"task_specific_params\": {{}}, \"output_past\": true{more}}}"
        );
        read_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{more}: {error}")).parameter_count()
    };
    for more in ["", ", \"dropout_rate\": 0"] {
        for tied in ["", ", \"tie_word_embeddings\": false"] {
            assert_eq!(small(&format!("{more}{tied}")), Some(60_506_624));
            let gated = format!(
                ", \"feed_forward_proj\": \"gated-gelu\", \"d_ff\": 1024, \"num_heads\": 6, \"num_layers\": 8, \
                 \"is_gated_act\": true, \"dense_act_fn\": \"gelu_new\"{more}{tied}"
            );
            assert_eq!(small(&gated), Some(60_511_616));
        }
    }
}

#[test]
fn a_published_configuration_has_its_published_number_of_parameters() {
    let text = r#"{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
        "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
        "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
        "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 8.0, "high_freq_factor": 4.0,
        "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0,
        "tie_word_embeddings": false, "torch_dtype": "bfloat16", "transformers_version": "4.43.0", "use_cache": true,
        "vocab_size": 128256}"#;
    let model = read_bytes(text.as_bytes()).expect("it is modelled");
    assert_eq!(model.parameter_count(), Some(8_030_261_248));
}

#[test]
fn published_configurations_of_other_families_have_their_published_numbers_of_parameters() {
    let qwen3 = r#"{"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643,
        "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02,
        "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
        "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null,
        "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
        "use_sliding_window": false, "vocab_size": 151936}"#;
    let gemma = r#"{"architectures": ["GemmaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "head_dim": 256,
        "hidden_act": "gelu_pytorch_tanh", "hidden_size": 2048, "intermediate_size": 16384, "max_position_embeddings": 8192,
        "model_type": "gemma", "num_attention_heads": 8, "num_hidden_layers": 18, "num_key_value_heads": 1,
        "rope_theta": 10000.0, "torch_dtype": "bfloat16", "vocab_size": 256000}"#;
    let pythia = r#"{"architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072,
        "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neox", "num_attention_heads": 12,
        "num_hidden_layers": 12, "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false,
        "torch_dtype": "float16", "use_cache": true, "use_parallel_residual": true, "vocab_size": 50304}"#;
    let opt = r#"{"_remove_final_layer_norm": false, "activation_dropout": 0.0, "activation_function": "relu",
        "architectures": ["OPTForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 2, "do_layer_norm_before": true,
        "dropout": 0.1, "ffn_dim": 3072, "hidden_size": 768, "init_std": 0.02, "layerdrop": 0.0,
        "max_position_embeddings": 2048, "model_type": "opt", "num_attention_heads": 12, "num_hidden_layers": 12,
        "prefix": "</s>", "torch_dtype": "float16", "use_cache": true, "vocab_size": 50272, "word_embed_proj_dim": 768}"#;
    let distilbert = r#"{"activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 768,
        "dropout": 0.1, "hidden_dim": 3072, "initializer_range": 0.02, "max_position_embeddings": 512,
        "model_type": "distilbert", "n_heads": 12, "n_layers": 6, "pad_token_id": 0, "qa_dropout": 0.1,
        "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false, "tie_weights_": true, "vocab_size": 30522}"#;
    let deberta = r#"{"model_type": "deberta-v2", "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02, "intermediate_size": 3072,
        "architectures": ["DebertaV2ForSequenceClassification"], "max_position_embeddings": 512, "relative_attention": true,
        "position_buckets": 256, "norm_rel_ebd": "layer_norm", "share_att_key": true, "pos_att_type": "p2c|c2p",
        "layer_norm_eps": 1e-7, "max_relative_positions": -1, "position_biased_input": false, "num_attention_heads": 12,
        "num_hidden_layers": 12, "type_vocab_size": 0, "vocab_size": 128100}"#;
    for (text, parameters) in [
        (qwen3, 596_049_920),
        (gemma, 2_506_172_416),
        (pythia, 162_322_944),
        (opt, 125_239_296),
        (distilbert, 66_985_530),
        (deberta, 184_423_682),
    ] {
        let model = read_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(model.parameter_count(), Some(parameters), "{text}");
    }
}
