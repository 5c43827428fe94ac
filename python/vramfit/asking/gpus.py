"""Finds this machine's GPU in the catalogue."""

from __future__ import annotations

import json
from typing import Optional

from .. import binary


def known_name(name: str) -> Optional[str]:
    """The catalogue's name for a CUDA device name such as ``NVIDIA GeForce RTX 3060``; None if it has none."""
    _, text = binary.run(["catalogue", "--json"])
    wanted = _plain(name)
    for row in json.loads(text)["gpus"]:
        if any(_plain(known) == wanted for known in (row["name"], *row["aliases"])):
            return str(row["name"])
    return None


def _plain(name: str) -> str:
    return "".join(name.lower().replace("nvidia", "").replace("geforce", "").split())
