"""Finds the cuDNN that the running interpreter's torch would load, without importing torch."""

from __future__ import annotations

import importlib.util
import os
from typing import Optional

VARIABLE = "VRAMFIT_CUDNN"
_LIBRARY = "libcudnn.so.9"


def own_library() -> Optional[str]:
    """The library of the ``nvidia-cudnn`` wheel, else that of torch itself; None if there is neither, or if the variable
    ``VRAMFIT_CUDNN`` says which one to ask."""
    if os.environ.get(VARIABLE):
        return None
    for package in ("nvidia.cudnn", "torch"):
        try:
            spec = importlib.util.find_spec(package)
        except (ImportError, ValueError):
            continue
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            path = os.path.join(folder, "lib", _LIBRARY)
            if os.path.isfile(path):
                return path
    return None
