"""Attributes of other modules that are replaced for the time of a capture and put back afterwards, whatever happens."""

from __future__ import annotations

from typing import Any, List, Tuple

_MISSING = object()


class Patches:
    """A stack of replaced attributes; leaving the context puts the old ones back in reverse order."""

    def __init__(self) -> None:
        self._replaced: List[Tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replaces ``owner.name`` and returns what stood there (for a class, what stood in its own dictionary)."""
        own = vars(owner)
        old = own.get(name, _MISSING)
        self._replaced.append((owner, name, old))
        setattr(owner, name, value)
        return None if old is _MISSING else old

    def undo(self) -> None:
        """Puts everything back."""
        while self._replaced:
            owner, name, old = self._replaced.pop()
            if old is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, old)

    def __enter__(self) -> "Patches":
        return self

    def __exit__(self, *_: Any) -> None:
        self.undo()
