"""The models of diffusers (UNets, transformers, autoencoders, control networks) with fewer layers."""

from __future__ import annotations

import inspect
import itertools
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import diffusers
import torch
from examples import BATCH, Example, floats, integers, total

from .shrinking import shrunk

TEXT = 16
FRAMES = 5
# Wrappers around other models, and parts that have no forward of their own.
_NOT_MODELS = ("ModelMixin", "MotionAdapter", "ControlNetXSAdapter", "AutoModel", "CacheMixin")


def names() -> List[str]:
    """All model classes that can be built from their own defaults."""
    found = []
    for name in diffusers._import_structure["models"]:
        kind = getattr(diffusers, name, None)
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module) and name not in _NOT_MODELS and "Multi" not in name:
            found.append(name)
    return sorted(found)


# Arguments without a default.
_REQUIRED: Dict[str, Dict[str, Any]] = {
    "AutoencoderKLHunyuanImage": dict(
        in_channels=3, out_channels=3, latent_channels=64, block_out_channels=(128, 256, 512), layers_per_block=2,
        spatial_compression_ratio=4, sample_size=64,
    ),
    "Transformer2DModel": dict(in_channels=32, num_layers=2),
    "TransformerTemporalModel": dict(in_channels=32, num_layers=2),
    "UNet1DModel": dict(extra_in_channels=16),
}
_FRAMES_FIRST = ("CogVideoX", "ConsisID", "UNetSpatioTemporal")


def _arguments(kind: Any, small: bool) -> Dict[str, Any]:
    given = {
        name: parameter.default for name, parameter in inspect.signature(kind.__init__).parameters.items()
        if name not in ("self", "args", "kwargs") and parameter.default is not parameter.empty
    }
    changed = {name: value for name, value in shrunk(given).items() if value != given[name]} if small else {}
    return {**changed, **_REQUIRED.get(kind.__name__, {})}


def examples(name: str) -> Iterator[Example]:
    """Fewer layers first; for each, the shapes that latents of this kind have."""
    kind = getattr(diffusers, name)
    for small in (True, False):
        arguments = _arguments(kind, small)
        for rank, optional in itertools.product(_ranks(name), (True, False)):
            def build(arguments: Dict[str, Any] = arguments) -> torch.nn.Module:
                return kind(**arguments)

            def inputs(model: torch.nn.Module, rank: str = rank, optional: bool = optional) -> Dict[str, Any]:
                return _inputs(name, model, rank, optional)

            yield Example(build, inputs, total, f"{'fewer layers' if small and arguments else 'defaults'}, latents {rank}")
        if not arguments:
            return


def _ranks(name: str) -> Tuple[str, ...]:
    if "1D" in name or "Audio" in name or "Oobleck" in name or "Music" in name or "SAME" in name:
        return ("tokens", "sound", "image")
    if any(part in name for part in ("Video", "3D", "Wan", "Motion", "Allegro", "Cosmos", "Mochi", "Magvit", "I2V", "Temporal")):
        return ("video", "frames", "tokens", "image")
    return ("image", "tokens", "video")


def _field(model: Any, *fields: str, default: Any) -> Any:
    for field in fields:
        value = getattr(model.config, field, None)
        while isinstance(value, (list, tuple)) and value:
            value = value[0]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return int(value)
    return default


def _latents(name: str, model: Any, rank: str) -> torch.Tensor:
    channels = _field(model, "in_channels", "input_channels", "audio_channels", "num_channels", "io_channels", "latent_channels", default=3)
    side = _field(model, "sample_size", "sample_height", "input_size", default=32)
    side = side if 16 <= side <= 128 else 32
    side = 64 if name.startswith(("Auto", "VQ", "Consistency", "Asymmetric")) else side
    if rank == "image":
        return floats(BATCH, channels, side, side)
    if rank == "tokens":
        return floats(BATCH, 64, channels)
    if rank == "sound":
        return floats(BATCH, channels, 4096)
    shape = (BATCH, FRAMES, channels, side, side) if (rank == "frames") != name.startswith(_FRAMES_FIRST) else (BATCH, channels, FRAMES, side, side)
    return floats(*shape)


