"""What every integration does with an estimate: logs it, and stops a training that cannot fit if asked to."""

from __future__ import annotations

import logging
from typing import Any, Dict, Optional

from ..answers.estimate import Estimate
from ..answers.units import human
from ..errors import VramfitError

logger = logging.getLogger("vramfit")
ACTIONS = ("warn", "raise")


class DoesNotFit(VramfitError):
    """The training was stopped before its first step: it would have run out of memory."""


def check_action(action: str) -> str:
    """Checks the value of ``on_misfit``."""
    if action not in ACTIONS:
        raise VramfitError(f"on_misfit: found {action!r}, needed one of {', '.join(map(repr, ACTIONS))}")
    return action


def device_settings(settings: Dict[str, Any]) -> Dict[str, Any]:
    """The settings, with this machine's GPU unless they give a GPU or a size."""
    if settings.get("gpu") or settings.get("vram"):
        return settings
    import torch

    if not torch.cuda.is_available():
        return settings
    from ..asking.gpus import known_name

    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    name = known_name(properties.name)
    fraction = torch.cuda.get_per_process_memory_fraction()
    if name is None or fraction < 1:
        settings = dict(settings, vram=int(properties.total_memory * fraction))
    return settings if name is None else dict(settings, gpu=name)


def report(estimate: Estimate, action: str) -> None:
    """Logs the estimate; raises if it does not fit and ``action`` is ``"raise"``."""
    logger.info("%r", estimate)
    if estimate.fits is not False:
        return
    text = f"{estimate.model} {estimate.verdict}"
    if action == "raise" and estimate.fit is not None and estimate.fit.verdict == "does-not-fit":
        raise DoesNotFit(text, "vramfit.plan finds the cheapest change that makes it fit")
    logger.warning("%s; vramfit.plan finds the cheapest change that makes it fit", text)


def compare(estimate: Optional[Estimate]) -> Optional[str]:
    """The peaks measured since the process began, compared with the estimate; None without a GPU."""
    import torch

    if estimate is None or not torch.cuda.is_available():
        return None
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    text = (
        f"at most {human(allocated)} allocated, {human(reserved)} reserved; expected {human(estimate.peak_allocated)} and {human(estimate.peak_reserved)}"
    )
    logger.info("%s", text)
    return text
