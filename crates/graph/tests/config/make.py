"""Captures models of odd configurations with real transformers: python crates/graph/tests/config/make.py [NAME…]

Writes NAME.json, the configuration, and NAME.vramfit, the capture that the reader's model must equal.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "src" / "read" / "config"))

import make as templates  # noqa: E402

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
    "vit-odd": ("ViT", "ForImageClassification", {"hidden_size": 36, "num_hidden_layers": 4, "num_attention_heads": 3,
                                                   "intermediate_size": 50, "image_size": 40, "patch_size": 8,
                                                   "num_labels": 7}),
    "vit-two-heads": ("ViT", "ForImageClassification", {"hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2,
                                                        "intermediate_size": 90, "image_size": 33, "patch_size": 10}),
}


def main():
    for name in sys.argv[1:] or CASES:
        family, ending, arguments = CASES[name]
        architecture = family + ending
        config = {"model_type": family.lower(), "architectures": [architecture], **arguments}
        (HERE / f"{name}.json").write_text(json.dumps(config, indent=2) + "\n")
        kind = "images" if "Image" in ending else "labels" if "Sequence" in ending else "masked" if "Masked" in ending else "tokens"
        templates.captured(architecture, f"{family}Config", arguments, kind, HERE / f"{name}.vramfit")
        print(name, flush=True)


if __name__ == "__main__":
    main()
