"""The answer of ``vramfit explain``: what a recorded run did with its memory."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .. import binary
from .html import note_list, page, table
from .units import human


@dataclass(frozen=True)
class Finding:
    """One finding about the run. ``kind`` is ``leak``, ``oom``, ``fragmentation``, ``graph-kept`` or ``spike``."""

    kind: str
    bytes: int
    per_step: Optional[int]
    where: Optional[str]
    advice: str
    title: str
    facts: Tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Explanation:
    """The findings in a recorded run. Sizes are bytes."""

    peak: Mapping[str, Any]
    steps: Mapping[str, Any]
    findings: Tuple[Finding, ...]
    text: str
    raw: Mapping[str, Any] = field(compare=False)

    @staticmethod
    def of_snapshot(path: Any, *, vram: Optional[int] = None, html: Optional[Any] = None, device: Optional[int] = None) -> "Explanation":
        """Explains a file written by ``torch.cuda.memory._dump_snapshot``. ``html`` is the path of a page to write."""
        import json

        flags: List[str] = [] if vram is None else ["--vram", f"{vram}B"]
        flags += [] if device is None else ["--device", str(device)]
        page_flags = [] if html is None else ["--html", os.fspath(html)]
        _, text = binary.run(["explain", *flags, "--no-color", "--", os.fspath(path)])
        _, answer = binary.run(["explain", *flags, *page_flags, "--json", "--", os.fspath(path)])
        raw: Dict[str, Any] = json.loads(answer)
        findings = tuple(
            Finding(row["kind"], row["bytes"], row.get("per_step"), row.get("where"), row["advice"], row.get("title", row["kind"]), tuple(row.get("facts", ())))
            for row in raw["findings"]
        )
        return Explanation(raw["peak"], raw.get("steps", {}), findings, text, raw)

    @property
    def oom(self) -> Optional[Finding]:
        """The out-of-memory error, if there was one."""
        return next((finding for finding in self.findings if finding.kind == "oom"), None)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows = [(finding.kind, finding.title, finding.where or "") for finding in self.findings]
        title = f"peak {human(self.peak['allocated'])} allocated, {human(self.peak['reserved'])} reserved"
        advice = [f"{finding.kind}: {finding.advice}" for finding in self.findings if finding.advice]
        return page(title, "does-not-fit" if self.oom else None, table(rows) if rows else "", note_list(advice))
