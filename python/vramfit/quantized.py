"""Weights that bitsandbytes quantises when they are moved to the GPU, captured as they will be stored there.

A ``Linear4bit`` on the CPU or the meta device still has its floating-point weight; ``.cuda()`` replaces it by packed integers and the
statistics to undo that. Nothing here imports bitsandbytes: a weight of its classes proves that it is imported.
"""

from __future__ import annotations

import copy
import sys
from typing import Any, Dict, List, Optional, Tuple

import torch

from .tensors import META, numel

_NESTED_BLOCK = 256
_CODES = {"nf4": 16, "fp4": 16}


class QuantizedWeight:
    """One quantised weight: its packed form, and the tensors beside it, in the order in which quantising makes them."""

    # Of classes of bitsandbytes, whose attributes a tensor does not have.
    weight: Any

    def __init__(self, weight: Any, module: torch.nn.Module) -> None:
        self.weight = weight
        self.module = module
        self.is_int8 = _class(weight) == "Int8Params"
        self.is_done = weight.dtype is torch.int8 if self.is_int8 else bool(weight.bnb_quantized)
        self.scheme = "int8" if self.is_int8 else str(weight.quant_type)
        self.nested = not self.is_int8 and bool(weight.compress_statistics if not self.is_done else weight.quant_state.nested)
        self.blocksize = None if self.is_int8 else int(weight.blocksize)
        self.storage = torch.int8 if self.is_int8 else (weight.dtype if self.is_done else weight.quant_storage)
        self.shape: Tuple[int, ...] = tuple(weight.quant_state.shape) if self.is_done and not self.is_int8 else tuple(weight.shape)
        # The type of the weight before it is quantised, which is that of what dequantising makes.
        self.source: torch.dtype = weight.dtype
        if self.is_done:
            self.source = torch.float16 if self.is_int8 else weight.quant_state.dtype
        # Another tensor with the stand-in's memory, which the module uses instead.
        self.same: Optional[torch.Tensor] = None
        self.states: Dict[str, torch.Tensor] = {name: torch.empty(shape, dtype=dtype, device=META) for name, shape, dtype in self._states()}

    def packed(self) -> torch.Tensor:
        """What the weight becomes, without values."""
        if self.is_int8:
            return torch.empty(self.shape, dtype=torch.int8, device=META)
        count = (numel(self.shape) + 1) // (self.storage.itemsize * 2)
        return torch.empty((count, 1), dtype=self.storage, device=META)

    def _states(self) -> List[Tuple[str, Tuple[int, ...], torch.dtype]]:
        if self.is_int8:
            return [("SCB", (self.shape[0],), torch.float32)]
        assert self.blocksize is not None
        blocks = -(numel(self.shape) // -self.blocksize)
        code = ("quant_map", (_CODES[self.scheme],), torch.float32)
        if not self.nested:
            return [("absmax", (blocks,), torch.float32), code]
        return [
            code, ("nested_offset", (), torch.float32), ("nested_absmax", (-(blocks // -_NESTED_BLOCK),), torch.float32),
            ("absmax", (blocks,), torch.uint8), ("nested_quant_map", (_NESTED_BLOCK,), torch.float32),
        ]

    def stand_in(self, states: Dict[str, torch.Tensor], dtype: Optional[torch.dtype]) -> torch.Tensor:
        """The weight as it is after ``.cuda()``; ``states`` stand in for the tensors beside it."""
        kind: Any = type(self.weight)
        if self.is_int8:
            self.same = self.packed()
            made: torch.Tensor = kind(self.same, requires_grad=False, has_fp16_weights=False)
            # The first forward hands the packed weight and its statistics to the module's state.
            state: Any = copy.copy(self.module.state)
            state.CB, state.SCB = self.same, states["SCB"]
            vars(self.module)["state"] = state
            return made
        source = self.source if self.is_done or dtype is None else dtype
        state_kind = getattr(sys.modules["bitsandbytes.functional"], "QuantState")
        second = None
        if self.nested:
            second = state_kind(absmax=states["nested_absmax"], code=states["nested_quant_map"], blocksize=_NESTED_BLOCK, dtype=torch.float32)
        state = state_kind(
            absmax=states["absmax"], shape=torch.Size(self.shape), code=states["quant_map"], blocksize=self.blocksize, quant_type=self.scheme,
            dtype=source, offset=states.get("nested_offset"), state2=second,
        )
        made = kind(
            self.packed(), requires_grad=False, quant_state=state, blocksize=self.blocksize, compress_statistics=self.nested, quant_type=self.scheme,
            quant_storage=self.storage, module=self.module, bnb_quantized=True,
        )
        vars(self.module)["quant_state"] = state
        return made

    def described(self, numbers: Dict[int, int]) -> Dict[str, Any]:
        """What a capture says of it; ``numbers`` are those of the tensors beside it."""
        described: Dict[str, Any] = {
            "scheme": self.scheme, "shape": list(self.shape), "dtype": str(self.source).replace("torch.", ""),
            "states": [numbers[id(state)] for state in self.states.values()], "moved_packed": self.is_done,
        }
        if self.blocksize is not None:
            described["blocksize"] = self.blocksize
            described["nested"] = self.nested
        return described


def _class(weight: torch.Tensor) -> str:
    kind = type(weight)
    return kind.__name__ if kind.__module__.startswith("bitsandbytes.") else ""


def find(model: torch.nn.Module) -> Dict[int, QuantizedWeight]:
    """The quantised weights of a model, keyed by their ``id``."""
    found: Dict[int, QuantizedWeight] = {}
    for module in model.modules():
        for weight in module._parameters.values():
            if weight is not None and _is_quantized(weight) and id(weight) not in found:
                found[id(weight)] = QuantizedWeight(weight, module)
    return found


def _is_quantized(weight: torch.Tensor) -> bool:
    kind = _class(weight)
    return kind == "Params4bit" or (kind == "Int8Params" and not getattr(weight, "has_fp16_weights", False))
