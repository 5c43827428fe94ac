"""The answer of ``vramfit.estimate``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .fields import VERDICTS, Fit, Range
from .html import bars, note_list, page
from .question import Question
from .units import human


@dataclass(frozen=True)
class Peak:
    """The instant with the most memory allocated."""

    step: Optional[int]
    phase: str
    module: Optional[str]
    op: Optional[str]


@dataclass(frozen=True)
class Breakdown:
    """What is allocated at the peak, in bytes; the parts sum to ``Estimate.peak_allocated``."""

    parameters: int = 0
    gradients: int = 0
    optimizer: int = 0
    activations: int = 0
    inputs: int = 0
    outputs: int = 0
    temporary: int = 0
    workspace: int = 0
    rounding: int = 0
    communication: int = 0

    def items(self) -> List[Tuple[str, int]]:
        """Names and bytes, largest first."""
        return sorted(((name, size) for name, size in vars(self).items() if size), key=lambda item: -item[1])


@dataclass(frozen=True)
class Phase:
    """One phase of a step: bytes at its end, and its peak."""

    step: Optional[int]
    phase: str
    allocated: int
    peak: int
    reserved: int
    micro: Optional[int] = None


@dataclass(frozen=True)
class Holder:
    """A tensor or buffer that holds memory at the peak."""

    bytes: int
    blocks: int
    category: str
    module: Optional[str]
    op: Optional[str]
    source: Optional[str]


@dataclass(frozen=True)
class Cudnn:
    """The installed cuDNN that was asked for the workspaces of convolutions."""

    version: Optional[str]
    library: str
    asked: int
    unanswered: int
    failure: Optional[str]

    @staticmethod
    def of(raw: Optional[Mapping[str, Any]]) -> "Optional[Cudnn]":
        """From the binary's JSON; None if none was asked."""
        if raw is None:
            return None
        return Cudnn(raw["version"], raw["library"], raw["asked"], raw["unanswered"], raw["failure"])


