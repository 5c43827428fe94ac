"""Replaces the parameters and buffers of a model by meta tensors, and restores them afterwards.

Nothing is copied. Everything that a forward pass may change in the modules (caches, counters, flags) is restored too. So every
recording starts from the same model, and the user's model stays unchanged.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Dict, List, Optional, Set, Tuple

import torch

from . import quantized
from .tensors import META

_SHARED = ("_parameters", "_buffers", "_modules")


class Entry:
    """A parameter or buffer, under all its names."""

    def __init__(self, original: torch.Tensor, name: str, persistent: bool = True, quantized: Optional[quantized.QuantizedWeight] = None) -> None:
        self.original = original
        self.names = [name]
        self.persistent = persistent
        # For a weight, how it is quantised; for a tensor beside one, the weight it belongs to.
        self.quantized = quantized


class ModelState:
    """The state of a model before the capture, and its replacement by stand-ins."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.modules: List[torch.nn.Module] = list(model.modules())
        self._saved: List[Tuple[torch.nn.Module, Dict[str, Any], List[Dict[str, Any]]]] = [
            (module, dict(vars(module)), [dict(vars(module)[name]) for name in _SHARED]) for module in self.modules
        ]
        # Containers that a module fills, such as losses so far or hooks: their contents, since the containers themselves stay.
        self._contents: List[Tuple[Any, Any]] = [
            (value, value.copy()) for _, attributes, _ in self._saved for name, value in attributes.items()
            if type(value) in (list, dict, set, OrderedDict) and name not in _SHARED
        ]
        self.parameters: List[Entry] = []
        self.buffers: List[Entry] = []
        self._assumed: Dict[str, List[str]] = {}
        self._stand_ins: Dict[Any, torch.Tensor] = {}
        self._collect()

    def _collect(self) -> None:
        known: Dict[int, Entry] = {}
        packed = quantized.find(self.model)
        for name, parameter in self.model.named_parameters(remove_duplicate=False):
            if id(parameter) in known:
                known[id(parameter)].names.append(name)
            else:
                known[id(parameter)] = Entry(parameter, name, quantized=packed.get(id(parameter)))
                self.parameters.append(known[id(parameter)])
        transient = {
            (prefix + "." if prefix else "") + name
            for prefix, module in self.model.named_modules() for name in module._non_persistent_buffers_set
        }
        for name, buffer in self.model.named_buffers(remove_duplicate=False):
            if id(buffer) in known:
                known[id(buffer)].names.append(name)
            else:
                known[id(buffer)] = Entry(buffer, name, name not in transient)
                self.buffers.append(known[id(buffer)])
        for entry in self.parameters:
            if entry.quantized is not None:
                for name, state in entry.quantized.states.items():
                    self.buffers.append(Entry(state, f"{entry.names[0]}.{name}", quantized=entry.quantized))

    def move_order(self) -> List[torch.Tensor]:
        """Originals in the order in which ``model.cuda()`` moves them: children first, then parameters, then buffers."""
        order: List[torch.Tensor] = []
        seen: Set[int] = set()
        beside = {id(entry.original): entry.quantized.states.values() for entry in self.parameters if entry.quantized is not None}

        def visit(module: torch.nn.Module) -> None:
            for child in module.children():
                visit(child)
            for tensor in [*module._parameters.values(), *module._buffers.values()]:
                if tensor is not None and id(tensor) not in seen:
                    seen.add(id(tensor))
                    order.append(tensor)
                    order.extend(beside.get(id(tensor), ()))

        visit(self.model)
        return order

    def install(self, dtype: Optional[torch.dtype]) -> Dict[int, torch.Tensor]:
        """Installs stand-ins; floating-point ones have the given dtype. Returns them keyed by the ``id`` of their originals."""
        replacements: Dict[int, torch.Tensor] = {}
        for entry in self.buffers:
            replacements[id(entry.original)] = self._buffer(entry, dtype)
        for entry in self.parameters:
            if entry.quantized is not None:
                states = {name: replacements[id(state)] for name, state in entry.quantized.states.items()}
                replacements[id(entry.original)] = stand_in = entry.quantized.stand_in(states, dtype)
                if entry.quantized.same is not None:
                    replacements[id(entry.quantized.same)] = stand_in
            else:
                replacements[id(entry.original)] = self._parameter(entry.original, dtype)
        for module in self.modules:
            tables: List[Dict[str, Any]] = [module._parameters, module._buffers]
            for table in tables:
                for name, tensor in table.items():
                    if tensor is not None:
                        table[name] = replacements[id(tensor)]
            for name, value in list(vars(module).items()):
                if isinstance(value, (list, tuple)) and any(id(item) in replacements for item in value):
                    vars(module)[name] = type(value)(replacements.get(id(item), item) for item in value)
        return replacements

    @staticmethod
    def _dtype(tensor: torch.Tensor, dtype: Optional[torch.dtype]) -> torch.dtype:
        return dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype

    @staticmethod
    def _stand_in(tensor: torch.Tensor, dtype: Optional[torch.dtype]) -> torch.Tensor:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=ModelState._dtype(tensor, dtype), device=META)

    def _parameter(self, tensor: torch.Tensor, dtype: Optional[torch.dtype]) -> torch.Tensor:
        parameter = self._stand_ins.get((id(tensor), dtype))
        if parameter is None:
            parameter = torch.nn.Parameter(self._stand_in(tensor, dtype), requires_grad=tensor.requires_grad)
            self._stand_ins[id(tensor), dtype] = parameter
        return parameter.requires_grad_(tensor.requires_grad)

    def _buffer(self, entry: Entry, dtype: Optional[torch.dtype]) -> torch.Tensor:
        """Integer and boolean buffers have real values, because the model may branch on them."""
        tensor = entry.original
        if entry.quantized is not None:
            return self._stand_in(tensor, None)
        if tensor.is_floating_point() or tensor.is_complex():
            return self._stand_in(tensor, dtype)
        if not tensor.is_meta:
            return tensor.detach().to("cpu", copy=True)
        last = entry.names[0].rsplit(".", 1)[-1]
        if "position" in last and "index" not in last and tensor.dim():
            self._assume("0, 1, 2, ...", entry.names[0])
            return torch.arange(tensor.shape[-1], dtype=tensor.dtype).expand(tensor.shape).clone()
        if tensor.dtype is torch.bool:
            self._assume("true", entry.names[0])
            return torch.ones(tensor.shape, dtype=tensor.dtype)
        if tensor.dim():
            self._assume("zeros", entry.names[0])
        return torch.zeros(tensor.shape, dtype=tensor.dtype)

    def _assume(self, what: str, name: str) -> None:
        names = self._assumed.setdefault(what, [])
        if name not in names:
            names.append(name)

    def notes(self) -> List[str]:
        """What was assumed about buffers without values."""
        return [
            f"buffer {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: no values on the meta device, {what} assumed"
            for what, names in self._assumed.items()
        ]

    def restore(self) -> None:
        """Restores the model."""
        for module, attributes, tables in self._saved:
            own = vars(module)
            own.clear()
            own.update(attributes)
            for name, table in zip(_SHARED, tables):
                own[name].clear()
                own[name].update(table)
        for container, contents in self._contents:
            if isinstance(container, list):
                container[:] = contents
            else:
                container.clear()
                container.update(contents)
