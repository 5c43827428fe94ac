"""The answer of ``vramfit.plan``: plans that fit, cheapest first, and what each of them changes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from .fields import VERDICTS, Fit
from .html import folded, note_list, page, table
from .question import Question
from .units import human

if TYPE_CHECKING:
    import torch

    from ..applying.applied import Applied

EFFECTS = {"none": "without effect on the training", "rounding": "with another rounding", "training": "with another training"}


@dataclass(frozen=True)
class Change:
    """One trick of a plan. ``saving`` is in reserved bytes; ``slowdown`` is the cost of this trick alone."""

    trick: str
    before: str
    after: str
    saving: int
    slowdown: float
    effect: str
    warning: Optional[str]
    split_cause: Optional[Mapping[str, Any]] = None
    """Why micro-batches may not add up to the batch that they are parts of: ``kind``, ``operator``, ``source``."""


@dataclass(frozen=True)
class Parts:
    """The changes that a plan makes to a model, by module names. The tricks in ``applying/tricks`` read them."""

    checkpointed: Tuple[str, ...]
    segments: Optional[int]
    in_place: Tuple[str, ...]
    dtype: Optional[str]
    amp: Optional[str]
    loss: str
    adds_losses: bool = False
    is_every_block: bool = False
    kept_operators: Tuple[str, ...] = ()
    replaced_loss: Optional[Mapping[str, Any]] = None

    @staticmethod
    def of(raw: Mapping[str, Any]) -> "Parts":
        """From the binary's JSON; keys of a newer binary are left out."""
        known = {field.name: raw[field.name] for field in fields(Parts) if field.name in raw}
        values: Dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in known.items()}
        return Parts(**values)