@dataclass(frozen=True, repr=False)
class Estimate:
    """What a training run will allocate and reserve. Sizes are bytes.

    If it runs out of memory, the sizes are what it would need; ``fit`` says how much is missing and where it dies.
    """

    model: str
    settings: Mapping[str, Any]
    parameters: int
    peak_allocated: int
    peak_reserved: int
    device_used: int
    peak: Optional[Peak]
    breakdown: Breakdown
    phases: Tuple[Phase, ...]
    exact: bool
    unmodelled: Tuple[str, ...]
    range: Range
    reserved_range: Range
    fit: Optional[Fit]
    holders: Tuple[Holder, ...]
    notes: Tuple[str, ...]
    cudnn: Optional[Cudnn]
    parallel: Optional[Mapping[str, Any]]
    """How the training is spread over GPUs, as in the JSON: ``how``, ``world``, ``replicas``, ``shards``, ``global_batch``; None on one GPU."""
    communication: Optional[Mapping[str, Any]]
    """What the ranks send each other: ``buffers``, ``sent``, ``nccl``; None on one GPU."""
    all_ranks: Optional[Mapping[str, Any]]
    """All GPUs together: ``world``, ``batch``, ``peak_reserved``, ``sent``; None on one GPU."""
    raw: Mapping[str, Any] = field(compare=False)
    question: Question = field(compare=False)

    @staticmethod
    def of(raw: Dict[str, Any], question: Question, causes: Tuple[str, ...] = (), name: Optional[str] = None) -> "Estimate":
        """From the binary's JSON. ``causes`` are additional reasons, found in Python, why the answer is not exact."""
        peak = raw["peak"]
        known = set(Breakdown.__dataclass_fields__)
        return Estimate(
            model=name or raw["model"], settings=raw["settings"], parameters=raw["parameters"], peak_allocated=raw["peak_allocated"],
            peak_reserved=raw["peak_reserved"], device_used=raw["device_used"],
            peak=None if peak is None else Peak(peak["step"], peak["phase"], peak["module"], peak["op"]),
            breakdown=Breakdown(**{part: size for part, size in raw["breakdown"].items() if part in known}),
            phases=tuple(
                Phase(row["step"], row["phase"], row["allocated"], row["peak"], row["reserved"], row.get("micro")) for row in raw["phases"]
            ),
            exact=raw["exact"] and not causes, unmodelled=tuple(map(str, raw["unmodelled"])) + causes,
            range=Range(raw["range"]["low"], raw["range"]["high"]),
            reserved_range=Range(raw["reserved_range"]["low"], raw["reserved_range"]["high"]), fit=Fit.of(raw["fit"]),
            holders=tuple(
                Holder(row["bytes"], row["blocks"], row["category"], row["module"], row["op"], row["source"]) for row in raw.get("holders", ())
            ),
            notes=tuple(raw.get("notes", ())), cudnn=Cudnn.of(raw.get("cudnn")), parallel=raw.get("parallel"),
            communication=raw.get("communication"), all_ranks=raw.get("all_ranks"), raw=raw, question=question,
        )

    @property
    def fits(self) -> Optional[bool]:
        """Whether it certainly fits; None if no capacity was given (``gpu=`` or ``vram=``)."""
        return None if self.fit is None else self.fit.verdict == "fits"

    @property
    def verdict(self) -> str:
        """The verdict with the three peaks, in one line."""
        peak = f"{human(self.peak_allocated)} allocated, {human(self.peak_reserved)} reserved, {human(self.device_used)} on the device"
        if self.fit is None or self.fit.capacity is None:
            return peak
        misfit = f"{self.fit.misfit}; " if self.fit.misfit else ""
        return f"{VERDICTS[self.fit.verdict]} in {self.fit.room}{f' of {self.fit.gpu}' if self.fit.gpu else ''}: {misfit}{peak}"

    def text(self) -> str:
        """The text that ``vramfit estimate`` prints."""
        return self.question.text()

    def html(self, path: Any) -> str:
        """Writes the HTML page of ``vramfit estimate --html`` and returns its path."""
        return self.question.html(path)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {human(size)}" for name, size in self.breakdown.items()[:4])
        lines = [f"Estimate of {self.model}: {self.verdict}"]
        if self.peak is not None:
            at = f" of {self.peak.module}" if self.peak.module else ""
            step = "" if self.peak.step is None else f" in step {self.peak.step + 1}"
            lines.append(f"  peak{step}, {self.peak.phase}{at}: {parts}")
        lines.append(f"  {self._certainty()}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _certainty(self) -> str:
        if self.exact:
            return "exact"
        reason = "".join(f"; {cause}" for cause in [*self.unmodelled, *self.raw.get("guessed", ())])
        if self.range.low == self.range.high:
            return f"not exact{reason or ': see the notes'}"
        low, high = human(self.range.low), human(self.range.high)
        if low == high:
            return f"{low} allocated, give or take {human(self.range.high - self.range.low)}{reason}"
        return f"between {low} and {high} allocated{reason}"

    def _device_parts(self) -> Dict[str, int]:
        """What the device's memory is made of at the peak, as the calculator shows it."""
        parts = {**dict(self.breakdown.items()), "cached": max(0, self.peak_reserved - self.peak_allocated)}
        # A cap limits what PyTorch reserves; the context is beyond it.
        if self.fit is not None and self.fit.gpu is not None and self.settings["vram"] is None:
            parts["context"] = self.raw["context"]
        return parts

    def _repr_html_(self) -> str:
        verdict = self.fit.verdict if self.fit is not None else None
        where = "" if self.peak is None else f"{self.peak.phase}{f' of {self.peak.module}' if self.peak.module else ''}"
        return page(
            f"{self.model}: {self.verdict}", verdict, bars(self._device_parts(), self.fit.capacity if self.fit is not None else None),
            note_list([f"peak: {where}" if where else "", self._certainty(), *self.notes]),
        )
