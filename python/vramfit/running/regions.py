"""Regions of a script: module calls of any number of models, and what leads to the results of custom functions."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from ..patches import Patches
from ..regions import Regions, tensors_in
from .recorder import ScriptRecorder


class ScriptModules:
    """The modules that a script calls. A module gets its path when the model that it belongs to is called."""

    def __init__(self) -> None:
        self.rows: List[Tuple[Any, str]] = []
        self._numbers: Dict[int, int] = {}
        self._kept: List[torch.nn.Module] = []
        self._classes: Dict[str, int] = {}

    def parameters(self) -> int:
        """How many elements the parameters of the modules have that were called, shared ones counted once."""
        found = {id(parameter): parameter.numel() for module in self._kept for parameter in module._parameters.values() if parameter is not None}
        return sum(found.values())

    def number(self, module: torch.nn.Module) -> int:
        """The module's index in the file's table."""
        number = self._numbers.get(id(module))
        if number is None:
            name = type(module).__name__
            self._classes[name] = self._classes.get(name, 0) + 1
            if self._classes[name] > 1:
                name = f"{name}#{self._classes[name]}"
            for path, part in module.named_modules():
                if id(part) not in self._numbers:
                    self._numbers[id(part)] = len(self.rows)
                    self._kept.append(part)
                    self.rows.append((f"{name}.{path}" if path else name, type(part).__name__))
            number = self._numbers[id(module)]
        return number


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
