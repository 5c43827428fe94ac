//! `config.json`: the same program as real transformers runs for that configuration, and clear refusals.

#[path = "../toml/describe.rs"]
mod describe;

use std::path::Path;

use describe::{Described, assert_same};
use vramfit_graph::bind::{BoundTensor, bind};
use vramfit_graph::dtype::Dtype;
use vramfit_graph::model::{Model, Step};
use vramfit_graph::select::{SizeFlags, Sizes, VariantFlags, select_variant};
use vramfit_readers::packed::unpack;
use vramfit_readers::{read_bytes, read_file};

fn read(name: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(name);
    read_file(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn captured(name: &str) -> Model {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config").join(format!("{name}.packed"));
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    unpack(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The captures are made by `make.py`. Floats decide no memory and are those of the template.
fn is_as_captured(name: &str) {
    let (made, captured) = (read(&format!("{name}.json")), captured(name));
    assert_eq!(made.symbol_names(), captured.symbol_names(), "{name}");
    for sizes in [[2, 12, 10], [5, 9, 16]] {
        is_same_at(&sizes[..made.symbols.len()], &made, &captured, name);
    }
}

/// The same for a model with a window of 10, which has a capture of sequences that are shorter and one of others.
fn is_as_captured_on_both_sides_of_its_window(name: &str) {
    let made = read(&format!("{name}.json"));
    let beyond = format!("{name}-beyond");
    let (short, long) = (captured(name), captured(&beyond));
    assert_eq!(made.symbol_names(), ["batch", "seq"], "{name}");
    [[2, 8], [5, 9]].iter().for_each(|sizes| is_same_at(sizes, &made, &short, name));
    [[2, 24], [5, 10], [3, 31]].iter().for_each(|sizes| is_same_at(sizes, &made, &long, &beyond));
}

fn is_same_at(sizes: &[i64], made: &Model, captured: &Model, name: &str) {
    let mut made = made.clone();
    made.variants.retain(|variant| variant.reaches(sizes));
    let at = |model| Described { model, sizes, has_floats: false };
    assert_same(at(&made), at(captured), name);
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
    ["qwen3-odd", "qwen3-tied-bf16", "phi3-odd", "phi3-grouped", "gemma-odd", "gemma-equal", "gemma-gelu-bf16"]
        .into_iter()
        .for_each(is_as_captured);
}

#[test]
fn gpt_neox_and_opt_are_the_programs_that_transformers_runs() {
    ["gpt_neox-odd", "gpt_neox-fp16", "opt-odd", "opt-projected"].into_iter().for_each(is_as_captured);
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
fn a_model_with_a_window_is_the_program_that_transformers_runs_for_shorter_and_for_longer_sequences() {
    [
        "mistral-window",
        "mistral-window-bf16",
        "mixtral-window",
        "phi3-window",
        "phi3-grouped-window-fp16",
        "starcoder2-window",
    ]
    .into_iter()
    .for_each(is_as_captured_on_both_sides_of_its_window);
}

#[test]
fn gemma_2_and_3_are_the_programs_that_transformers_runs_for_shorter_and_for_longer_sequences() {
    ["gemma2-window", "gemma2-window-bf16", "gemma3-window", "gemma3-window-bf16"]
        .into_iter()
        .for_each(is_as_captured_on_both_sides_of_its_window);
}

#[test]
fn a_window_is_there_also_where_transformers_has_it_by_default() {
    let reaches = |more: &str| {
        let text = format!("{{\"model_type\": \"mistral\"{more}}}");
        let model = read_bytes(text.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
        model.variants[0].reach.map(|reach| reach.range.most)
    };
    assert_eq!(reaches(""), Some(Some(4095)));
    assert_eq!(reaches(", \"sliding_window\": 2047"), Some(Some(2046)));
    assert_eq!(reaches(", \"sliding_window\": null"), None);
}

#[test]
fn the_sequence_decides_which_of_two_programs_is_bound() {
    let model = read("mistral-window.json");
    let bound = |sequence: i64| {
        let flags = SizeFlags { batch: Some(2), sequence: Some(sequence), sizes: Vec::new() };
        let sizes = Sizes::select(&model, &flags).expect("it has these sizes");
        let variant = select_variant(&model, VariantFlags::default()).expect("it is there");
        let bound = bind(&model, variant, &sizes).expect("it has these sizes");
        let is_mask = |tensor: &BoundTensor| tensor.dtype == Dtype::Bool && tensor.shape.len() == 4;
        (bound.variant.reach.map(|reach| reach.range.least), bound.tensors.iter().any(is_mask))
    };
    assert_eq!(bound(9), (Some(1), false));
    assert_eq!(bound(10), (Some(10), true));
    assert_eq!(bound(1000), (Some(10), true));
}

#[test]
fn kinds_of_layers_that_no_template_has_are_refused() {
    let refusal = |family: &str, more: &str| {
        let text = format!("{{\"model_type\": \"{family}\", {more}}}");
        read_bytes(text.as_bytes()).expect_err("it is not modelled").to_string()
    };
    assert_eq!(
        refusal("gemma2", "\"num_hidden_layers\": 5"),
        "layer_types = sfsfs (sliding and full) is not modelled; what is: an even number of layers, sliding and full in turn"
    );
    assert_eq!(
        refusal("gemma3_text", "\"num_hidden_layers\": 7"),
        "layer_types = sssssfs (sliding and full) is not modelled; what is: a sliding one first, no two full ones in a row, and not \
         a single sliding one at the end"
    );
    assert_eq!(
        refusal("gemma3_text", "\"num_hidden_layers\": 3, \"layer_types\": [\"full_attention\"]"),
        "layer_types: found [\"full_attention\"], needed sliding_attention or full_attention for each of 3 layers"
    );
    assert_eq!(
        refusal("gemma2", "\"final_logit_softcapping\": null"),
        "final_logit_softcapping: found null, needed a number"
    );
    assert_eq!(refusal("phi3", "\"sliding_window\": 1"), "sliding_window: found 1, needed 2 or more, or null");
    assert_eq!(
        refusal("mistral", "\"num_key_value_heads\": 1"),
        "num_key_value_heads = 1 is not modelled; what is: 2 or more with a sliding window"
    );
    assert_eq!(
        refusal("starcoder2", "\"sliding_window\": 4096"),
        "embedding_dropout: found nothing, needed a number over 0"
    );
}

#[test]
fn olmo_and_falcon_are_the_programs_that_transformers_runs() {
    ["olmo-odd", "olmo-tied-fp16", "falcon-odd", "falcon-bf16"].into_iter().for_each(is_as_captured);
}

#[test]
fn bloom_is_the_program_that_transformers_runs_with_the_backwards_of_its_activation() {
    ["bloom-odd", "bloom-power-fp16"].into_iter().for_each(|name| {
        is_as_captured(name);
        let (made, captured) = (read(&format!("{name}.json")), captured(name));
        assert!(made.variants.iter().any(|variant| variant.functions.len() > 1), "{name}");
        for variant in &made.variants {
            let other = captured.variants.iter().find(|other| other.is_of_same_training(variant));
            let other = other.expect("it was captured");
            assert_eq!(variant.functions.len(), other.functions.len(), "{name}");
            for (made, captured) in variant.functions.iter().zip(&other.functions) {
                assert_eq!(
                    (made.end, &made.arguments, &made.kept),
                    (captured.end, &captured.arguments, &captured.kept)
                );
                assert_eq!((&made.gradients, &made.results), (&captured.gradients, &captured.results), "{name}");
                let tensors = |steps: &[Step]| {
                    let mut found = Vec::new();
                    steps.iter().for_each(|step| step.each_tensor(&mut |tensor| found.push(tensor)));
                    found
                };
                assert_eq!(tensors(&made.steps), tensors(&captured.steps), "{name}");
            }
        }
    });
}

#[test]
fn albert_is_the_program_that_transformers_runs() {
    ["albert-masked", "albert-labels", "albert-spans-bf16"].into_iter().for_each(is_as_captured);
}

#[test]
fn qwen_with_a_window_in_its_last_layers_is_the_program_that_transformers_runs() {
    ["qwen2-window", "qwen3-window-bf16"].into_iter().for_each(is_as_captured_on_both_sides_of_its_window);
    let refusal = |more: &str| {
        let text = format!(
            "{{\"model_type\": \"qwen2\", \"use_sliding_window\": true, \"num_hidden_layers\": 4, \
             \"num_key_value_heads\": 8{more}}}"
        );
        read_bytes(text.as_bytes()).map(|model| model.variants.iter().any(|variant| variant.reach.is_some()))
    };
    assert_eq!(refusal("").ok(), Some(false), "the first 28 layers have no window");
    assert_eq!(refusal(", \"max_window_layers\": 2").ok(), Some(true));
    for first in [0, 3] {
        let error = refusal(&format!(", \"max_window_layers\": {first}")).expect_err("it is not modelled").to_string();
        assert!(error.starts_with("layer_types = ") && error.ends_with("then two sliding ones at least"), "{error}");
    }
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
        read("{\"model_type\": \"gptj\"}"),
        "model_type: found `gptj`, needed one of llama, mistral, mixtral, qwen2, qwen3, phi3, gemma, gemma2, \
         gemma3_text, olmo, starcoder2, gpt2, gpt_neox, opt, falcon, bloom, bert, roberta, xlm-roberta, camembert, \
         distilbert, electra, deberta-v2, albert, vit, t5"
    );
    assert_eq!(
        read("{\"model_type\": \"mamba\"}"),
        "model_type: `mamba` is not modelled: without the kernels of mamba_ssm it calls operators for each position of \
         the sequence, one after the other"
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

/// As transformers 5.17 counts parameters of what `from_config` builds.
#[test]
fn published_configurations_are_answered_or_refused_by_the_field_that_is_not_modelled() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/published.jsonl");
    let text = std::fs::read_to_string(path).expect("it is there");
    let mut answered = 0;
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("it is JSON");
        let found = read_bytes(row["config"].to_string().as_bytes());
        match (row["refused"].as_str(), found) {
            (None, Ok(model)) => {
                assert_eq!(model.parameter_count(), row["parameters"].as_u64(), "{}", row["name"]);
                answered += 1;
            }
            (Some(field), Err(error)) => assert!(error.to_string().starts_with(field), "{}: {error}", row["name"]),
            (_, Ok(_)) => panic!("{} is answered", row["name"]),
            (_, Err(error)) => panic!("{}: {error}", row["name"]),
        }
    }
    assert_eq!(answered, 62);
}
