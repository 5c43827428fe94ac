"""Captures models of odd configurations with real transformers: python crates/readers/tests/config/make.py [NAME…]

Writes NAME.json, the configuration, and NAME.packed, the capture that the reader's model must equal, for a model with a sliding
window also NAME-beyond.packed, the capture of a sequence that is longer. Needs torch, transformers and cargo.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "src" / "config"))

import make as templates  # noqa: E402

DEBERTA = {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 11,
           "max_position_embeddings": 33, "type_vocab_size": 0, "relative_attention": True, "position_buckets": 16,
           "norm_rel_ebd": "layer_norm", "share_att_key": True, "pos_att_type": ["p2c", "c2p"], "position_biased_input": False,
           "max_relative_positions": -1}
# Where the name of a family is not that of its classes in small letters.
FAMILIES = {"XLMRoberta": "xlm-roberta", "GPTNeoX": "gpt_neox", "DebertaV2": "deberta-v2", "Gemma3": "gemma3_text"}
CONFIGS = {"Gemma3": "Gemma3Text"}
ENCODERS = ("bert", "electra", "deberta")

CASES = {
    "llama-odd": ("Llama", "ForCausalLM", {"vocab_size": 100, "hidden_size": 48, "intermediate_size": 77, "num_hidden_layers": 5,
                                            "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}),
    "llama-one-key": ("Llama", "ForCausalLM", {"vocab_size": 64, "hidden_size": 30, "intermediate_size": 8,
                                                "num_hidden_layers": 4, "num_attention_heads": 3, "num_key_value_heads": 1,
                                                "tie_word_embeddings": True}),
    "llama-two-layers": ("Llama", "ForCausalLM", {"vocab_size": 51, "hidden_size": 40, "intermediate_size": 100,
                                                   "num_hidden_layers": 2, "num_attention_heads": 4}),
    "mistral-odd": ("Mistral", "ForCausalLM", {"vocab_size": 77, "hidden_size": 64, "intermediate_size": 50,
                                                "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4,
                                                "head_dim": 6, "sliding_window": None}),
    "qwen2-odd": ("Qwen2", "ForCausalLM", {"vocab_size": 90, "hidden_size": 24, "intermediate_size": 33,
                                            "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
                                            "tie_word_embeddings": True}),
    "qwen3-odd": ("Qwen3", "ForCausalLM", {"vocab_size": 90, "hidden_size": 24, "intermediate_size": 33, "num_hidden_layers": 5,
                                            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10}),
    "qwen3-tied-bf16": ("Qwen3", "ForCausalLM", {"vocab_size": 61, "hidden_size": 40, "intermediate_size": 50, "num_hidden_layers": 4,
                                            "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 8,
                                            "tie_word_embeddings": True, "dtype": "bfloat16"}),
    "phi3-odd": ("Phi3", "ForCausalLM", {"vocab_size": 77, "hidden_size": 64, "intermediate_size": 50, "num_hidden_layers": 4,
                                          "num_attention_heads": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}),
    "phi3-grouped": ("Phi3", "ForCausalLM", {"vocab_size": 77, "hidden_size": 60, "intermediate_size": 31, "num_hidden_layers": 4,
                                          "num_attention_heads": 6, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1,
                                          "eos_token_id": 2}),
    "gemma-odd": ("Gemma", "ForCausalLM", {"vocab_size": 90, "hidden_size": 24, "intermediate_size": 33, "num_hidden_layers": 5,
                                            "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 10}),
    "gemma-equal": ("Gemma", "ForCausalLM", {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 20, "num_hidden_layers": 4,
                                            "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 12}),
    "gpt_neox-odd": ("GPTNeoX", "ForCausalLM", {"vocab_size": 90, "hidden_size": 64, "intermediate_size": 33, "num_hidden_layers": 5,
                                            "num_attention_heads": 4}),
    "gpt_neox-fp16": ("GPTNeoX", "ForCausalLM", {"vocab_size": 70, "hidden_size": 72, "intermediate_size": 90, "num_hidden_layers": 4,
                                            "num_attention_heads": 3, "rotary_pct": 0.5, "dtype": "float16"}),
    "mistral-window": ("Mistral", "ForCausalLM", {"vocab_size": 77, "hidden_size": 64, "intermediate_size": 50,
                                                "num_hidden_layers": 5, "num_attention_heads": 8, "num_key_value_heads": 4,
                                                "head_dim": 6, "sliding_window": 10}),
    "mistral-window-bf16": ("Mistral", "ForCausalLM", {"vocab_size": 61, "hidden_size": 48, "intermediate_size": 31,
                                                "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 3,
                                                "sliding_window": 10, "dtype": "bfloat16"}),
    "mixtral-window": ("Mixtral", "ForCausalLM", {"vocab_size": 77, "hidden_size": 64, "intermediate_size": 50, "num_hidden_layers": 4,
                                                "num_attention_heads": 8, "num_key_value_heads": 4, "num_local_experts": 6,
                                                "num_experts_per_tok": 3, "sliding_window": 10}),
    "phi3-window": ("Phi3", "ForCausalLM", {"vocab_size": 77, "hidden_size": 64, "intermediate_size": 50, "num_hidden_layers": 4,
                                            "num_attention_heads": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                                            "sliding_window": 10}),
    "phi3-grouped-window-fp16": ("Phi3", "ForCausalLM", {"vocab_size": 77, "hidden_size": 60, "intermediate_size": 31, "num_hidden_layers": 3,
                                            "num_attention_heads": 6, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1,
                                            "eos_token_id": 2, "sliding_window": 10, "dtype": "float16"}),
    "starcoder2-window": ("Starcoder2", "ForCausalLM", {"vocab_size": 70, "hidden_size": 48, "intermediate_size": 90, "num_hidden_layers": 4,
                                            "num_attention_heads": 6, "num_key_value_heads": 2, "sliding_window": 10,
                                            "embedding_dropout": 0.1, "residual_dropout": 0.1, "attention_dropout": 0.1}),
    "gemma-gelu-bf16": ("Gemma", "ForCausalLM", {"vocab_size": 90, "hidden_size": 24, "intermediate_size": 33, "num_hidden_layers": 4,
                                            "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 10, "hidden_act": "gelu",
                                            "dtype": "bfloat16"}),
    "gemma2-window": ("Gemma2", "ForCausalLM", {"vocab_size": 90, "hidden_size": 24, "intermediate_size": 33, "num_hidden_layers": 8,
                                            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10, "sliding_window": 10}),
    "gemma2-window-bf16": ("Gemma2", "ForCausalLM", {"vocab_size": 50, "hidden_size": 36, "intermediate_size": 20, "num_hidden_layers": 4,
                                            "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 10,
                                            "dtype": "bfloat16"}),
    "gemma3-window": ("Gemma3", "ForCausalLM", {"vocab_size": 90, "hidden_size": 24, "intermediate_size": 33, "num_hidden_layers": 9,
                                            "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 10, "sliding_window": 10}),
    "gemma3-window-bf16": ("Gemma3", "ForCausalLM", {"vocab_size": 50, "hidden_size": 36, "intermediate_size": 20, "num_hidden_layers": 9,
                                            "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 10,
                                            "sliding_window_pattern": 3, "dtype": "bfloat16"}),
    "olmo-odd": ("Olmo", "ForCausalLM", {"vocab_size": 90, "hidden_size": 40, "intermediate_size": 33, "num_hidden_layers": 4,
                                         "num_attention_heads": 4}),
    "olmo-tied-fp16": ("Olmo", "ForCausalLM", {"vocab_size": 60, "hidden_size": 24, "intermediate_size": 50, "num_hidden_layers": 2,
                                         "num_attention_heads": 3, "tie_word_embeddings": True, "dtype": "float16"}),
    "falcon-odd": ("Falcon", "ForCausalLM", {"vocab_size": 90, "hidden_size": 40, "num_hidden_layers": 4, "num_attention_heads": 4}),
    "falcon-bf16": ("Falcon", "ForCausalLM", {"vocab_size": 60, "hidden_size": 36, "num_hidden_layers": 3, "num_attention_heads": 3,
                                         "dtype": "bfloat16"}),
    "opt-projected": ("OPT", "ForCausalLM", {"vocab_size": 90, "hidden_size": 36, "ffn_dim": 33, "num_hidden_layers": 4,
                                             "num_attention_heads": 3, "max_position_embeddings": 40, "word_embed_proj_dim": 20,
                                             "do_layer_norm_before": False}),
    "opt-odd": ("OPT", "ForCausalLM", {"vocab_size": 90, "hidden_size": 36, "ffn_dim": 33, "num_hidden_layers": 5,
                                       "num_attention_heads": 3, "max_position_embeddings": 40}),
    "distilbert-labels": ("DistilBert", "ForSequenceClassification", {"vocab_size": 80, "dim": 36, "n_layers": 4, "n_heads": 3,
                                            "hidden_dim": 50, "max_position_embeddings": 30, "num_labels": 5}),
    "distilbert-masked": ("DistilBert", "ForMaskedLM", {"vocab_size": 61, "dim": 20, "n_layers": 3, "n_heads": 4, "hidden_dim": 11,
                                            "max_position_embeddings": 33}),
    "distilbert-spans": ("DistilBert", "ForQuestionAnswering", {"vocab_size": 61, "dim": 20, "n_layers": 2, "n_heads": 4, "hidden_dim": 11,
                                            "max_position_embeddings": 33}),
    "electra-labels": ("Electra", "ForSequenceClassification", {"vocab_size": 80, "hidden_size": 36, "num_hidden_layers": 4,
                                            "num_attention_heads": 3, "intermediate_size": 50, "max_position_embeddings": 30,
                                            "embedding_size": 36, "num_labels": 5}),
    "electra-masked": ("Electra", "ForMaskedLM", {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4,
                                            "intermediate_size": 11, "max_position_embeddings": 33, "embedding_size": 13}),
    "electra-tokens": ("Electra", "ForTokenClassification", {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 3,
                                            "num_attention_heads": 4, "intermediate_size": 11, "max_position_embeddings": 33,
                                            "embedding_size": 13, "num_labels": 7}),
    "electra-spans": ("Electra", "ForQuestionAnswering", {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 3,
                                            "num_attention_heads": 4, "intermediate_size": 11, "max_position_embeddings": 33,
                                            "embedding_size": 20}),
    "deberta-v2-labels": ("DebertaV2", "ForSequenceClassification", {**DEBERTA, "num_labels": 5}),
    "deberta-v2-masked": ("DebertaV2", "ForMaskedLM", {**DEBERTA, "hidden_size": 24, "position_buckets": 9}),
    "deberta-v2-spans": ("DebertaV2", "ForQuestionAnswering", {**DEBERTA, "num_hidden_layers": 2}),
    "albert-masked": ("Albert", "ForMaskedLM", {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 6, "num_attention_heads": 4,
                                            "intermediate_size": 30, "max_position_embeddings": 33, "embedding_size": 10}),
    "albert-labels": ("Albert", "ForSequenceClassification", {"vocab_size": 70, "hidden_size": 20, "num_hidden_layers": 3,
                                            "num_attention_heads": 5, "intermediate_size": 42, "max_position_embeddings": 30,
                                            "embedding_size": 14, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
                                            "attention_probs_dropout_prob": 0.1, "num_labels": 5}),
    "albert-spans-bf16": ("Albert", "ForQuestionAnswering", {"vocab_size": 50, "hidden_size": 18, "num_hidden_layers": 4,
                                            "num_attention_heads": 3, "intermediate_size": 26, "max_position_embeddings": 33,
                                            "embedding_size": 8, "hidden_act": "gelu", "dtype": "bfloat16"}),
    "bloom-odd": ("Bloom", "ForCausalLM", {"vocab_size": 90, "hidden_size": 36, "n_layer": 5, "n_head": 6}),
    "bloom-power-fp16": ("Bloom", "ForCausalLM", {"vocab_size": 60, "hidden_size": 40, "n_layer": 2, "n_head": 4, "dtype": "float16"}),
    "qwen2-window": ("Qwen2", "ForCausalLM", {"vocab_size": 77, "hidden_size": 64, "intermediate_size": 50, "num_hidden_layers": 6,
                                            "num_attention_heads": 8, "num_key_value_heads": 4, "use_sliding_window": True,
                                            "sliding_window": 10, "max_window_layers": 2}),
    "qwen3-window-bf16": ("Qwen3", "ForCausalLM", {"vocab_size": 61, "hidden_size": 40, "intermediate_size": 50, "num_hidden_layers": 5,
                                            "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 8, "tie_word_embeddings": True,
                                            "use_sliding_window": True, "sliding_window": 10, "max_window_layers": 1,
                                            "dtype": "bfloat16"}),
    "gpt2-odd": ("GPT2", "LMHeadModel", {"vocab_size": 99, "n_embd": 48, "n_layer": 4, "n_head": 3, "n_positions": 40}),
    "gpt2-inner": ("GPT2", "LMHeadModel", {"vocab_size": 50, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64,
                                            "n_inner": 100}),
    "bert-labels": ("Bert", "ForSequenceClassification", {"vocab_size": 80, "hidden_size": 36, "num_hidden_layers": 4,
                                                           "num_attention_heads": 3, "intermediate_size": 50,
                                                           "max_position_embeddings": 30, "type_vocab_size": 1,
                                                           "num_labels": 5}),
    "bert-masked": ("Bert", "ForMaskedLM", {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 7,
                                             "num_attention_heads": 4, "intermediate_size": 11,
                                             "max_position_embeddings": 33, "type_vocab_size": 3}),
    "bert-tokens": ("Bert", "ForTokenClassification", {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4,
                                             "intermediate_size": 11, "max_position_embeddings": 33, "num_labels": 7}),
    "bert-spans": ("Bert", "ForQuestionAnswering", {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 4, "num_attention_heads": 2,
                                             "intermediate_size": 11, "max_position_embeddings": 33}),
    "bert-bf16": ("Bert", "ForMaskedLM", {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
                                             "intermediate_size": 11, "max_position_embeddings": 33, "dtype": "bfloat16"}),
    "roberta-labels": ("Roberta", "ForSequenceClassification", {"vocab_size": 80, "hidden_size": 36, "num_hidden_layers": 4,
                                             "num_attention_heads": 3, "intermediate_size": 50, "max_position_embeddings": 30,
                                             "type_vocab_size": 1, "num_labels": 5}),
    "roberta-masked": ("Roberta", "ForMaskedLM", {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 4,
                                             "intermediate_size": 11, "max_position_embeddings": 33}),
    "xlm-roberta-tokens": ("XLMRoberta", "ForTokenClassification", {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 3,
                                             "num_attention_heads": 4, "intermediate_size": 11, "max_position_embeddings": 33,
                                             "num_labels": 9}),
    "camembert-spans": ("Camembert", "ForQuestionAnswering", {"vocab_size": 61, "hidden_size": 20, "num_hidden_layers": 2,
                                             "num_attention_heads": 5, "intermediate_size": 11, "max_position_embeddings": 33}),
    "llama-bf16": ("Llama", "ForCausalLM", {"vocab_size": 100, "hidden_size": 48, "intermediate_size": 77, "num_hidden_layers": 4,
                                            "num_attention_heads": 6, "num_key_value_heads": 2, "dtype": "bfloat16"}),
    "qwen2-fp16": ("Qwen2", "ForCausalLM", {"vocab_size": 100, "hidden_size": 48, "intermediate_size": 77, "num_hidden_layers": 3,
                                            "num_attention_heads": 6, "num_key_value_heads": 6, "dtype": "float16"}),
    "mixtral-odd": ("Mixtral", "ForCausalLM", {"vocab_size": 77, "hidden_size": 64, "intermediate_size": 50, "num_hidden_layers": 4,
                                               "num_attention_heads": 8, "num_key_value_heads": 4, "num_local_experts": 6,
                                               "num_experts_per_tok": 3}),
    "vit-bf16": ("ViT", "ForImageClassification", {"hidden_size": 20, "num_hidden_layers": 3, "num_attention_heads": 2,
                                                   "intermediate_size": 90, "image_size": 33, "patch_size": 10, "dtype": "bfloat16"}),
    "vit-odd": ("ViT", "ForImageClassification", {"hidden_size": 36, "num_hidden_layers": 4, "num_attention_heads": 3,
                                                   "intermediate_size": 50, "image_size": 40, "patch_size": 8,
                                                   "num_labels": 7}),
    "vit-two-heads": ("ViT", "ForImageClassification", {"hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2,
                                                        "intermediate_size": 90, "image_size": 33, "patch_size": 10}),
    "t5-odd": ("T5", "ForConditionalGeneration", {"vocab_size": 90, "d_model": 40, "d_kv": 6, "d_ff": 33, "num_layers": 5,
                                                  "num_decoder_layers": 3, "num_heads": 4, "decoder_start_token_id": 0,
                                                  "relative_attention_num_buckets": 18}),
    "t5-gated": ("T5", "ForConditionalGeneration", {"vocab_size": 61, "d_model": 24, "d_kv": 8, "d_ff": 50, "num_layers": 3,
                                                    "num_decoder_layers": 6, "num_heads": 3, "decoder_start_token_id": 0,
                                                    "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "t5-no-dropout": ("T5", "ForConditionalGeneration", {"vocab_size": 50, "d_model": 32, "d_kv": 10, "d_ff": 20, "num_layers": 4,
                                                    "num_heads": 2, "decoder_start_token_id": 0, "dropout_rate": 0.0,
                                                    "relative_attention_num_buckets": 15, "tie_word_embeddings": False}),
    "t5-unscaled": ("T5", "ForConditionalGeneration", {"vocab_size": 70, "d_model": 20, "d_kv": 7, "d_ff": 31, "num_layers": 3,
                                                    "num_decoder_layers": 4, "num_heads": 2, "decoder_start_token_id": 0,
                                                    "tie_word_embeddings": False}),
    "t5-scaled-no-dropout": ("T5", "ForConditionalGeneration", {"vocab_size": 45, "d_model": 28, "d_kv": 5, "d_ff": 60, "num_layers": 4,
                                                    "num_decoder_layers": 3, "num_heads": 3, "decoder_start_token_id": 0,
                                                    "dropout_rate": 0.0}),
    "t5-gated-scaled": ("T5", "ForConditionalGeneration", {"vocab_size": 83, "d_model": 36, "d_kv": 9, "d_ff": 21, "num_layers": 4,
                                                    "num_decoder_layers": 3, "num_heads": 4, "decoder_start_token_id": 0,
                                                    "feed_forward_proj": "gated-gelu"}),
    "t5-gated-scaled-no-dropout": ("T5", "ForConditionalGeneration", {"vocab_size": 52, "d_model": 22, "d_kv": 6, "d_ff": 40, "num_layers": 3,
                                                    "num_decoder_layers": 3, "num_heads": 5, "decoder_start_token_id": 0,
                                                    "feed_forward_proj": "gated-gelu", "dropout_rate": 0.0}),
    "t5-gated-no-dropout": ("T5", "ForConditionalGeneration", {"vocab_size": 66, "d_model": 30, "d_kv": 4, "d_ff": 26, "num_layers": 3,
                                                    "num_decoder_layers": 5, "num_heads": 2, "decoder_start_token_id": 0,
                                                    "feed_forward_proj": "gated-gelu", "dropout_rate": 0.0, "tie_word_embeddings": False}),
}


def main():
    templates.with_fixed_hashes()
    for name in sys.argv[1:] or CASES:
        family, ending, arguments = CASES[name]
        architecture = family + ending
        config = {"model_type": FAMILIES.get(family, family.lower()), "architectures": [architecture], **arguments}
        (HERE / f"{name}.json").write_text(json.dumps(config, indent=2) + "\n")
        kind = "pairs" if family == "T5" else "images" if "Image" in ending else templates.head_kind(ending) if any(name in family.lower() for name in ENCODERS) else "tokens"
        # A model with a window makes other calls for sequences as long as it.
        for part, length in {"": 8, "-beyond": 24}.items() if arguments.get("sliding_window") else {"": 12}.items():
            capture = HERE / f"{name}{part}.vramfit"
            templates.captured(architecture, f"{CONFIGS.get(family, family)}Config", arguments, kind, capture, length)
            with tempfile.TemporaryDirectory() as folder:
                shutil.move(capture, folder)
                templates.pack(folder, [capture.stem])
                shutil.copy(Path(folder) / f"{capture.stem}.packed", HERE)
        print(name, flush=True)


if __name__ == "__main__":
    main()
