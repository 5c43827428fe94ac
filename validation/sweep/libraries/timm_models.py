"""One model of each family of timm: the smallest."""

from __future__ import annotations

from typing import Iterator, List

import timm
import torch
from examples import BATCH, Example, floats, total


def names() -> List[str]:
    """Every family that has models."""
    return [family for family in timm.list_modules() if timm.list_models(module=family)]


def examples(name: str) -> Iterator[Example]:
    """The smallest models of the family."""
    sizes = []
    for model in timm.list_models(module=name)[:40]:
        try:
            with torch.device("meta"):
                sizes.append((sum(weight.numel() for weight in timm.create_model(model).parameters()), model))
        except Exception:  # noqa: BLE001 - reads values in its constructor, or needs another package
            sizes.append((1 << 60, model))
    for _, model in sorted(sizes)[:2]:
        def build(model: str = model) -> torch.nn.Module:
            return timm.create_model(model)

        def inputs(built: torch.nn.Module) -> "tuple[torch.Tensor]":
            return (floats(BATCH, *built.default_cfg.get("input_size", (3, 224, 224))),)

        yield Example(build, inputs, total, model)
