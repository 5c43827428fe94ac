"""Every class in transformers' tables of models, with a reduced configuration."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
import transformers
from examples import BATCH, SEQUENCE, Example, floats, integers, total
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from .shrinking import shrunk

transformers.logging.set_verbosity_error()


@functools.lru_cache(maxsize=None)
def _table() -> Dict[str, str]:
    """Class names, each with the type of model that it belongs to."""
    found: Dict[str, str] = {}
    for table, entries in vars(modeling_auto).items():
        if table.endswith("_MAPPING_NAMES") and table.startswith("MODEL_"):
            for kind, classes in entries.items():
                for name in (classes,) if isinstance(classes, str) else classes:
                    if kind in CONFIG_MAPPING_NAMES:
                        found.setdefault(name, kind)
    return found


def names() -> List[str]:
    """All classes of the tables that this installation has."""
    return sorted(name for name in _table() if hasattr(transformers, name))


def _config(name: str) -> Any:
    kind = getattr(transformers, name)
    config = getattr(kind, "config_class", None)
    return config if config is not None else getattr(transformers, CONFIG_MAPPING_NAMES[_table()[name]])


def _small(kind: Any, vocabulary: bool) -> Any:
    fields = kind().to_dict()
    for name in ("transformers_version", "model_type", "_name_or_path", "architectures"):
        fields.pop(name, None)
    for name, value in _UNSET.items():
        if name in fields and fields[name] is None:
            fields[name] = value
    return _padded(kind(**shrunk(fields, vocabulary)))


# Fields that are None by default, and that the model cannot do without.
_UNSET = {"num_experts_per_tok": 2, "n_group": 1, "topk_group": 1, "n_routed_experts": 8, "head_dim": 128, "decoder_start_token_id": 0,
          "n_shared_experts": 1, "vocab_size": 1000}


def _padded(config: Any) -> Any:
    """The configuration with a padding token, which classifiers of batches need."""
    for part in _parts(config):
        if hasattr(part, "vocab_size") and getattr(part, "pad_token_id", None) is None:
            part.pad_token_id = 0
        if getattr(part, "is_encoder_decoder", False) and getattr(part, "decoder_start_token_id", None) is None:
            part.decoder_start_token_id = 0
    return config


def _configs(kind: Any) -> Iterator[Any]:
    """Smaller configurations first, the default one last."""
    for make in (lambda: _small(kind, True), lambda: _small(kind, False), _with_two_layers(kind), lambda: _padded(kind())):
        try:
            yield make()
        except Exception:  # noqa: BLE001, S112 - a check of the configuration class refused it
            continue


def _with_two_layers(kind: Any) -> Callable[[], Any]:
    def make() -> Any:
        config = kind()
        for part in (config, *(value for value in vars(config).values() if isinstance(value, transformers.PretrainedConfig))):
            for field in ("num_hidden_layers", "encoder_layers", "decoder_layers"):
                if isinstance(getattr(part, field, None), int):
                    setattr(part, field, 2)
        return _padded(config)
    return make


def examples(name: str) -> Iterator[Example]:
    """Smaller configurations with more inputs first."""
    model_class = getattr(transformers, name)
    for at, config in enumerate(_configs(_config(name))):
        for what in _choices(name, model_class, config):
            def build(config: Any = config) -> torch.nn.Module:
                return model_class(config)

            def inputs(model: torch.nn.Module, config: Any = config, what: Tuple[str, ...] = what) -> Dict[str, Any]:
                return {field: _MAKERS[field](name, config) for field in what}

            yield Example(build, inputs, total, f"configuration {at}: {' '.join(what)}")


def _choices(name: str, model_class: Any, config: Any) -> Iterator[Tuple[str, ...]]:
    """Sets of arguments to try, the likeliest first."""
    accepted = inspect.signature(model_class.forward).parameters
    required = [p.name for p in accepted.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]
    main = model_class.main_input_name
    if isinstance(main, (list, tuple)):
        main = main[0]
    base = list(dict.fromkeys([field for field in required if field in _MAKERS] + ([main] if main in accepted else [])))
    if "input_ids" in accepted and main != "input_ids" and (main.startswith("pixel") or main.startswith("input_")) and not required:
        base = [main]
    base += [field for field in ("grid_thw", "prompt_pixel_values", "prompt_masks", "qformer_input_ids") if field in accepted]
    labels = [field for field in ("labels", "start_positions", "end_positions") if field in accepted and _labels(name) is not None]
    labels = [field for field in labels if (field == "labels") != name.endswith("QuestionAnswering")]
    encoder_decoder = [field for field in ("decoder_input_ids",) if field in accepted]
    two_towers = [field for field in ("input_ids", "pixel_values", "input_features", "input_values", "bbox", "attention_mask") if field in accepted]
    tried = set()
    for more in (
        labels, encoder_decoder, two_towers[:2], [*labels, *encoder_decoder], ["attention_mask"], ["attention_mask", *labels], two_towers, [],
        [field for field in accepted if field in _EXTRAS], [field for field in accepted if field in _MAKERS and field not in _RARE],
    ):
        chosen = tuple(dict.fromkeys([*base, *(field for field in more if field in accepted)]))
        if chosen and chosen not in tried:
            tried.add(chosen)
            yield chosen


_EXTRAS = (
    "input_ids", "bbox", "pixel_values", "visual_feats", "visual_pos", "attention_mask", "token_type_ids", "past_values", "past_time_features", "past_observed_mask",
    "future_values", "future_time_features", "decoder_input_values", "decoder_input_ids", "input_points", "pixel_mask", "image_embeds",
    "pixel_values_videos", "grid_thw", "image_grid_thw",
)
_RARE = ("inputs_embeds", "decoder_inputs_embeds", "head_mask", "decoder_attention_mask", "encoder_outputs")


def _parts(config: Any) -> List[Any]:
    """The configuration and those nested in it, the text model's first."""
    nested = [value for value in vars(config).values() if isinstance(value, transformers.PretrainedConfig)]
    inner = [value for part in nested for value in vars(part).values() if isinstance(value, transformers.PretrainedConfig)]
    return [config, *nested, *inner]


