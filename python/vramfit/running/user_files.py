"""The user's files stay as they are: a script changes copies of them, and deletes only what it has made itself."""

from __future__ import annotations

import builtins
import io
import os
import shutil
import tempfile
from typing import Any, Callable, Dict, Optional, Set

from ..patches import Patches


class UserFiles:
    """What a script has made, and copies of what it would have changed."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._made: Set[str] = set()
        self._copies: Dict[str, str] = {}
        self._folder: Optional[str] = None
        self._open: Callable[..., Any] = builtins.open
        self._remove: Callable[..., Any] = os.remove
        self._rmtree: Callable[..., Any] = shutil.rmtree
        self._mkdtemp: Callable[..., str] = tempfile.mkdtemp

    def install(self, patches: Patches) -> None:
        """Puts itself between the script and its files."""
        patches.set(builtins, "open", self.open)
        patches.set(io, "open", self.open)
        patches.set(os, "mkdir", self._making(os.mkdir))
        patches.set(os, "open", self._opening(os.open))
        for name in ("remove", "unlink", "rmdir"):
            patches.set(os, name, self._removing(getattr(os, name)))
        patches.set(shutil, "rmtree", self._removing(shutil.rmtree))
        for name in ("rename", "replace"):
            patches.set(os, name, self._moving(getattr(os, name)))

    def open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Stands for ``open``."""
        path = absolute(file)
        if path is None or not isinstance(mode, str):
            return self._open(file, mode, *args, **kwargs)
        if path in self._copies:
            return self._open(self._copies[path], mode, *args, **kwargs)
        if "x" in mode or any(letter in mode for letter in "wa+"):
            if os.path.isfile(path) and "x" not in mode and not self.has_made(path):
                return self._open(self._copy(path, "w" not in mode), mode, *args, **kwargs)
            if not os.path.lexists(path):
                self._made.add(path)
        return self._open(file, mode, *args, **kwargs)

    def has_made(self, path: str) -> bool:
        """Whether the script has made this file or folder, or one around it."""
        while path not in self._made:
            around = os.path.dirname(path)
            if around == path:
                return False
            path = around
        return True

    def forget(self, path: str) -> None:
        """Deletes a file that the script has made."""
        if path in self._made and os.path.isfile(path):
            self._remove(path)

    def close(self) -> None:
        """Deletes the copies."""
        if self._folder is not None:
            self._rmtree(self._folder, ignore_errors=True)

    def _copy(self, path: str, has_contents: bool) -> str:
        if self._folder is None:
            self._folder = self._mkdtemp(prefix="vramfit-")
            self._made.add(self._folder)
        folder = os.path.join(self._folder, str(len(self._copies)))
        os.mkdir(folder)
        copy = os.path.join(folder, os.path.basename(path))
        if has_contents:
            shutil.copyfile(path, copy)
        self._copies[path] = copy
        self._note("a file that was there stays as it is, and is written to in a copy")
        return copy

    def _making(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
            make(path, *args, **kwargs)
            made = absolute(path)
            if made is not None:
                self._made.add(made)

        return mkdir

    def _opening(self, opened: Callable[..., int]) -> Callable[..., int]:
        def low_level(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            name = absolute(path)
            makes = name is not None and bool(flags & os.O_CREAT) and not os.path.lexists(name)
            number = opened(path, flags, *args, **kwargs)
            if makes and name is not None:
                self._made.add(name)
            return number

        return low_level

    def _removing(self, remove: Callable[..., Any]) -> Callable[..., Any]:
        def removed(path: Any, *args: Any, **kwargs: Any) -> Any:
            name = absolute(path)
            # What is named relative to an open folder is inside of one that may be deleted.
            if name is None or kwargs.get("dir_fd") is not None or self.has_made(name) or not os.path.lexists(name):
                return remove(path, *args, **kwargs)
            self._copies.pop(name, None)
            self._note("what was there before is not deleted")
            return None

        return removed

    def _moving(self, move: Callable[..., Any]) -> Callable[..., Any]:
        def moved(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            old, new = absolute(source), absolute(target)
            if old is None or new is None or kwargs:
                return move(source, target, *args, **kwargs)
            stays = os.path.lexists(old) and not self.has_made(old)
            covers = os.path.isfile(new) and not self.has_made(new)
            if not stays and not covers:
                move(source, target, *args)
                self._made.add(new)
                return None
            if os.path.isfile(self._copies.get(old, old)):
                shutil.copyfile(self._copies.get(old, old), self._copies.get(new) or (self._copy(new, False) if covers else new))
                if not covers:
                    self._made.add(new)
            if stays:
                self._note("what was there before is not moved")
            else:
                self._remove(old)
            return None

        return moved


def absolute(file: Any) -> Optional[str]:
    """The path of a file that is given by name."""
    if not isinstance(file, (str, bytes, os.PathLike)):
        return None
    return os.path.abspath(os.fsdecode(file))
