"""What a script that asks for its own memory sees. Memory is simulated when the script has ended, so there is no figure yet."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

FIGURES: Tuple[str, ...] = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached", "max_memory_cached")
# Lines that a note names.
_SHOWN = 5


class Zeros(Dict[str, int]):
    """Statistics of the allocator."""

    def __missing__(self, key: str) -> int:
        return 0

    def get(self, key: str, default: Any = 0) -> Any:
        """Every figure is 0."""
        return default if default is not None else 0


class MemoryReads:
    """Which figures a script asked for, how often, and at which lines."""

    def __init__(self, here: Callable[[], str]) -> None:
        self._here = here
        self._counts: Dict[str, int] = {}
        self._lines: Dict[str, None] = {}

    def answer(self, name: str, value: Any) -> Callable[..., Any]:
        """A function that gives ``value`` and counts its calls."""

        def read(*_: Any, **__: Any) -> Any:
            self._counts[name] = self._counts.get(name, 0) + 1
            self._lines[self._here().split(" in ")[0]] = None
            return value

        return read

    def answers(self, memory: int) -> Dict[str, Callable[..., Any]]:
        """The functions of ``torch.cuda`` that give figures, on a GPU with so much memory."""
        values: Dict[str, Any] = {name: 0 for name in FIGURES}
        values.update({
            "memory_stats": Zeros(), "memory_stats_as_nested_dict": {}, "memory_summary": "", "memory_snapshot": [],
            "mem_get_info": (memory, memory), "get_memory_info": (memory, memory),
        })
        return {name: self.answer(name, value) for name, value in values.items()}

    def notes(self) -> List[str]:
        """What the script saw, where it asked."""
        if not self._counts:
            return []
        asked = ", ".join(f"{name} ({count} times)" if count > 1 else name for name, count in self._counts.items())
        lines = list(self._lines)
        shown = ", ".join(lines[:_SHOWN]) + (f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else "")
        return [f"memory is simulated when the script has ended: it asked for {asked} at {shown} and saw no memory in use"]
