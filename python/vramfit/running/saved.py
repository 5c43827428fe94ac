"""Checkpoints. Nothing is written to disk; what a script saves it can load again, with tensors that are new memory."""

from __future__ import annotations

import io
import os
import pickle
import shutil
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from ..patches import Patches
from .recorder import ScriptRecorder

# Storage, element type, sizes, strides, offset, whether it is on the host, requires grad, is a parameter, and its values where known.
_Row = Tuple[int, torch.dtype, Tuple[int, ...], Tuple[int, ...], int, bool, bool, bool, Optional[torch.Tensor]]
_CPU, _CUDA = torch.device("cpu"), torch.device("cuda")


class _Checkpoint:
    """What one call of ``torch.save`` was given: the object without its tensors, and what the tensors are."""

    def __init__(self, contents: bytes, rows: List[_Row]) -> None:
        self.contents = contents
        self.rows = rows

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
    """The checkpoints of a script by the paths under which they would be."""

    def __init__(self, recorder: ScriptRecorder) -> None:
        self._recorder = recorder
        self._known: Dict[str, Optional[_Checkpoint]] = {}

    def save(self, value: Any, file: Any, *_: Any, **__: Any) -> None:
        """Stands for ``torch.save``."""
        recorder = self._recorder
        recorder.session.note(f"{recorder.where()}: a checkpoint is not written")
        path = _path(file)
        if path is not None:
            self._known[path] = self._checkpoint(value)

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
        """Whether the script has saved to this path."""
        path = _path(file)
        return path is not None and path in self._known

    def load(self, file: Any, map_location: Any) -> Any:
        """Loads what the script saved."""
        checkpoint = self._known[_path(file) or ""]
        if checkpoint is None:
            raise pickle.UnpicklingError(f"{file}: what the script saved there could not be kept in memory")
        return checkpoint.load(_device(map_location))

    def copy(self, source: Any, target: Any) -> Any:
        """Copies a checkpoint that is not on disk."""
        path, new = _path(source), _path(target)
        assert path is not None and new is not None
        if os.path.isdir(new):
            new = os.path.join(new, os.path.basename(path))
        self._known[new] = self._known[path]
        return target

    def remove(self, file: Any) -> None:
        """Forgets a checkpoint."""
        self._known.pop(_path(file) or "", None)


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


def _path(file: Any) -> Optional[str]:
    name = getattr(file, "name", file) if hasattr(file, "write") or hasattr(file, "read") else file
    return os.path.abspath(os.fspath(name)) if isinstance(name, (str, os.PathLike)) else None


def _device(map_location: Any) -> Optional[torch.device]:
    if isinstance(map_location, (str, torch.device)):
        return torch.device(map_location)
    # A function such as `lambda storage, location: storage` leaves storages where they were read, on the host.
    return _CPU if callable(map_location) else None


def install(patches: Patches, recorder: ScriptRecorder) -> None:
    """Keeps checkpoints in memory."""
    files = Files(recorder)
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

    patches.set(safetensors, "save_file", save_file)
    patches.set(safetensors, "load_file", load_file)


def _copies(files: Files, original: Callable[..., Any], moves: bool) -> Callable[..., Any]:
    def copy(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        if not files.has(source):
            return original(source, target, *args, **kwargs)
        copied = files.copy(source, target)
        if moves:
            files.remove(source)
        return copied

    return copy


def _removes(files: Files, original: Callable[..., Any]) -> Callable[..., Any]:
    def remove(path: Any, *args: Any, **kwargs: Any) -> None:
        kept = files.has(path)
        files.remove(path)
        if not kept or os.path.lexists(path):
            original(path, *args, **kwargs)

    return remove


def _finds(files: Files, original: Callable[..., Any]) -> Callable[..., Any]:
    return lambda path: files.has(path) or original(path) if isinstance(path, (str, os.PathLike)) else original(path)


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return type(value)((key, _moved(item, device)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(item, device) for item in value)
    return value
