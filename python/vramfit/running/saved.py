"""Checkpoints. Nothing is written to disk; what a script saves it can load again, with tensors that are new memory."""

from __future__ import annotations

import io
import math
import os
import pickle
import shutil
import stat as _stat
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..patches import Patches
from .recorder import ScriptRecorder
from .user_files import UserFiles, absolute

# Storage, element type, sizes, strides, offset, whether it is on the host, requires grad, is a parameter, and its values where known.
_Row = Tuple[int, torch.dtype, Tuple[int, ...], Tuple[int, ...], int, bool, bool, bool, Optional[torch.Tensor]]
# What is written in place of a checkpoint to a stream, before its number.
_MARK, _MARKED = b"vramfit checkpoint ", 64
_CPU, _CUDA = torch.device("cpu"), torch.device("cuda")


class _Checkpoint:
    """What one call of ``torch.save`` was given: the object without its tensors, and what the tensors are."""

    def __init__(self, contents: bytes, rows: List[_Row]) -> None:
        self.contents = contents
        self.rows = rows

    def size(self) -> int:
        """About how many bytes it would have on disk."""
        return len(self.contents) + sum(row[1].itemsize * math.prod(row[2]) for row in self.rows)

    def load(self, device: Optional[torch.device]) -> Any:
        """The object with new tensors, on the device that they were on unless one is given."""
        sizes: Dict[int, int] = {}
        for row in self.rows:
            extent = row[4] + 1 + sum((size - 1) * stride for size, stride in zip(row[2], row[3])) if 0 not in row[2] else 0
            sizes[row[0]] = max(sizes.get(row[0], 0), extent)
        storages: Dict[int, torch.Tensor] = {}

        def tensor(number: int) -> torch.Tensor:
            storage, dtype, shape, stride, offset, host, requires_grad, is_parameter, values = self.rows[number]
            place = device or (_CPU if host else _CUDA)
            if storage not in storages:
                storages[storage] = torch.empty(sizes[storage], dtype=dtype, device=place)
            made = storages[storage].as_strided(shape, stride, offset)
            if values is not None:
                made.copy_(values)
            if is_parameter:
                return torch.nn.Parameter(made, requires_grad)
            return made.requires_grad_() if requires_grad else made

        unpickler = pickle.Unpickler(io.BytesIO(self.contents))
        unpickler.persistent_load = tensor  # type: ignore[method-assign]
        return unpickler.load()


class Files:
    """The checkpoints of a script by the paths under which they would be; streams get a mark with a number instead."""

    def __init__(self, recorder: ScriptRecorder, user_files: UserFiles) -> None:
        self._recorder = recorder
        self._user_files = user_files
        self._known: Dict[str, Optional[_Checkpoint]] = {}
        self._marked: List[Optional[_Checkpoint]] = []
        self._named: List[str] = []

    def save(self, value: Any, file: Any, *_: Any, **__: Any) -> None:
        """Stands for ``torch.save``."""
        recorder = self._recorder
        recorder.session.note(f"{recorder.where()}: a checkpoint is not written")
        path = absolute(file)
        if path is not None:
            self._known[path] = self._checkpoint(value)
        elif hasattr(file, "write"):
            file.write(_MARK + b"%d\n" % len(self._marked))
            self._marked.append(self._checkpoint(value))
            name = absolute(getattr(file, "name", None))
            if name is not None:
                self._named.append(name)

    def remove(self) -> None:
        """Deletes files that hold a mark."""
        for path in self._named:
            self._user_files.forget(path)
        self._user_files.close()

    def _checkpoint(self, value: Any) -> Optional[_Checkpoint]:
        rows: List[_Row] = []
        numbers: Dict[int, int] = {}
        recorder = self._recorder

        def number(found: Any) -> Optional[int]:
            if not isinstance(found, torch.Tensor):
                return None
            if id(found) not in numbers:
                numbers[id(found)] = len(rows)
                rows.append(_row(recorder, found))
            return numbers[id(found)]

        out = io.BytesIO()
        pickler = pickle.Pickler(out, protocol=2)
        pickler.persistent_id = number  # type: ignore[method-assign]
        try:
            pickler.dump(value)
        except Exception:  # What cannot be pickled is only not loaded again.
            return None
        return _Checkpoint(out.getvalue(), rows)

    def has(self, file: Any) -> bool:
        """Whether the script has saved to this path or stream."""
        return absolute(file) in self._known or self._mark(file) is not None

    def size(self, path: Any) -> Optional[int]:
        """About how many bytes a checkpoint would have on disk, which is not there."""
        checkpoint = self._known.get(absolute(path) or "")
        return None if checkpoint is None else checkpoint.size()

    def load(self, file: Any, map_location: Any) -> Any:
        """Loads what the script saved."""
        path = absolute(file)
        number = None if path in self._known else self._mark(file)
        checkpoint = self._known[path or ""] if number is None else self._marked[number]
        if checkpoint is None:
            raise pickle.UnpicklingError(f"{file}: what the script saved there could not be kept in memory")
        return checkpoint.load(_device(map_location))

    def _mark(self, file: Any) -> Optional[int]:
        """The number that a file or stream holds in place of a checkpoint."""
        if not self._marked:
            return None
        try:
            if absolute(file) is not None:
                with self._user_files.open(file, "rb") as stream:
                    begin = stream.read(_MARKED)
            else:
                at = file.tell()
                begin = file.read(_MARKED)
                file.seek(at)
        except (AttributeError, OSError, ValueError):
            return None
        if not isinstance(begin, bytes) or not begin.startswith(_MARK):
            return None
        number = int(begin[len(_MARK):].split(b"\n")[0])
        return number if number < len(self._marked) else None

    def copy(self, source: Any, target: Any) -> Any:
        """Copies a checkpoint that is not on disk."""
        path, new = absolute(source), absolute(target)
        assert path is not None and new is not None
        if os.path.isdir(new):
            new = os.path.join(new, os.path.basename(path))
        self._known[new] = self._known[path]
        return target

    def is_in_memory(self, path: Any) -> bool:
        """Whether a checkpoint is known by this path, and not on disk."""
        return absolute(path) in self._known

    def drop(self, path: Any) -> None:
        """Forgets a checkpoint."""
        self._known.pop(absolute(path) or "", None)