def _text_width(model: Any, *first: str) -> int:
    return _field(
        model, *first, "joint_attention_dim", "cross_attention_dim", "caption_channels", "caption_projection_dim", "text_embed_dim", "text_dim",
        "encoder_hid_dim", "text_states_dim", "in_channels_text", "cap_feat_dim", "text_in_dim", "encoder_hidden_size", "context_in_dim", "hidden_size", default=768,
    )


def _inputs(name: str, model: Any, rank: str, optional: bool) -> Dict[str, Any]:
    """Values for the arguments of ``forward``: all that are required, and optional ones that are known."""
    given: Dict[str, Any] = {}
    for field, parameter in inspect.signature(model.forward).parameters.items():
        needed = parameter.default is parameter.empty
        if not needed and not (optional and field in _OPTIONAL):
            continue
        make = _MAKERS.get(field)
        if make is not None:
            value = make(name, model, rank)
            if value is not None:
                given[field] = value
        elif needed and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            raise ValueError(f"the sweep has no value for the argument {field}")
    return given


_OPTIONAL = (
    "encoder_hidden_states", "timestep", "pooled_projections", "img_ids", "txt_ids", "encoder_hidden_states_t5", "text_embedding_mask",
    "text_embedding_mask_t5", "class_labels", "image_rotary_emb", "encoder_attention_mask", "img_shapes", "encoder_hidden_states_mask", "added_cond_kwargs",
    "num_frames", "height", "width", "guidance", "global_hidden_states", "text_encoder_layers", "encoder_hidden_states_2", "encoder_attention_mask_2",
    "image_embeds", "image_meta_size", "style", "padding_mask", "condition_mask", "fps", "rotary_embedding",
)


def _control(name: str, model: Any, rank: str) -> torch.Tensor:
    latents = _latents(name, model, rank)
    if "conditioning_channels" in model.config and rank == "image" and hasattr(model, "controlnet_cond_embedding"):
        return floats(BATCH, _field(model, "conditioning_channels", default=3), latents.shape[-1] * 8, latents.shape[-1] * 8)
    return latents


def _guidance(name: str, model: Any, rank: str) -> Optional[torch.Tensor]:
    return floats(BATCH) if getattr(model.config, "guidance_embeds", False) else None


def _ids(name: str, model: Any, rank: str, count: int) -> torch.Tensor:
    axes = getattr(model.config, "axes_dims_rope", None) or getattr(model.config, "axes_dim", None) or (16, 56, 56)
    return torch.zeros(count, len(axes))


def _classes(name: str, model: Any, rank: str) -> Optional[torch.Tensor]:
    wanted = _field(model, "num_class_embeds", "num_embeds_ada_norm", default=0)
    return integers(wanted, BATCH) if wanted and not name.startswith("PixArt") else None