def _field(config: Any, *fields: str, default: Any = None) -> Any:
    for field in fields:
        for part in _parts(config):
            value = getattr(part, field, None)
            if value is not None:
                return value
    return default


def _number(config: Any, *fields: str, default: int) -> int:
    value = _field(config, *fields, default=default)
    while isinstance(value, (list, tuple)):
        value = value[0]
    return int(value) if isinstance(value, (int, float)) else default


def _labels(name: str) -> Optional[str]:
    for ending, kind in (
        ("SequenceClassification", "class"), ("ImageClassification", "class"), ("ImageClassificationWithTeacher", "class"),
        ("VideoClassification", "class"), ("AudioClassification", "class"), ("MultipleChoice", "choice"), ("NextSentencePrediction", "class"),
        ("TokenClassification", "token class"), ("CausalLM", "token"), ("MaskedLM", "token"), ("LMHeadModel", "token"),
        ("ConditionalGeneration", "token"), ("QuestionAnswering", "position"), ("CTC", "token"), ("SpeechSeq2Seq", "token"),
    ):
        if name.endswith(ending):
            return kind
    return None


def _ids(name: str, config: Any, length: int = SEQUENCE) -> torch.Tensor:
    """Token numbers in which no special token appears."""
    special = {getattr(part, field) for part in _parts(config) for field in vars(part) if "token" in field and type(getattr(part, field)) is int}
    high = _number(config, "vocab_size", default=1000)
    usable = [number for number in range(3, min(high, 2000)) if number not in special] or [0]
    chosen = integers(len(usable), BATCH, length)
    ids = torch.tensor(usable)[chosen]
    end = _field(config, "eos_token_id")
    if name.endswith(("SequenceClassification", "QuestionAnswering")) or "clip" in name.lower():
        if type(end) is int and 0 <= end < high:
            ids[:, -1] = end
    if "MultipleChoice" in name:
        return ids[:, None].expand(BATCH, 2, length).clone()
    return ids


def _image(config: Any, frames: bool = False) -> torch.Tensor:
    side = _field(config, "image_size", default=224)
    height, width = (side[0], side[1]) if isinstance(side, (list, tuple)) else (int(side), int(side)) if isinstance(side, int) else (224, 224)
    channels = _number(config, "num_channels", "in_channels", "in_chans", default=3)
    if frames:
        return floats(BATCH, _number(config, "num_frames", "frames_per_clip", default=8), channels, height, width)
    return floats(BATCH, channels, height, width)


def _pixels(name: str, config: Any) -> torch.Tensor:
    if any(part in name for part in ("VideoMAE", "Timesformer", "Vivit", "XCLIP", "Tvp", "VJEPA")):
        return _image(config, True)
    if name.startswith(("Idefics", "SmolVLM", "Tvlt", "Aya")):
        return _image(config)[:, None]
    return _image(config)


def _wave(name: str, config: Any) -> torch.Tensor:
    if name.startswith(("AST",)):
        return floats(BATCH, _number(config, "max_length", default=1024), _number(config, "num_mel_bins", default=128))
    if name.startswith(("Encodec", "Dac", "Mimi", "XCodec", "Xcodec")):
        return floats(BATCH, _number(config, "audio_channels", default=1), 16000)
    if name.startswith("SpeechT5ForSpeechToText") or not name.startswith("SpeechT5"):
        return floats(BATCH, 16000)
    return floats(BATCH, 16000)


def _features(name: str, config: Any) -> torch.Tensor:
    bins = _number(config, "num_mel_bins", "feature_size", "input_feat_per_channel", "input_dim", "num_mel_bins", default=80)
    length = 2 * _number(config, "max_source_positions", default=100)
    if name.startswith(("Whisper", "Qwen2Audio", "Voxtral")) or "Whisper" in name:
        return floats(BATCH, bins, length)
    if name.startswith("Clap"):
        return floats(BATCH, 1, 1024, 64)
    return floats(BATCH, 128, bins)


