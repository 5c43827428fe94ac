"""Makes a configuration smaller: fewer layers, fewer experts, a smaller vocabulary. Widths stay, since meta tensors cost nothing."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

LAYERS = re.compile(
    r"^(num_(hidden_)?layers|n_layers?|num_(encoder|decoder)_layers|(encoder|decoder)_(num_)?(hidden_)?layers|depth|num_blocks|n_blocks"
    r"|num_(single|double|refiner|dit|mmdit|transformer|attention|joint)_\w*layers|num_single_layers|num_\w*_hidden_layers|\w+_n_layer"
    r"|num_\w+_blocks|decoder_depth|encoder_depth|num_stacked_\w+|n_heads_layers|speech_\w+_layers|text_\w+_layers|num_\w+_layers)$"
)
_NOT_LAYERS = re.compile(r"conv|feat|encoder_blocks|adapter|upsample|downsample|mlp|fc|prenet|postnet|linear|dense|predictor|fusion|stage|per_|mask_")
EXPERTS = re.compile(r"^(num_(local_|routed_)?experts|n_routed_experts|moe_num_experts|num_experts)$")
VOCABULARY = re.compile(r"(^|_)vocab(ulary)?_size$")
KEPT_LAYERS = 2
# Fields that a configuration derives from its number of layers.
_FOLLOWS = ("out_features", "_out_features", "stage_names", "out_indices", "_out_indices")
KEPT_VOCABULARY = 2048
# Enough for the groups and the choices of every router.
KEPT_EXPERTS = 32


def shrunk(fields: Dict[str, Any], vocabulary: bool = True) -> Dict[str, Any]:
    """The fields of a configuration with fewer layers, nested configurations included."""
    small: Dict[str, Any] = {}
    chosen = _chosen_layers(fields)
    for name, value in fields.items():
        if name in _FOLLOWS and chosen is not None:
            continue
        if isinstance(value, dict) and (name.endswith("_config") or name in ("encoder", "decoder", "generator", "text_encoder", "audio_encoder")):
            small[name] = shrunk(value, vocabulary)
        elif type(value) is int and LAYERS.match(name) and not _NOT_LAYERS.search(name) and value > KEPT_LAYERS:
            small[name] = len(chosen) if chosen is not None and value == _count(fields) else KEPT_LAYERS
        elif chosen is not None and isinstance(value, (list, tuple)) and len(value) == _count(fields) and name != "rope_scaling":
            small[name] = type(value)(value[at] for at in chosen)
        elif type(value) is int and EXPERTS.match(name) and value > KEPT_EXPERTS:
            small[name] = KEPT_EXPERTS
        elif vocabulary and type(value) is int and VOCABULARY.search(name) and value > KEPT_VOCABULARY:
            small[name] = KEPT_VOCABULARY
        else:
            small[name] = value
    if vocabulary:
        _fit_tokens(small)
    return small


def _count(fields: Dict[str, Any]) -> int:
    return next((fields[name] for name in ("num_hidden_layers", "n_layer", "num_layers", "n_layers") if type(fields.get(name)) is int), -1)


def _chosen_layers(fields: Dict[str, Any]) -> Optional[List[int]]:
    """The first layer of each kind, and at least two."""
    count = _count(fields)
    if count <= KEPT_LAYERS:
        return None
    rows = [value for value in fields.values() if isinstance(value, (list, tuple)) and len(value) == count]
    seen: Dict[str, int] = {}
    for at in range(count):
        seen.setdefault(repr([row[at] for row in rows if isinstance(row[at], (str, bool))]), at)
    chosen = sorted(seen.values())[:6]
    rest = (at for at in range(count) if at not in chosen)
    while len(chosen) < KEPT_LAYERS:
        chosen.append(next(rest))
    return sorted(chosen)


def _fit_tokens(fields: Dict[str, Any], limit: int = 0) -> None:
    """Moves the numbers of special tokens into the smaller vocabulary; different tokens stay different."""
    own = [value for name, value in fields.items() if VOCABULARY.search(name) and type(value) is int]
    limit = min(own) if own else limit or KEPT_VOCABULARY
    used = {value for name, value in fields.items() if _is_token(name) and type(value) is int and 0 <= value < limit}
    free = iter(number for number in range(limit - 1, 0, -1) if number not in used)
    for name, value in list(fields.items()):
        if _is_token(name) and type(value) is int and value >= limit:
            fields[name] = next(free)
        elif _is_token(name) and isinstance(value, list) and all(type(item) is int for item in value):
            fields[name] = [item if item < limit else next(free) for item in value]


def _is_token(name: str) -> bool:
    return name.endswith(("token_id", "token_index", "_token_ids", "token_idx", "_token", "_id_token"))
