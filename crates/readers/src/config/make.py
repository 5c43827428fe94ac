"""Makes the templates of Hugging Face models: python crates/readers/src/config/make.py [NAME…]

A template is a capture of a small model of a few layers whose sizes are primes (or products of them), so that each number in
it tells what it was made of: 109 is the hidden size, 4 * 113 four times the intermediate one. Numbers become expressions of
the configuration's sizes, and the reader puts in those of a config.json, as many layers as it says. A template is stored as
its difference from another one (``base``).
tests/config/make.py captures models of odd sizes, which the reader's must equal. Needs torch, transformers and cargo.
"""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
sys.path.insert(0, str(ROOT / "python"))

HIDDEN, INNER, VOCABULARY, KEYS, REPEATS, HALF, POSITIONS, KINDS, LABELS = 109, 113, 131, 101, 103, 107, 137, 139, 149
EXPERTS, CHOSEN, EMBEDDING, BUCKETS, WINDOW = 157, 17, 163, 167, 173
BEYOND = 400  # a sequence longer than the window
NUMBERS = {VOCABULARY: "vocabulary", INNER: "inner", POSITIONS: "positions", KINDS: "kinds", LABELS: "labels"}
GROUPED = {KEYS * REPEATS: "heads", KEYS: "kv_heads", REPEATS: "(heads//kv_heads)", 2 * HALF: "head_dim", HALF: "(head_dim//2)"}
EQUAL = {KEYS: "heads", 2 * HALF: "head_dim", HALF: "(head_dim//2)"}
ONE = {REPEATS: "heads", 2 * HALF: "head_dim", HALF: "(head_dim//2)"}


def llama(family, tied, grouped, other_numbers={}, keys=KEYS, **more):
    heads = keys * REPEATS if grouped else keys
    hidden = heads * HIDDEN  # it must be a multiple
    numbers = {**NUMBERS, **(ONE if keys == 1 else GROUPED if grouped else EQUAL), hidden: "hidden", **other_numbers}
    config = {"vocab_size": VOCABULARY, "hidden_size": hidden, "intermediate_size": INNER, "num_hidden_layers": 3,
              "num_attention_heads": heads, "num_key_value_heads": keys, "head_dim": 2 * HALF,
              "tie_word_embeddings": tied, **more}
    return f"{family}ForCausalLM", f"{family}Config", config, numbers, "tokens"


def windowed(template, **more):
    """The same model with a sliding window in all or some of its layers."""
    architecture, config, arguments, numbers, kind = template
    numbers = {**numbers, WINDOW: "window", WINDOW - 1: "(window-1)"}
    return architecture, config, {**arguments, "sliding_window": WINDOW, **more}, numbers, kind


def in_half(template, dtype):
    """The same model, built in half precision: rotary frequencies and images stay in float32, which a cast would not leave so."""
    architecture, config, arguments, numbers, kind = template
    return architecture, config, {**arguments, "dtype": dtype}, numbers, kind


def bert(architecture, family="Bert", **more):
    # The width of a head follows from the hidden size here.
    config = {"vocab_size": VOCABULARY, "hidden_size": KEYS * HALF, "intermediate_size": INNER, "num_hidden_layers": 3,
              "num_attention_heads": KEYS, "max_position_embeddings": POSITIONS, "type_vocab_size": KINDS,
              **({} if "Question" in architecture else {"num_labels": LABELS}), **more}
    return architecture, f"{family}Config", config, {**NUMBERS, KEYS * HALF: "hidden", KEYS: "heads", HALF: "head_dim"}, head_kind(architecture)


def head_kind(architecture):
    """What an encoder with this head gets."""
    return "labels" if "Sequence" in architecture else "spans" if "Question" in architecture else "masked"


def qwen3(tied):
    return llama("Qwen3", tied, True)


def mixtral():
    numbers = {EXPERTS: "experts", EXPERTS - 1: "(experts-1)", CHOSEN: "chosen"}
    return llama("Mixtral", False, True, numbers, num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN)


