"""Replaces attributes of other modules during a capture, and always restores them."""

from __future__ import annotations

from typing import Any, List, Tuple

_MISSING = object()


class Patches:
    """A stack of replaced attributes. Leaving the context restores them in reverse order."""

    def __init__(self) -> None:
        self._replaced: List[Tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replaces ``owner.name`` and returns the old value (for a class, the value in its own dictionary)."""
        own = vars(owner)
        old = own.get(name, _MISSING)
        self._replaced.append((owner, name, old))
        setattr(owner, name, value)
        return None if old is _MISSING else old

    def undo(self) -> None:
        """Restores everything."""
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
