"""Regions of a script: module calls of any number of models, and what leads to the results of custom functions."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..patches import Patches
from ..regions import Regions, tensors_in
from .recorder import ScriptRecorder


class ScriptModules:
    """The modules that a script calls, none of which it keeps alive. A module gets its path when the model that it belongs to is called."""

    def __init__(self) -> None:
        self.rows: List[Tuple[Any, str]] = []
        # By address: the module that has it, its index in the table.
        self._known: Dict[int, Tuple["weakref.ref[torch.nn.Module]", int]] = {}
        self._classes: Dict[str, int] = {}
        # By address: the parameters that were counted. Another one may have the address later.
        self._counted: Dict[int, "weakref.ref[torch.Tensor]"] = {}
        self._elements = 0

    def parameters(self) -> int:
        """How many elements the parameters of the modules have that were called, shared ones counted once."""
        for reference, _ in list(self._known.values()):
            module = reference()
            if module is not None:
                # A module may get parameters when it runs.
                self._count(module)
        return self._elements

    def number(self, module: torch.nn.Module) -> int:
        """The module's index in the file's table."""
        number = self._number_of(module)
        if number is None:
            name = type(module).__name__
            self._classes[name] = self._classes.get(name, 0) + 1
            if self._classes[name] > 1:
                name = f"{name}#{self._classes[name]}"
            for path, part in module.named_modules():
                if self._number_of(part) is None:
                    self._known[id(part)] = (weakref.ref(part), len(self.rows))
                    self._count(part)
                    self.rows.append((f"{name}.{path}" if path else name, type(part).__name__))
            number = self._known[id(module)][1]
        return number

    def _number_of(self, module: torch.nn.Module) -> Optional[int]:
        reference, number = self._known.get(id(module), (None, None))
        return number if reference is not None and reference() is module else None

    def _count(self, module: torch.nn.Module) -> None:
        for parameter in module._parameters.values():
            if parameter is None or torch.nn.parameter.is_lazy(parameter):
                continue
            counted = self._counted.get(id(parameter))
            if counted is None or counted() is not parameter:
                self._counted[id(parameter)] = weakref.ref(parameter)
                self._elements += parameter.numel()


class ScriptRegions(Regions):
    """Reports to the recorder of a script."""

    recorder: ScriptRecorder

    def __init__(self, modules: ScriptModules, patches: Patches) -> None:
        super().__init__(modules, patches)  # type: ignore[arg-type]

    def _gpu(self) -> None:
        """``torch.cuda`` answers for the chosen GPU instead."""

    def _mark(self, result: Any, args: Tuple[Any, ...]) -> None:
        super()._mark(result, args)
        recorder = self.recorder
        infos = [recorder.infos[id(tensor)] for tensor in tensors_in(args, []) if id(tensor) in recorder.infos]
        inputs = {info.index for info in infos if info.kind.requires_grad}
        inputs.update(self._used_inside())
        for tensor in tensors_in(result, []):
            info = recorder.infos.get(id(tensor))
            if info is not None and info.kind.requires_grad:
                recorder.leads_to(info.index, tuple(inputs - {info.index}))

    def _used_inside(self) -> List[int]:
        """The leaves that a reentrant checkpoint uses, if one has just ended: its own backward pass leads to them."""
        steps = self.recorder.steps
        if not steps or steps[-1][:2] != ("end", "checkpoint"):
            return []
        found: List[int] = []
        for step in reversed(steps):
            if step[0] == "checkpoint":
                break
            if step[0] == "call":
                found.extend(_indices(step[2]))
        live = self.recorder.live
        return [index for index in found if index in live and live[index].kind.requires_grad and live[index].leaf]


def _indices(value: Any) -> List[int]:
    if isinstance(value, str) and value.startswith("%"):
        return [int(value[1:])]
    if isinstance(value, (list, tuple)):
        return [index for item in value for index in _indices(item)]
    return []