def phi3(grouped):
    """Queries, keys and values are one product."""
    heads = KEYS * REPEATS if grouped else KEYS
    parts = {heads + 1: "(heads+1)", 2 * heads + 1: "(2*heads+1)"}
    if grouped:
        parts |= {REPEATS + 2: "(heads//kv_heads+2)", REPEATS + 1: "(heads//kv_heads+1)"}
    return llama("Phi3", False, grouped, parts, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def gemma(grouped, **more):
    return llama("Gemma", True, grouped, **more)


def gemma2():
    """Layers with and without a window take turns."""
    return windowed(llama("Gemma2", True, True), num_hidden_layers=4)


def gemma3(ends_in_window, keys=KEYS):
    """Most layers have a window. With one key and value head, what repeats it for a mask is a view."""
    kinds = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    kinds.append("sliding_attention" if ends_in_window else "full_attention")
    template = windowed(llama("Gemma3", True, True, keys=keys), num_hidden_layers=len(kinds), layer_types=kinds)
    return template[:1] + ("Gemma3TextConfig",) + template[2:]


def falcon():
    """As falcon-7b: one key and value head, attention beside the other layers, rotary positions."""
    head = 2 * HALF
    config = {"vocab_size": VOCABULARY, "hidden_size": KEYS * head, "num_hidden_layers": 3, "num_attention_heads": KEYS}
    numbers = {**NUMBERS, KEYS * head: "hidden", KEYS: "heads", KEYS + 2: "(heads+2)", KEYS + 1: "(heads+1)", head: "head_dim",
               HALF: "(head_dim//2)"}
    del numbers[INNER]
    return "FalconForCausalLM", "FalconConfig", config, numbers, "tokens"


def gpt_neox():
    """A quarter of each head is rotated."""
    head = 8 * HALF
    config = {"vocab_size": VOCABULARY, "hidden_size": KEYS * head, "intermediate_size": INNER, "num_hidden_layers": 3,
              "num_attention_heads": KEYS}
    numbers = {**NUMBERS, KEYS * head: "hidden", KEYS: "heads", head: "head_dim", head - 2 * HALF: "(head_dim-rotary)",
               head + 2 * HALF: "(head_dim+rotary)", head + HALF: "(head_dim+rotary//2)",
               2 * HALF: "rotary", HALF: "(rotary//2)"}
    return "GPTNeoXForCausalLM", "GPTNeoXConfig", config, numbers, "tokens"


def opt(**more):
    config = {"vocab_size": VOCABULARY, "hidden_size": KEYS * HALF, "ffn_dim": INNER, "num_hidden_layers": 3,
              "num_attention_heads": KEYS, "max_position_embeddings": POSITIONS, **more}
    numbers = {**NUMBERS, POSITIONS + 2: "(positions+2)", KEYS * HALF: "hidden", KEYS: "heads", HALF: "head_dim"}
    if "word_embed_proj_dim" in more:
        numbers[EMBEDDING] = "embedding"
    return "OPTForCausalLM", "OPTConfig", config, numbers, "tokens"


def distilbert(architecture):
    config = {"vocab_size": VOCABULARY, "dim": KEYS * HALF, "hidden_dim": INNER, "n_layers": 3, "n_heads": KEYS,
              "max_position_embeddings": POSITIONS, **({} if "Question" in architecture else {"num_labels": LABELS})}
    return architecture, "DistilBertConfig", config, {**NUMBERS, KEYS * HALF: "hidden", KEYS: "heads", HALF: "head_dim"}, head_kind(architecture)


def electra(architecture, projected):
    """Its embeddings may be narrower than its layers. Then autocast makes no casts of what the first layer gets: it is one more."""
    sizes = {"embedding_size": EMBEDDING, "num_hidden_layers": 4} if projected else {"embedding_size": KEYS * HALF}
    template = bert(architecture, "Electra", **sizes)
    return template[:3] + ({**template[3], **({EMBEDDING: "embedding"} if projected else {})},) + template[4:]


def deberta(architecture):
    """As DeBERTa v3 is configured."""
    name, config, arguments, numbers, kind = bert(
        architecture, "DebertaV2", type_vocab_size=0, relative_attention=True, position_buckets=BUCKETS, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, max_relative_positions=-1)
    del numbers[KINDS]
    return name, config, arguments, {**numbers, BUCKETS: "buckets", BUCKETS // 2: "(buckets//2)", BUCKETS // 2 - 1: "(buckets//2-1)",
                                     2 * BUCKETS - 1: "(2*buckets-1)"}, kind


def albert(architecture, drops, activation):
    """One layer, run again and again. The first run gets what a linear layer returns and, under autocast, casts the weights: it is one
    more, as in ``electra``."""
    dropout = 0.1 if drops else 0
    template = bert(architecture, "Albert", embedding_size=EMBEDDING, num_hidden_layers=4, hidden_act=activation,
                    hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    return template[:3] + ({**template[3], EMBEDDING: "embedding"},) + template[4:]


def bloom(heads):
    """The slopes of its positions are those of a power of two of heads, and others for the heads beyond."""
    config = {"vocab_size": VOCABULARY, "hidden_size": heads * HALF, "n_layer": 3, "n_head": heads}
    numbers = {VOCABULARY: "vocabulary", heads * HALF: "hidden", heads: "heads", HALF: "head_dim"}
    power = 1 << (heads.bit_length() - 1)
    if power == heads:
        numbers |= {heads + 1: "(heads+1)"}
    else:
        rest = heads - power
        numbers |= {power + 1: "(power+1)", power: "power", rest: "(heads-power)", 2 * rest + 1: "(2*heads-2*power+1)"}
    return "BloomForCausalLM", "BloomConfig", config, numbers, "tokens"


def qwen_window(family, tied):
    """The last layers have a window."""
    return windowed(llama(family, tied, True), use_sliding_window=True, num_hidden_layers=5, max_window_layers=2)


def gpt2():
    config = {"vocab_size": VOCABULARY, "n_embd": KEYS * HALF, "n_inner": INNER, "n_layer": 3, "n_head": KEYS,
              "n_positions": POSITIONS}
    return "GPT2LMHeadModel", "GPT2Config", config, {**NUMBERS, KEYS * HALF: "hidden", KEYS: "heads", HALF: "head_dim"}, "tokens"


def vit():
    grid, patch = 13, 151
    config = {"hidden_size": KEYS * HALF, "intermediate_size": INNER, "num_hidden_layers": 3, "num_attention_heads": KEYS,
              "image_size": grid * patch, "patch_size": patch, "num_labels": LABELS}
    numbers = {INNER: "inner", LABELS: "labels", KEYS * HALF: "hidden", KEYS: "heads", HALF: "head_dim",
               grid * patch: "image", patch: "patch", grid * grid + 1: "tokens", grid * grid: "(tokens-1)",
               grid: "(image//patch)"}
    return "ViTForImageClassification", "ViTConfig", config, numbers, "images"


def t5(gated, scaled, drops):
    """Four blocks a stack: the first one has a bias of its own, the other three are those that are repeated."""
    quarter = 166  # 4 * 166 + 3 buckets: halves and quarters are rounded, and all that is made of them differs
    buckets = 4 * quarter + 3
    config = {"vocab_size": VOCABULARY, "d_model": HIDDEN, "d_kv": HALF, "d_ff": INNER, "num_layers": 4,
              "num_decoder_layers": 4, "num_heads": KEYS, "relative_attention_num_buckets": buckets,
              "feed_forward_proj": "gated-gelu" if gated else "relu", "tie_word_embeddings": scaled,
              "dropout_rate": 0.1 if drops else 0.0, "decoder_start_token_id": 0}
    numbers = {VOCABULARY: "vocabulary", INNER: "inner", HIDDEN: "hidden", KEYS: "heads", HALF: "head_dim",
               buckets: "buckets", buckets - 1: "(buckets-1)", buckets - buckets // 2: "(buckets-buckets//2)",
               buckets // 2: "(buckets//2)", buckets // 2 - 1: "(buckets//2-1)",
               buckets // 2 - quarter: "(buckets//2-buckets//4)", quarter: "(buckets//4)"}
    return "T5ForConditionalGeneration", "T5Config", config, numbers, "pairs"


HEADS = {"sequence": "SequenceClassification", "masked": "MaskedLM", "tokens": "TokenClassification", "spans": "QuestionAnswering"}

TEMPLATES = {
    "llama": llama("Llama", False, False),
    "llama-grouped": llama("Llama", False, True),
    "llama-tied": llama("Llama", True, False),
    "llama-tied-grouped": llama("Llama", True, True),
    "mistral-grouped": llama("Mistral", False, True, sliding_window=None),
    "qwen2": llama("Qwen2", False, False),
    "qwen2-grouped": llama("Qwen2", False, True),
    "qwen2-tied-grouped": llama("Qwen2", True, True),
    "mixtral-grouped": mixtral(),
    "qwen3-grouped": qwen3(False),
    "qwen3-tied-grouped": qwen3(True),
    "phi3": phi3(False),
    "phi3-grouped": phi3(True),
    "gemma-tied": gemma(False),
    "gemma-tied-grouped": gemma(True),
    "gemma-tied-gelu": gemma(False, hidden_act="gelu"),
    "gemma-tied-grouped-gelu": gemma(True, hidden_act="gelu"),
    "gemma2-tied-grouped-window": gemma2(),
    "gemma3_text-tied-grouped-window": gemma3(True),
    "gemma3_text-tied-grouped-window-full": gemma3(False),
    "gemma3_text-tied-one-window": gemma3(True, 1),
    "gemma3_text-tied-one-window-full": gemma3(False, 1),
    **{f"{family.lower()}{tied}-grouped-window": qwen_window(family, bool(tied)) for family in ("Qwen2", "Qwen3") for tied in ("", "-tied")},
    "mistral-grouped-window": windowed(llama("Mistral", False, True)),
    "mixtral-grouped-window": windowed(mixtral()),
    "phi3-window": windowed(phi3(False)),
    "phi3-grouped-window": windowed(phi3(True)),
    "starcoder2-tied-grouped-window": windowed(llama("Starcoder2", True, True, embedding_dropout=0.1, residual_dropout=0.1, attention_dropout=0.1)),
    "olmo": llama("Olmo", False, False),
    "olmo-tied": llama("Olmo", True, False),
    "falcon": falcon(),
    "bloom": bloom(KEYS),
    "bloom-power": bloom(128),
    # As opt-350m: layer norms last, embeddings narrower than the layers.
    "opt-projected": opt(word_embed_proj_dim=EMBEDDING, do_layer_norm_before=False),
    "gpt_neox": gpt_neox(),
    "opt": opt(),
    "bert-sequence": bert("BertForSequenceClassification"),
    "bert-masked": bert("BertForMaskedLM"),
    "bert-tokens": bert("BertForTokenClassification"),
    "bert-spans": bert("BertForQuestionAnswering"),
    "roberta-sequence": bert("RobertaForSequenceClassification", "Roberta"),
    "roberta-masked": bert("RobertaForMaskedLM", "Roberta"),
    "roberta-tokens": bert("RobertaForTokenClassification", "Roberta"),
    "roberta-spans": bert("RobertaForQuestionAnswering", "Roberta"),
    # Here, as in CamemBERT, the head comes before the body.
    "xlm-roberta-sequence": bert("XLMRobertaForSequenceClassification", "XLMRoberta"),
    "xlm-roberta-masked": bert("XLMRobertaForMaskedLM", "XLMRoberta"),
    "xlm-roberta-tokens": bert("XLMRobertaForTokenClassification", "XLMRoberta"),
    "xlm-roberta-spans": bert("XLMRobertaForQuestionAnswering", "XLMRoberta"),
    **{f"distilbert-{head}": distilbert(f"DistilBertFor{ending}") for head, ending in HEADS.items()},
    **{f"electra-{head}": electra(f"ElectraFor{ending}", False) for head, ending in HEADS.items()},
    **{f"electra-{head}-projected": electra(f"ElectraFor{ending}", True) for head, ending in HEADS.items()},
    **{f"deberta-v2-{head}": deberta(f"DebertaV2For{ending}") for head, ending in HEADS.items()},
    **{f"albert-{head}{drop}{kind}": albert(f"AlbertFor{ending}", not drop, activation)
       for head, ending in HEADS.items() for drop in ("", "-no-dropout")
       for kind, activation in (("", "gelu"), ("-new", "gelu_new"))},
    "gpt2": gpt2(),
    "vit": vit(),
    "t5": t5(False, True, True),
    "t5-unscaled": t5(False, False, True),
    "t5-gated": t5(True, True, True),
    "t5-gated-unscaled": t5(True, False, True),
    "t5-no-dropout": t5(False, True, False),
    "t5-unscaled-no-dropout": t5(False, False, False),
    "t5-gated-no-dropout": t5(True, True, False),
    "t5-gated-unscaled-no-dropout": t5(True, False, False),
}

# Sequences as long as the window or longer: there is a mask.
TEMPLATES |= {f"{name}-beyond": TEMPLATES[name] for name in list(TEMPLATES) if "-window" in name}

# Families with rotary positions or images, which stay in float32; all others are the same built in half precision or cast.
IN_HALF = ("llama", "mistral", "mixtral", "qwen", "phi3", "gemma", "gpt_neox", "vit", "starcoder2", "olmo", "falcon")
TEMPLATES |= {f"{name}-{short}": in_half(TEMPLATES[name], dtype)
              for name in list(TEMPLATES) if name.startswith(IN_HALF)
              for short, dtype in (("bf16", "bfloat16"), ("fp16", "float16"))}

BASES = {"llama-grouped": "llama", "llama-tied": "llama", "llama-tied-grouped": "llama-grouped", "mistral-grouped": "llama-grouped",
         "mixtral-grouped": "llama-grouped", "qwen2": "llama", "qwen2-grouped": "llama-grouped", "qwen2-tied-grouped": "qwen2-grouped",
         "qwen3-grouped": "llama-grouped", "qwen3-tied-grouped": "qwen3-grouped", "phi3": "llama", "phi3-grouped": "phi3",
         "gemma-tied": "llama-tied", "gemma-tied-grouped": "llama-tied-grouped", "gemma2-tied-grouped-window": "gemma-tied-grouped",
         "gemma3_text-tied-grouped-window": "gemma2-tied-grouped-window", "gemma3_text-tied-one-window": "gemma3_text-tied-grouped-window",
         "gemma3_text-tied-one-window-beyond": "gemma3_text-tied-grouped-window-beyond", "starcoder2-tied-grouped-window": "mistral-grouped-window",
         "olmo": "llama", "olmo-tied": "olmo", "falcon": "gpt_neox", "roberta-masked": "bert-masked", "xlm-roberta-masked": "roberta-masked",
         "electra-masked": "bert-masked", "distilbert-masked": "bert-masked", "opt-projected": "opt",
         "bloom-power": "bloom", "albert-masked": "bert-masked"}


def base(name):
    """The template from which this one differs least, as far as known; nothing for the first of its kind."""
    if name in BASES:
        return BASES[name]
    if name.endswith("-fp16"):
        return name[:-4] + "bf16"
    for ending in ("-bf16", "-beyond", "-full", "-gelu", "-new", "-window", "-projected", "-no-dropout", "-unscaled", "-gated"):
        if name.endswith(ending) and name[:-len(ending)] in TEMPLATES:
            return name[:-len(ending)]
    for head in ("sequence", "tokens", "spans"):
        if name.endswith(f"-{head}"):
            return name[:-len(head)] + "masked"
    return ""


def expression(number, numbers):
    """What a number was made of."""
    if abs(number) > 1 << 40:  # an open end
        return number
    factors, rest = [], abs(number)
    for value in sorted(numbers, reverse=True):
        while rest and rest % value == 0:
            factors.append(numbers[value])
            rest //= value
    if not factors:
        return number
    return ("-" if number < 0 else "") + "*".join([str(rest)] * (rest != 1) + factors)


def rewritten(value, numbers):
    """An integer, an expression of batch and seq, or a list of such."""
    if isinstance(value, bool) or value is None or isinstance(value, (float, dict)):
        return value
    if isinstance(value, int):
        return expression(value, numbers)
    if isinstance(value, list):
        return [rewritten(item, numbers) for item in value]
    if value.startswith("%"):
        return value
    return re.sub(r"\d+", lambda digits: str(expression(int(digits.group()), numbers)), value)


def example(kind, side, length=12):
    import torch

    if kind == "images":
        return {"pixel_values": torch.zeros(2, 3, side, side), "labels": torch.zeros(2, dtype=torch.int64)}
    tokens = torch.zeros(2, length, dtype=torch.int64)
    if kind == "pairs":
        return {"input_ids": tokens, "labels": torch.zeros(2, 10, dtype=torch.int64)}
    if kind == "spans":
        spans = {name: torch.zeros(2, dtype=torch.int64) for name in ("start_positions", "end_positions")}
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), **spans}
    if kind == "labels":
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": torch.zeros(2, dtype=torch.int64)}
    if kind == "masked":
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens.clone()}
    return {"input_ids": tokens, "labels": tokens.clone()}