def _label(name: str, config: Any) -> torch.Tensor:
    kind = _labels(name)
    if kind == "class":
        return integers(2, BATCH)
    if kind == "choice":
        return integers(2, BATCH)
    if kind == "token class":
        return integers(2, BATCH, SEQUENCE)
    if name.endswith("CTC"):
        return integers(20, BATCH, 8, low=1)
    return _ids(name, config)


def _time_series(field: str, config: Any) -> torch.Tensor:
    past = _number(config, "context_length", default=32) + max(_field(config, "lags_sequence", default=[0]))
    future = _number(config, "prediction_length", default=16)
    channels = _number(config, "num_input_channels", "input_size", default=1)
    width = (channels,) if hasattr(config, "num_input_channels") else () if _number(config, "input_size", default=1) == 1 else (channels,)
    length = _number(config, "context_length", default=32) if hasattr(config, "num_input_channels") else past
    if field == "past_values":
        return floats(BATCH, length, *width)
    if field == "past_observed_mask":
        return torch.ones(BATCH, length, *width)
    if field == "future_values":
        return floats(BATCH, future, *width)
    features = _number(config, "num_time_features", default=0)
    return floats(BATCH, past if field == "past_time_features" else future, features)


def _patches(config: Any) -> torch.Tensor:
    """An image of 8 by 8 patches, flattened."""
    side = _number(config, "patch_size", "spatial_patch_size", default=14)
    width = _number(config, "in_channels", "in_chans", "num_channels", default=3) * _number(config, "temporal_patch_size", default=1) * side * side
    return floats(64, width)


def _hidden(config: Any) -> int:
    return _number(config, "hidden_size", "d_model", "n_embd", "dim", default=768)


_MAKERS: Dict[str, Callable[[str, Any], Any]] = {
    "input_ids": _ids,
    "decoder_input_ids": lambda name, config: _ids("", config, SEQUENCE // 2),
    "attention_mask": lambda name, config: torch.ones(_ids(name, config).shape, dtype=torch.int64),
    "token_type_ids": lambda name, config: torch.zeros(_ids(name, config).shape, dtype=torch.int64),
    "bbox": lambda name, config: torch.zeros(BATCH, SEQUENCE, 4, dtype=torch.int64),
    "pixel_values": _pixels,
    "pixel_values_videos": lambda name, config: _image(config, True),
    "pixel_mask": lambda name, config: torch.ones(_image(config)[:, 0].shape, dtype=torch.int64),
    "input_values": _wave,
    "input_features": _features,
    "input_speech": _wave,
    "labels": _label,
    "start_positions": lambda name, config: integers(SEQUENCE, BATCH),
    "end_positions": lambda name, config: integers(SEQUENCE, BATCH),
    "inputs_embeds": lambda name, config: floats(BATCH, SEQUENCE, _hidden(config)),
    "hidden_states": lambda name, config: _patches(config) if "Vision" in name else floats(BATCH, SEQUENCE, _hidden(config)),
    "prompt_pixel_values": _pixels,
    "prompt_masks": _pixels,
    "qformer_input_ids": lambda name, config: integers(1000, BATCH, 16),
    "past_values_padding": lambda name, config: torch.zeros(BATCH, 512),
    "freq": lambda name, config: torch.zeros(BATCH, 1, dtype=torch.int64),
    "visual_feats": lambda name, config: floats(BATCH, 10, _number(config, "visual_feat_dim", default=2048)),
    "visual_pos": lambda name, config: floats(BATCH, 10, 4),
    "visual_embeds": lambda name, config: floats(BATCH, 10, _number(config, "visual_embedding_dim", default=512)),
    "past_values": lambda name, config: _time_series("past_values", config),
    "past_time_features": lambda name, config: _time_series("past_time_features", config),
    "past_observed_mask": lambda name, config: _time_series("past_observed_mask", config),
    "future_values": lambda name, config: _time_series("future_values", config),
    "future_time_features": lambda name, config: _time_series("future_time_features", config),
    "inputs": lambda name, config: _ids(name, config, 64),
    "decoder_input_values": lambda name, config: floats(BATCH, 32, _number(config, "num_mel_bins", default=80)),
    "spectrogram": lambda name, config: floats(BATCH, 32, _number(config, "model_in_dim", "num_mel_bins", default=80)),
    "input_points": lambda name, config: floats(BATCH, 1, 2, 2).abs() * 100,
    "image_embeds": lambda name, config: floats(BATCH, 16, _hidden(config)),
    "image_grid_thw": lambda name, config: torch.tensor([[1, 8, 8]]),
    "grid_thw": lambda name, config: torch.tensor([[1, 8, 8]]),
    "timestep": lambda name, config: integers(100, BATCH),
    "states": lambda name, config: floats(BATCH, 8, _number(config, "state_dim", default=17)),
    "actions": lambda name, config: floats(BATCH, 8, _number(config, "act_dim", default=4)),
    "rewards": lambda name, config: floats(BATCH, 8, 1),
    "returns_to_go": lambda name, config: floats(BATCH, 8, 1),
    "timesteps": lambda name, config: torch.arange(8).expand(BATCH, 8).clone(),
    "noise": lambda name, config: floats(BATCH, SEQUENCE, _hidden(config)),
}
