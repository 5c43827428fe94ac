"""vramfit in Python: will a PyTorch training fit on a GPU, where does the memory go, and what makes it fit.

``estimate`` and ``plan`` capture a live ``torch.nn.Module``, without its weights and without a GPU, and call the ``vramfit``
binary. ``Plan.apply`` applies a plan to a live model. ``watch`` records a training loop on a GPU. torch is imported only to
capture a model, so the command can be installed without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .answers.estimate import Estimate
    from .answers.explanation import Explanation
    from .answers.plan import Plan, Plans
    from .applying.applied import Applied
    from .asking.questions import estimate, max_batch, plan
    from .binary import find_binary
    from .capturing import Capture, capture
    from .errors import BinaryNotFound, CaptureError, PlanError, SettingError, VramfitError
    from .watching import Watched, watch

# No module may have the name of one of these functions: importing it would replace the function.
_PLACES = {
    "Applied": "applying.applied", "BinaryNotFound": "errors", "Capture": "capturing", "CaptureError": "errors",
    "Estimate": "answers.estimate", "Explanation": "answers.explanation", "Plan": "answers.plan", "PlanError": "errors",
    "Plans": "answers.plan", "SettingError": "errors", "VramfitError": "errors", "Watched": "watching", "capture": "capturing",
    "estimate": "asking.questions", "find_binary": "binary", "max_batch": "asking.questions", "plan": "asking.questions",
    "watch": "watching",
}

__all__ = [
    "Applied", "BinaryNotFound", "Capture", "CaptureError", "Estimate", "Explanation", "Plan", "PlanError", "Plans", "SettingError",
    "VramfitError", "Watched", "capture", "estimate", "find_binary", "max_batch", "plan", "watch",
]


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{place}")
    except ModuleNotFoundError as problem:
        if problem.name != "torch":
            raise
        raise ModuleNotFoundError(f"{__name__}.{name} runs a model's forward and needs torch: pip install torch", name="torch") from None
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