def _rotary(name: str, model: Any, rank: str) -> Any:
    if not name.startswith("HunyuanDiT"):
        return None
    width = _field(model, "attention_head_dim", default=88)
    latents = _latents(name, model, rank)
    count = (latents.shape[-1] // _field(model, "patch_size", default=2)) ** 2
    return floats(count, width), floats(count, width)


_MAKERS: Dict[str, Callable[[str, Any, str], Any]] = {
    "sample": _latents, "hidden_states": _latents, "x": _latents, "latents": _latents, "z": _latents, "context_latents": _latents,
    "image_latents": _latents, "mel": _latents,
    "timestep": lambda name, model, rank: integers(1000, BATCH),
    "timesteps": lambda name, model, rank: integers(1000, BATCH),
    "timestep_r": lambda name, model, rank: integers(1000, BATCH),
    "r_timestep": lambda name, model, rank: integers(1000, BATCH),
    "timestep_ratio": lambda name, model, rank: floats(BATCH).abs(),
    "t": lambda name, model, rank: floats(BATCH).abs(),
    "encoder_hidden_states": lambda name, model, rank: floats(BATCH, TEXT, _text_width(model)),
    "encoder_hidden_states_t5": lambda name, model, rank: floats(BATCH, TEXT, _text_width(model, "cross_attention_dim_t5", "text_embed_dim_t5")),
    "encoder_hidden_states_2": lambda name, model, rank: floats(BATCH, TEXT, _text_width(model, "text_embed_2_dim")),
    "encoder_attention_mask": lambda name, model, rank: torch.ones(BATCH, TEXT, dtype=torch.bool if "Hunyuan" in name else torch.int64),
    "encoder_attention_mask_2": lambda name, model, rank: torch.ones(BATCH, TEXT, dtype=torch.bool),
    "encoder_mask": lambda name, model, rank: torch.ones(BATCH, TEXT, dtype=torch.int64),
    "encoder_hidden_states_mask": lambda name, model, rank: torch.ones(BATCH, TEXT, dtype=torch.int64),
    "text_embedding_mask": lambda name, model, rank: torch.ones(BATCH, TEXT, dtype=torch.int64),
    "text_embedding_mask_t5": lambda name, model, rank: torch.ones(BATCH, TEXT, dtype=torch.int64),
    "pooled_projections": lambda name, model, rank: floats(BATCH, _field(model, "pooled_projection_dim", "text_embed_2_dim", "in_text_dim2", default=768)),
    "img_ids": lambda name, model, rank: _ids(name, model, rank, 64),
    "txt_ids": lambda name, model, rank: _ids(name, model, rank, TEXT),
    "guidance": _guidance,
    "class_labels": _classes,
    "controlnet_cond": _control,
    "image_rotary_emb": _rotary,
    "img_shapes": lambda name, model, rank: [[(1, 8, 8)]] * BATCH,
    "num_frames": lambda name, model, rank: 1 if name.startswith("Auto") else 4,
    "height": lambda name, model, rank: 4,
    "width": lambda name, model, rank: 4,
    "original_size": lambda name, model, rank: torch.tensor([[32, 32]] * BATCH),
    "target_size": lambda name, model, rank: torch.tensor([[32, 32]] * BATCH),
    "crop_coords": lambda name, model, rank: torch.tensor([[0, 0]] * BATCH),
    "added_time_ids": lambda name, model, rank: floats(BATCH, 3),
    "added_cond_kwargs": lambda name, model, rank: {"resolution": None, "aspect_ratio": None},
    "global_hidden_states": lambda name, model, rank: floats(BATCH, 1, _field(model, "global_states_input_dim", default=1536)),
    "proj_embedding": lambda name, model, rank: floats(BATCH, _field(model, "embedding_dim", default=768)),
    "clip_text_pooled": lambda name, model, rank: floats(BATCH, 1, _field(model, "clip_text_pooled_in_channels", default=1280)),
    "fps": lambda name, model, rank: torch.full((BATCH,), 8) if name.startswith("I2V") else None,
    "image_embeddings": lambda name, model, rank: floats(BATCH, _field(model, "cross_attention_dim", default=1024)),
    "image_meta_size": lambda name, model, rank: floats(BATCH, 6),
    "style": lambda name, model, rank: torch.zeros(BATCH, dtype=torch.int64),
    "padding_mask": lambda name, model, rank: torch.zeros(1, 1, 32, 32) if "Cosmos" in name else torch.ones(BATCH, 64, dtype=torch.bool),
    "input_ids": lambda name, model, rank: integers(100, BATCH, 16, 16),
    "pooled_text_emb": lambda name, model, rank: floats(BATCH, _field(model, "cond_embed_dim", default=768)),
    "micro_conds": lambda name, model, rank: floats(BATCH, 5),
    "inputs_embeds": lambda name, model, rank: floats(BATCH, TEXT, _field(model, "hidden_size", "dim", default=768)),
    "source_hidden_states": lambda name, model, rank: floats(BATCH, TEXT, _text_width(model, "source_dim")),
    "target_input_ids": lambda name, model, rank: integers(100, BATCH, TEXT),
}