@dataclass(frozen=True, repr=False)
class Plan:
    """A set of changes that makes the training fit. Sizes are bytes; ``slowdown`` is relative to the given settings.

    ``effect`` is ``none``, ``rounding`` or ``training``: how the changes affect the result of the training. ``risk`` is the group
    that the plan is in: ``none``, ``mixed-precision``, ``weight-state``, ``smaller-dtype`` or ``smaller-training``.
    """

    settings: Mapping[str, Any]
    changes: Tuple[Change, ...]
    peak_allocated: int
    peak_reserved: int
    device_used: int
    slowdown: float
    effect: str
    risk: str
    why: Optional[str]
    code: str
    parts: Parts
    accelerate: Optional[str]
    """The file for ``accelerate launch --config_file`` that spreads it in the same way; None on one GPU, and where ``no_accelerate`` says why."""
    no_accelerate: Optional[str]
    """Why there is no file for Accelerate; None on one GPU, and where there is one."""
    deepspeed: Optional[str]
    """The ``ds_config.json`` that the code reads; None without DeepSpeed."""
    all_ranks: Optional[Mapping[str, Any]]
    """All GPUs together: ``world``, ``batch``, ``peak_reserved``, ``sent``; None on one GPU."""
    raw: Mapping[str, Any] = field(compare=False)
    loss: Optional[Callable[..., Any]] = field(default=None, compare=False)

    @staticmethod
    def of(raw: Dict[str, Any], loss: Optional[Callable[..., Any]]) -> "Plan":
        """From the binary's JSON, for a plan or for the starting settings, which change nothing."""
        return Plan(
            settings=raw["settings"],
            changes=tuple(
                Change(row["trick"], row["before"], row["after"], row["saving"], row["slowdown"], row["effect"], row["warning"], row.get("split_cause"))
                for row in raw.get("changes", ())
            ),
            peak_allocated=raw["peak_allocated"], peak_reserved=raw["peak_reserved"], device_used=raw["device_used"],
            slowdown=raw.get("slowdown", 1.0), effect=raw.get("effect", "none"), risk=raw.get("group", "none"), why=raw.get("why"), code=raw["code"],
            parts=Parts.of(raw["parts"]),
            accelerate=raw.get("accelerate"), no_accelerate=raw.get("no_accelerate"), deepspeed=raw.get("deepspeed"), all_ranks=raw.get("all_ranks"), raw=raw, loss=loss,
        )

    def apply(
        self, model: "torch.nn.Module", optimizer: "Union[torch.optim.Optimizer, Callable[..., Any], None]" = None, *,
        loss: Optional[Callable[..., Any]] = None,
    ) -> "Applied":
        """Applies the plan to this model and optimizer; ``Applied.undo()`` reverts it.

        Without an optimizer, one is created with its library's default arguments, as in the printed code. A plan that updates
        weights in the backward pass or on the CPU divides the given one, whose state and options stay in use; it also takes a
        function of weights that creates one. ``loss(outputs, targets)`` is
        the loss that the plan was made with, unless another is given.
        """
        from ..applying.applied import Applied

        return Applied(self, model, optimizer, loss or self.loss)

    @property
    def title(self) -> str:
        """The memory it needs and what it costs, in one line."""
        return f"{human(self.peak_reserved)} reserved, ×{self.slowdown:.2f} the time of a step, {EFFECTS[self.effect]}"

    def __repr__(self) -> str:
        lines = [f"Plan: {self.title}"]
        for change in self.changes:
            lines.append(f"  {change.trick}: {change.after}")
            if change.warning:
                lines.append(f"    note: {change.warning}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(change.after, human(change.saving), f"×{change.slowdown:.2f}") for change in self.changes]
        warnings = [f"note: {change.warning}" for change in self.changes if change.warning]
        return page(self.title, "fits", table(rows, ("change", "saves", "time")), note_list([self.why or "", *warnings]), folded("code", self.code))


@dataclass(frozen=True, repr=False)
class Plans:
    """All plans found, group by group, the smallest risk first; empty if nothing fits."""

    model: str
    max_batch: Optional[int]
    plans: Tuple[Plan, ...]
    start: Plan
    fit: Optional[Fit]
    notes: Tuple[str, ...]
    unmodelled: Tuple[str, ...]
    nothing_fits: Optional[Mapping[str, Any]]
    tricks: Tuple[Mapping[str, Any], ...]
    raw: Mapping[str, Any] = field(compare=False)
    question: Question = field(compare=False)

    @staticmethod
    def of(
        raw: Dict[str, Any], question: Question, causes: Tuple[str, ...], name: str, loss: Optional[Callable[..., Any]],
    ) -> "Plans":
        """From the binary's JSON."""
        return Plans(
            model=name, max_batch=raw["max_batch"], plans=tuple(Plan.of(row, loss) for row in raw["plans"]), start=Plan.of(raw["start"], loss),
            fit=Fit.of(raw["fit"]), notes=tuple(raw.get("notes", ())), unmodelled=causes, nothing_fits=raw.get("nothing_fits"),
            tricks=tuple(raw.get("tricks", ())), raw=raw, question=question,
        )

    @property
    def fits(self) -> bool:
        """Whether some plan fits."""
        return bool(self.plans)

    @property
    def best(self) -> Optional[Plan]:
        """The recommended plan: the first of the group with the smallest risk; None if nothing fits."""
        return self.plans[0] if self.plans else None

    def group(self, effect: str) -> Tuple[Plan, ...]:
        """The plans with this effect: ``none``, ``rounding`` or ``training``."""
        return tuple(plan for plan in self.plans if plan.effect == effect)

    def __len__(self) -> int:
        return len(self.plans)

    def __iter__(self) -> Iterator[Plan]:
        return iter(self.plans)

    def __getitem__(self, at: int) -> Plan:
        return self.plans[at]

    def text(self) -> str:
        """The text that ``vramfit plan`` prints."""
        return self.question.text()

    def html(self, path: Any) -> str:
        """Writes the HTML page of ``vramfit plan --html`` and returns its path."""
        return self.question.html(path)

    @property
    def verdict(self) -> str:
        """Whether the given settings fit, and how many plans fit, in one line."""
        into = "" if self.fit is None or self.fit.capacity is None else f" in {self.fit.room}"
        start = "" if self.fit is None else f"as it is, it {VERDICTS[self.fit.verdict]}{into}"
        largest = "" if self.max_batch is None else f"; the largest batch is {self.max_batch}"
        if self.plans:
            return f"{start}{largest}; {len(self.plans)} plan{'s' if len(self.plans) > 1 else ''} that fit{'s' if len(self.plans) == 1 else ''}"
        missing = "" if not self.nothing_fits else f", {human(self.nothing_fits['missing'])} are missing"
        return f"{start}{largest}; no plan fits{missing}"

    def _lines(self) -> List[str]:
        return [*self.notes, *(f"not modelled: {cause}" for cause in self.unmodelled)]

    def __repr__(self) -> str:
        lines = [f"Plans for {self.model}: {self.verdict}"]
        for number, plan in enumerate(self.plans):
            lines.append(f"  [{number}] {plan.title}")
            lines += [f"      {change.trick}: {change.after}" for change in plan.changes]
        lines += [f"  note: {note}" for note in self._lines()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (f"[{number}] " + ("; ".join(change.after for change in plan.changes) or "nothing"), human(plan.peak_reserved), f"×{plan.slowdown:.2f}", plan.effect)
            for number, plan in enumerate(self.plans)
        ]
        verdict = self.fit.verdict if self.fit is not None else None
        code = folded("code of [0]", self.plans[0].code) if self.plans else ""
        body = table(rows, ("plan", "reserved", "time", "effect")) if rows else ""
        return page(f"{self.model}: {self.verdict}", verdict, body, code, note_list(self._lines()))