def captured(architecture, config, arguments, kind, path, length=12):
    import torch
    import transformers

    import vramfit

    torch.manual_seed(0)
    with torch.device("meta"):
        model = getattr(transformers, architecture)._from_config(getattr(transformers, config)(**arguments))
    vramfit.capture(model, example(kind, arguments.get("image_size"), length), path)


def make(name, folder):
    architecture, config, arguments, numbers, kind = TEMPLATES[name]
    path = Path(folder) / f"{name}.vramfit"
    captured(architecture, config, arguments, kind, path, BEYOND if "-beyond" in name else 12)
    generalise(path, numbers)
    print(name, flush=True)


def generalise(path, numbers):
    """Writes the numbers of a capture as what they were made of."""
    contents = json.loads(gzip.decompress(path.read_bytes()))
    for section in contents["types"]:
        for row in section:
            row[1:] = [rewritten(sizes, numbers) for sizes in row[1:]]
    for section in contents["tensors"]:
        for row in section:
            row[2] = rewritten(row[2], numbers)
    functions = [function["steps"] for variant in contents["variants"] for function in variant.get("functions", [])]
    for section in contents["steps"] + functions:
        for step in section:
            if step[0] == "call":
                step[2] = rewritten(step[2], numbers)
    for row in contents["inputs"] + contents["targets"]:
        row["shape"] = rewritten(row["shape"], numbers)
    contents["symbols"] += [{"name": text, "example": value, "recorded": [value], "dims": []}
                            for value, text in numbers.items() if "(" not in text]
    path.write_bytes(gzip.compress(json.dumps(contents).encode(), mtime=0))


def pack(folder, names):
    packer = ["cargo", "run", "--quiet", "--package", "vramfit-readers", "--example", "pack", "--", str(folder), *names]
    subprocess.run(packer, check=True, cwd=ROOT)


def with_fixed_hashes():
    """Starts Python again so that it goes through sets in one order, as Gemma 3 does through its kinds of layers."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})


def main():
    with_fixed_hashes()
    names = sys.argv[1:] or list(TEMPLATES)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            make(name, folder)
            # The packer is part of the crate, which does not compile without its templates.
            (HERE / "templates" / f"{name}.packed").touch()
        pack(folder, [f"{name}@{base(name)}" for name in names])
        for name in names:
            (HERE / "templates" / f"{name}.packed").write_bytes((Path(folder) / f"{name}.packed").read_bytes())


if __name__ == "__main__":
    main()