def _row(recorder: ScriptRecorder, tensor: torch.Tensor) -> _Row:
    info = recorder.info_of(tensor)
    values = None
    if info.known:
        with torch._C.DisableTorchFunction(), recorder.paused():
            values = tensor.detach().clone()
    kind = info.kind
    parameter = isinstance(tensor, torch.nn.Parameter)
    return (
        info.storage.index, kind.dtype, tuple(kind.shape), tuple(kind.stride), info.offset, info.host, kind.requires_grad, parameter, values,
    )


def _device(map_location: Any) -> Optional[torch.device]:
    if isinstance(map_location, (str, torch.device)):
        return torch.device(map_location)
    # A function such as `lambda storage, location: storage` leaves storages where they were read, on the host.
    return _CPU if callable(map_location) else None


def install(patches: Patches, recorder: ScriptRecorder) -> Files:
    """Keeps checkpoints in memory, and the user's files as they are. What is returned has to be removed afterwards."""
    user_files = UserFiles(lambda text: recorder.session.note(f"{recorder.where()}: {text}"))
    user_files.install(patches)
    files = Files(recorder, user_files)
    patches.set(torch, "save", files.save)
    read: Callable[..., Any] = torch.load

    def load(file: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if files.has(file):
            return files.load(file, map_location)
        with torch._C.DisableTorchFunction(), recorder.paused():
            loaded = read(file, "cpu", *args, **kwargs)
        device = _device(map_location)
        return loaded if device is None or device.type == "cpu" else _moved(loaded, device)

    patches.set(torch, "load", load)
    _safetensors(patches, files)
    for name in ("copyfile", "copy", "copy2", "move"):
        patches.set(shutil, name, _copies(files, getattr(shutil, name), name == "move"))
    for name in ("rename", "replace"):
        patches.set(os, name, _copies(files, getattr(os, name), True))
    for name in ("remove", "unlink"):
        patches.set(os, name, _removes(files, getattr(os, name)))
    for name in ("exists", "isfile"):
        patches.set(os.path, name, _finds(files, getattr(os.path, name)))
    patches.set(os, "stat", _states(files, os.stat))
    return files


def _safetensors(patches: Patches, files: Files) -> None:
    try:
        from safetensors import torch as safetensors
    except ImportError:
        return
    read: Callable[..., Any] = safetensors.load_file

    def save_file(tensors: Dict[str, torch.Tensor], filename: Any, metadata: Any = None) -> None:
        files.save(dict(tensors), filename)

    def load_file(filename: Any, device: Any = "cpu", *args: Any, **kwargs: Any) -> Any:
        if files.has(filename):
            return files.load(filename, torch.device("cuda", device) if isinstance(device, int) else torch.device(device))
        return read(filename, device, *args, **kwargs)

    def save_model(model: torch.nn.Module, filename: Any, *_: Any, **__: Any) -> None:
        files.save(model.state_dict(), filename)

    read_model: Callable[..., Any] = safetensors.load_model

    def load_model(model: torch.nn.Module, filename: Any, strict: bool = True, device: Any = "cpu") -> Any:
        if files.has(filename):
            return tuple(model.load_state_dict(load_file(filename, device), strict=strict))
        return read_model(model, filename, strict, device)

    patches.set(safetensors, "save_model", save_model)
    patches.set(safetensors, "load_model", load_model)
    patches.set(safetensors, "save_file", save_file)
    patches.set(safetensors, "load_file", load_file)


def _copies(files: Files, original: Callable[..., Any], moves: bool) -> Callable[..., Any]:
    def copy(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if not files.is_in_memory(source):
            return original(source, target, *args, **kwargs)
        copied = files.copy(source, target)
        if moves:
            files.drop(source)
        return copied

    return copy


def _removes(files: Files, original: Callable[..., Any]) -> Callable[..., Any]:
    def remove(path: Any, *args: Any, **kwargs: Any) -> None:
        kept = files.is_in_memory(path)
        files.drop(path)
        if not kept or os.path.lexists(path):
            original(path, *args, **kwargs)

    return remove


def _finds(files: Files, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda path: files.is_in_memory(path) or original(path)


def _states(files: Files, original: Callable[..., Any]) -> Callable[..., Any]:
    def stat(path: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(path, *args, **kwargs)
        except FileNotFoundError:
            size = files.size(path)
            if size is None:
                raise
            now = time.time()
            return os.stat_result((_stat.S_IFREG | 0o644, 0, 0, 1, 0, 0, size, int(now), int(now), int(now)))

    return stat


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return type(value)((key, _moved(item, device)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(item, device) for item in value)
    return value
