"""Runs a capture file as a program, with real tensors on the CPU, to check the recording.

A capture that misses a call, has a wrong argument, frees a tensor too early or confuses a view cannot give the model's own loss
when it is run. Every result is compared with its description in the file.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import re
from typing import Any, Dict, List, Optional, Sequence

import numpy
import torch
import torchvision  # noqa: F401 - a capture may contain its operators
from torch.overrides import TorchFunctionMode

# Operators for which CUDA, CPU and meta kernels choose different layouts.
OWN_LAYOUT = (
    "aten.scaled_dot_product_attention", "aten.lstm", "aten.gru", "aten.rnn_tanh", "aten.rnn_relu",
    "aten._transformer_encoder_layer_fwd", "aten._native_multi_head_attention",
)
SILENT = {"aten.requires_grad_.default"}


def load(path: Any) -> Dict[str, Any]:
    """The contents of a capture file."""
    with gzip.open(path) as stream:
        return json.load(stream)


def lengths_of(name: str, runs: List[int]) -> torch.Tensor:
    """The tensor on the host in whose place a capture has the runs of a packed batch."""
    counts = [count for steps, count in zip(runs[::2], runs[1::2]) for _ in range(steps)]
    if "_pad_packed" in name:
        return torch.tensor(counts)
    return torch.tensor([sum(count > row for count in counts) for row in range(max(counts))])


class Data(TorchFunctionMode):
    """Collects the tensors made from Python data inside the context."""

    MAKERS = (torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy, torch.Tensor.new_tensor)

    def __init__(self) -> None:
        super().__init__()
        self.made: List[torch.Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        data = args[func is torch.Tensor.new_tensor:][:1]
        if func in self.MAKERS and not (data and isinstance(data[0], torch.Tensor)):
            self.made.append(result.detach().clone())
        return result


class Replay:
    """One variant of a capture, run at given sizes."""

    def __init__(self, contents: Dict[str, Any], precision: str, mode: str, sizes: Dict[str, int]) -> None:
        self.contents = contents
        self.variant = next(v for v in contents["variants"] if (v["precision"], v["mode"]) == (precision, mode))
        self.types = contents["types"][self.variant["types"]]
        self.rows = contents["tensors"][self.variant["tensors"]]
        self.steps = contents["steps"][self.variant["steps"]]
        self.sizes = sizes
        self.tensors: Dict[int, torch.Tensor] = {}
        self.checked = 0
        self.check = True
        self.device = torch.device("cpu")
        # Tensors that the model makes from Python data, in order; a capture has only their sizes.
        self.data: List[torch.Tensor] = []
        self._own_layout: set = set()
        self._storages: Dict[int, int] = {}

    def integer(self, value: Any) -> int:
        """An integer or the value of an expression."""
        if isinstance(value, str):
            assert re.fullmatch(r"[\w+\-*/() ]+", value), value
            return eval(value, {"__builtins__": {}}, dict(self.sizes))
        return value

    def value(self, value: Any) -> Any:
        """Decodes an argument for torch."""
        if isinstance(value, str):
            return self.tensors[int(value[1:])] if value.startswith("%") else self.integer(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            (name, content), = value.items()
            if name == "string":
                return content
            if name in ("dtype", "layout"):
                return getattr(torch, content)
            if name == "device":
                return self.device
            if name == "memory_format":
                return getattr(torch, content if content.startswith("channels") else content + "_format")
            if name == "float":
                return float(content)
            raise AssertionError(f"argument {value}")
        return value

    def run(self, given: Dict[int, torch.Tensor]) -> Optional[torch.Tensor]:
        """Runs all steps and returns the loss. ``given`` are the parameters, buffers, inputs and targets by number."""
        self.tensors = dict(given)
        for number in given:
            self._check_row(number, given[number], "given")
        regions: List[str] = []
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(self.variant["grad"])
        modules: List[int] = []
        try:
            for step in self.steps:
                kind = step[0]
                if kind == "call":
                    self._call(step)
                elif kind == "free":
                    for number in step[1]:
                        self.tensors.pop(number, None)
                elif kind == "enter":
                    modules.append(step[1])
                    assert all(int(name[1:]) in self.tensors for name in step[2])
                elif kind == "exit":
                    assert modules.pop() == step[1]
                    assert all(int(name[1:]) in self.tensors for name in step[2])
                elif kind == "grad":
                    torch.set_grad_enabled(step[1] and self.variant["grad"])
                elif kind == "end":
                    assert regions.pop() == step[1]
                else:
                    regions.append(kind)
            assert not regions and not modules
        finally:
            torch.set_grad_enabled(before)
        held = set(self.tensors)
        assert held == set(self.variant["held"]), held ^ set(self.variant["held"])
        return self.tensors[int(self.variant["loss"][1:])] if self.variant["loss"] else None

    def _call(self, step: List[Any]) -> None:
        name, arguments = self.contents["operators"][step[1]]
        values = [self.value(value) for value in step[2]]
        where = self.contents["sources"][step[4]] if step[4] >= 0 else None
        if name == "vramfit.tensor":
            row = self.rows[int(step[3][0][1:])]
            dtype, shape = self.types[row[0]][:2]
            sizes = [self.integer(size) for size in shape]
            made = self.data.pop(0) if self.data else None
            results: Any = [made if made is not None and list(made.shape) == sizes else torch.tensor(numpy.zeros(sizes).tolist(), dtype=getattr(torch, dtype))]
        elif name == "vramfit.scalar":
            results = [torch.tensor(values[0], dtype=values[1])]
        elif name.startswith("vramfit.") or name in SILENT:
            return
        else:
            if name in ("aten._pack_padded_sequence.default", "aten._pad_packed_sequence.default"):
                values[1] = lengths_of(name, values[1])
            packet, overload = name.rsplit(".", 1)
            space, packet = packet.split(".", 1)
            operator = getattr(getattr(getattr(torch.ops, space), packet), overload)
            keywords = {a.name for a in operator._schema.arguments if a.kwarg_only}
            positional = [value for key, value in zip(arguments, values) if key not in keywords]
            named = {key: value for key, value in zip(arguments, values) if key in keywords and value is not None}
            try:
                results = operator(*positional, **named)
            except Exception as problem:
                raise AssertionError(f"{name} {step[2]} at {where}: {problem}") from problem
            if name.startswith("aten.empty.") and type(results) is torch.Tensor:
                # An index given as a list is created empty and filled outside the dispatcher; zeros are valid indices.
                ctypes.memset(results.data_ptr(), 0, results.numel() * results.element_size())
            # A copy between host and GPU; here both are the CPU.
            moved = self.check and name.startswith(("aten.to.", "aten._to_copy")) and step[3] and step[3][0] != step[2][0] and results is values[0]
            results = [results.clone()] if moved else list(results) if isinstance(results, (list, tuple)) else [results]
            results = [item for item in results if item is None or isinstance(item, torch.Tensor)]
        assert len(results) == len(step[3]), (name, len(results), step[3])
        for result, target in zip(results, step[3]):
            assert (result is None) == (target is None), (name, target)
            if target is not None:
                number = int(target[1:])
                if number in self.tensors:
                    assert self.tensors[number] is result, f"{name}: {target} is said to be an argument and is not"
                    continue
                assert not self.check or name.startswith("vramfit.") or all(result is not value for value in values if isinstance(value, torch.Tensor)) \
                    or name.startswith(("aten.contiguous", "aten.reshape", "aten.clone")) or name.split(".")[1].endswith("_"), f"{name}: {target} is said to be new"
                self.tensors[number] = result
                self._check_row(number, result, name, [value for value in _flat(values)])

    def _check_row(self, number: int, tensor: torch.Tensor, name: str, arguments: Sequence[Any] = ()) -> None:
        if not self.check:
            return
        kind, storage, offset, flags = self.rows[number]
        dtype, shape = self.types[kind][:2]
        assert str(tensor.dtype) == f"torch.{dtype}", (name, number, tensor.dtype, dtype)
        wanted = [self.integer(size) for size in shape]
        assert list(tensor.shape) == wanted, (name, number, list(tensor.shape), wanted)
        free = name.startswith(OWN_LAYOUT) or any(id(value) in self._own_layout for value in arguments)
        if free:
            self._own_layout.add(id(tensor))
            return
        if name not in ("given", "vramfit.tensor", "vramfit.scalar"):
            strides = self.types[kind][2] if len(self.types[kind]) > 2 else None
            if strides is None:
                assert tensor.is_contiguous(), (name, number, tensor.stride())
            else:
                found = [s for s, size in zip(tensor.stride(), wanted) if size > 1]
                expected = [self.integer(s) for s, size in zip(strides, wanted) if size > 1]
                assert found == expected, (name, number, found, expected)
            if tensor.numel():
                address = tensor.untyped_storage().data_ptr()
                shared = {self._storages[k] for k in self.tensors if k != number and k in self._storages and self.rows[k][1] == storage}
                assert not shared or shared == {address}, f"{name}: %{number} is said to share a storage and does not"
                if not flags & 8:
                    assert not any(
                        self._storages.get(k) == address for k in self.tensors if k != number and self.rows[k][1] != storage
                    ), f"{name}: %{number} shares a storage and is not said to"
                self.checked += 1
        if tensor.numel():
            self._storages[number] = tensor.untyped_storage().data_ptr()
        if name != "given" and self.variant["mode"] != "eval" and tensor.is_floating_point():
            assert tensor.requires_grad == bool(flags & 1), (name, number, tensor.requires_grad, flags)


def _flat(values: List[Any]) -> List[Any]:
    found: List[Any] = []
    for value in values:
        found.extend(_flat(value) if isinstance(value, list) else [value])
    return found


def given_tensors(contents: Dict[str, Any], model: torch.nn.Module, inputs: Dict[str, torch.Tensor]) -> Dict[int, torch.Tensor]:
    """The real parameters, buffers, inputs and targets by number."""
    found: Dict[int, torch.Tensor] = {}
    tensors = dict(model.named_parameters(remove_duplicate=False))
    tensors.update(model.named_buffers(remove_duplicate=False))
    for entry in (*contents["parameters"], *contents["buffers"]):
        found[entry["tensor"]] = tensors[entry["names"][0]]
    for entry in (*contents["inputs"], *contents["targets"]):
        found[entry["tensor"]] = inputs[entry["name"]]
    return found
