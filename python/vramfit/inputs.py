"""The example inputs and targets: their names, which of their sizes are symbols, and copies with other sizes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch

from .errors import CaptureError
from .tensors import META

Size = Union[int, str]


class Leaf:
    """One tensor of the inputs or targets."""

    def __init__(self, name: str, example: torch.Tensor, is_input: bool) -> None:
        self.name = name
        self.is_input = is_input
        self.dtype = example.dtype
        self.shape: Tuple[int, ...] = tuple(example.shape)
        self.symbols: List[Optional[str]] = [None] * example.dim()
        self.requires_grad = example.requires_grad
        self.example = self._values(name, example)
        # Dimensions from the outermost in memory to the innermost; for channels-last images this is not their logical order.
        strides = torch.empty_like(self.example, device=META).stride()
        self._order = sorted(range(example.dim()), key=lambda dim: (-strides[dim], self.shape[dim] == 1, dim))

    @staticmethod
    def _values(name: str, example: torch.Tensor) -> torch.Tensor:
        example = example.detach()
        if example.is_meta and not example.is_floating_point():
            fill = 1 if "mask" in name or example.dtype is torch.bool else 0
            return torch.full(example.shape, fill, dtype=example.dtype)
        return example if example.is_meta or example.device.type == "cpu" else example.cpu()

    def sized(self, sizes: Dict[str, int], spread: bool = False) -> torch.Tensor:
        """The example tiled or cropped to other sizes. Always a new tensor, with the example's memory format.

        ``spread`` crops by dropping positions evenly, so that padding at either end of a mask stays.
        """
        tensor = self.example
        for dim, symbol in enumerate(self.symbols):
            wanted = sizes.get(symbol, tensor.shape[dim]) if symbol is not None else tensor.shape[dim]
            if wanted != tensor.shape[dim]:
                tensor = self._resized(tensor, dim, wanted, spread)
        if tensor is self.example:
            return torch.empty_like(tensor) if tensor.is_meta else tensor.clone()
        places = [self._order.index(dim) for dim in range(tensor.dim())]
        return tensor.permute(self._order).clone(memory_format=torch.contiguous_format).permute(places)

    @staticmethod
    def _resized(tensor: torch.Tensor, dim: int, wanted: int, spread: bool) -> torch.Tensor:
        size = tensor.shape[dim]
        if tensor.is_meta:
            shape = list(tensor.shape)
            shape[dim] = wanted
            return torch.empty(shape, dtype=tensor.dtype, device=META)
        if tensor.dtype in (torch.int32, torch.int64) and size > 1 and bool((tensor.diff(dim=dim) == 1).all()):
            shape = [1] * tensor.dim()
            shape[dim] = wanted
            return tensor.narrow(dim, 0, 1) + torch.arange(wanted, dtype=tensor.dtype).view(shape)
        if wanted <= size and not spread:
            return tensor.narrow(dim, 0, wanted)
        if wanted < size and wanted > 1:
            return tensor.index_select(dim, torch.arange(wanted) * (size - 1) // (wanted - 1))
        return tensor.index_select(dim, torch.arange(wanted) % size)


class Inputs:
    """All inputs and targets of a capture."""

    def __init__(self, model: torch.nn.Module, inputs: Any, targets: Any, sizes: Optional[Mapping[str, Sequence[Size]]]) -> None:
        self.leaves: List[Leaf] = []
        names = self._parameter_names(model)
        if isinstance(inputs, torch.Tensor):
            inputs = (inputs,)
        if isinstance(inputs, Mapping):
            self._args: List[Any] = []
            self._kwargs = {str(name): self._take(value, str(name), True) for name, value in inputs.items()}
        elif isinstance(inputs, (tuple, list)):
            self._args = [self._take(value, names[at] if at < len(names) else f"input{at}", True) for at, value in enumerate(inputs)]
            self._kwargs = {}
        else:
            raise CaptureError(
                f"inputs: found {type(inputs).__name__}, needed a dict of keyword arguments, a tuple, or one tensor",
                "pass what you would pass to the model, as model(**inputs) or model(*inputs)",
            )
        self._targets = self._take(targets, "targets", False)
        self._name_sizes(dict(sizes or {}))

    @staticmethod
    def _parameter_names(model: torch.nn.Module) -> List[str]:
        try:
            parameters = inspect.signature(model.forward).parameters.values()
        except (TypeError, ValueError):
            return []
        return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    def _take(self, value: Any, name: str, is_input: bool) -> Any:
        """A structure with its tensors replaced by leaves."""
        if isinstance(value, torch.Tensor):
            leaf = Leaf(name, value, is_input)
            self.leaves.append(leaf)
            return leaf
        if isinstance(value, Mapping):
            inner = {key: self._take(item, f"{name}.{key}", is_input) for key, item in value.items()}
            return inner
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*(self._take(item, f"{name}.{field}", is_input) for field, item in zip(value._fields, value)))
        if isinstance(value, (list, tuple)):
            return type(value)(self._take(item, f"{name}.{at}", is_input) for at, item in enumerate(value))
        return value

    def fill(self, tensors: Sequence[torch.Tensor]) -> Tuple[List[Any], Dict[str, Any], Any]:
        """Arguments, keyword arguments and targets with the leaves replaced by these tensors."""
        by_leaf = {id(leaf): tensor for leaf, tensor in zip(self.leaves, tensors)}

        def build(value: Any) -> Any:
            if isinstance(value, Leaf):
                return by_leaf[id(value)]
            if isinstance(value, dict):
                return {key: build(item) for key, item in value.items()}
            if isinstance(value, tuple) and hasattr(value, "_fields"):
                return type(value)(*(build(item) for item in value))
            if isinstance(value, (list, tuple)):
                return type(value)(build(item) for item in value)
            return value

        return [build(value) for value in self._args], {name: build(value) for name, value in self._kwargs.items()}, build(self._targets)

    # -- symbols ------------------------------------------------------------------------------------------------------

    def _name_sizes(self, sizes: Dict[str, Sequence[Size]]) -> None:
        by_name = {leaf.name: leaf for leaf in self.leaves}
        unknown = [name for name in sizes if name not in by_name]
        if unknown:
            raise CaptureError(
                f"sizes: found {unknown[0]!r}, which is no input or target; there are {', '.join(map(repr, by_name))}",
                "use the names of the model's keyword arguments, or \"targets\"",
            )
        examples: Dict[str, int] = {}
        for name, entries in sizes.items():
            self._name_given(by_name[name], entries, examples)
        for leaf in self.leaves:
            if leaf.name not in sizes:
                self._name_default(leaf, examples)
        self.examples = examples
        self.spread = False

    @staticmethod
    def _name_given(leaf: Leaf, entries: Sequence[Size], examples: Dict[str, int]) -> None:
        if len(entries) != len(leaf.shape):
            raise CaptureError(
                f"sizes[{leaf.name!r}]: found {len(entries)} sizes, needed {len(leaf.shape)} for shape {list(leaf.shape)}",
                "give one name or number per dimension",
            )
        for dim, entry in enumerate(entries):
            if isinstance(entry, str):
                if not entry.isidentifier():
                    raise CaptureError(f"sizes[{leaf.name!r}]: {entry!r} is no name for a size", "use letters, digits and _")
                if examples.setdefault(entry, leaf.shape[dim]) != leaf.shape[dim]:
                    raise CaptureError(
                        f"sizes[{leaf.name!r}]: {entry!r} is {leaf.shape[dim]} here and {examples[entry]} elsewhere",
                        "give the two sizes different names",
                    )
                leaf.symbols[dim] = entry
            elif entry is not None and entry != leaf.shape[dim]:
                raise CaptureError(f"sizes[{leaf.name!r}]: found {leaf.shape[dim]} in dimension {dim}, needed {entry}", "correct the number")

    @staticmethod
    def _name_default(leaf: Leaf, examples: Dict[str, int]) -> None:
        wanted = []
        if leaf.shape:
            wanted.append((0, "batch"))
        integer = not leaf.dtype.is_floating_point and not leaf.dtype.is_complex
        # Dimension 1 of a target is a sequence only if an input has that size too: it may be the height of a mask.
        if len(leaf.shape) > 1 and integer and (leaf.is_input or examples.get("seq") == leaf.shape[1]):
            wanted.append((1, "seq"))
        for dim, name in wanted:
            if examples.setdefault(name, leaf.shape[dim]) != leaf.shape[dim]:
                name = f"{name}_{leaf.name.replace('.', '_')}"
                examples[name] = leaf.shape[dim]
            leaf.symbols[dim] = name
