"""All of torchvision's models."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List

import torch
import torchvision
from examples import BATCH, Example, floats, integers, total


def names() -> List[str]:
    """Every registered model."""
    return list(torchvision.models.list_models())


def examples(name: str) -> Iterator[Example]:
    """The model with random weights and inputs of the kind its task needs."""
    module = torchvision.models.get_model_builder(name).__module__

    def build() -> torch.nn.Module:
        options: Dict[str, Any] = {"weights": None}
        if "detection" in module or "segmentation" in module:
            options["weights_backbone"] = None
        return torchvision.models.get_model(name, **options)

    yield Example(build, lambda _: _inputs(name, module), total)


def _inputs(name: str, module: str) -> Any:
    if "detection" in module:
        side = 320
        images = [floats(3, side, side) for _ in range(BATCH)]
        targets = []
        for _ in images:
            corner = integers(100, 3, 2).float()
            target = {"boxes": torch.cat([corner, corner + 60], 1), "labels": integers(80, 3, low=1)}
            if "mask" in name:
                target["masks"] = torch.ones(3, side, side, dtype=torch.uint8)
            if "keypoint" in name:
                target["keypoints"] = torch.cat([floats(3, 17, 2).abs() * 20 + 100, torch.ones(3, 17, 1)], -1)
                target["labels"] = torch.ones(3, dtype=torch.int64)
            targets.append(target)
        return images, targets
    if "optical_flow" in module:
        return floats(BATCH, 3, 128, 128), floats(BATCH, 3, 128, 128)
    if ".video" in module:
        frames, side = (16, 224) if name.startswith(("mvit", "swin")) else (16, 112)
        return (floats(BATCH, 3, 32 if name.startswith("s3d") else frames, 224 if name.startswith("s3d") else side, 224 if name.startswith("s3d") else side),)
    side = {"inception_v3": 299, "quantized_inception_v3": 299, "vit_h_14": 224}.get(name, 224)
    return (floats(BATCH, 3, side, side),)
