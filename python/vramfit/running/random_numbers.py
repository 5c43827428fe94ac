"""The host's random numbers, as a run on a GPU would draw them.

Seeded scripts shuffle their data and choose lengths by numbers that depend on everything drawn before. Here some draws are left out,
since nobody needs the values of weights, and others are made on the host though they belong to the GPU. So left-out draws are owed and
made up for before the next number is drawn, and numbers of the GPU come from a state of their own.
"""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional, Tuple

import torch
from torch.utils.data._utils import worker as workers

from ..patches import Patches

# A multiple of 16, by which normal numbers are drawn.
_PIECE = 1 << 16
_DRAWS_IN_PIECES = 16
# Which in-place operator draws as many numbers as another.
_FILLS = {
    "uniform_": ("uniform_", "rand", "rand_like"), "normal_": ("normal_", "randn", "randn_like", "normal"), "exponential_": ("exponential_",),
    "bernoulli_": ("bernoulli", "bernoulli_", "dropout", "dropout_", "native_dropout"),
}
_FILL_OF: Dict[str, str] = {f"aten::{name}": fill for fill, names in _FILLS.items() for name in names}


class RandomNumbers:
    """What the host's generator still has to draw, and the state that stands for the GPU's generator."""

    def __init__(self, paused: Callable[[], ContextManager[None]]) -> None:
        # A context in which nothing is recorded.
        self._paused = paused
        self._owed: List[Tuple[str, int, torch.dtype, bool]] = []
        self._gpu = _seeded(0)
        # Whether the script ever said where the host's numbers begin.
        self.is_seeded = False

    def install(self, patches: Patches) -> None:
        """Has the functions of torch that read or set the generator know of owed draws."""

        def settles(original: Callable[..., Any]) -> Callable[..., Any]:
            def read(*args: Any, **kwargs: Any) -> Any:
                self.settle()
                return original(*args, **kwargs)

            return read

        def forgets(original: Callable[..., Any]) -> Callable[..., Any]:
            def set_state(*args: Any, **kwargs: Any) -> Any:
                self._owed.clear()
                self.is_seeded = original.__name__ != "seed"
                return original(*args, **kwargs)

            return set_state

        for name, changed in (("get_rng_state", settles), ("set_rng_state", forgets), ("manual_seed", forgets), ("seed", forgets)):
            replacement = changed(getattr(torch.random, name))
            patches.set(torch.random, name, replacement)
            patches.set(torch, name, replacement)

    @contextlib.contextmanager
    def drawn(self, host: bool, generator: Optional[torch.Generator]) -> Iterator[None]:
        """A context in which an operator draws its numbers."""
        if generator is not None:
            yield
        elif host:
            self.settle()
            yield
        else:
            before = torch.default_generator.get_state()
            torch.default_generator.set_state(self._gpu)
            try:
                yield
            finally:
                self._gpu = torch.default_generator.get_state()
                torch.default_generator.set_state(before)

    def left_out(self, name: str, count: int, dtype: torch.dtype, contiguous: bool, generator: Optional[torch.Generator]) -> bool:
        """Owes the numbers that an operator on the host would have drawn. Returns whether it is known how many these are."""
        fill = _FILL_OF.get(name)
        if fill is None:
            return False
        if generator is None:
            self._owed.append((fill, count, dtype, contiguous))
        else:
            with torch._C.DisableTorchFunction(), self._paused():
                _draw(fill, count, dtype, contiguous, generator)
        return True

    def settle(self) -> None:
        """Draws what is owed."""
        if self._owed:
            with torch._C.DisableTorchFunction(), self._paused():
                for fill, count, dtype, contiguous in self._owed:
                    _draw(fill, count, dtype, contiguous, None)
            self._owed.clear()


class WorkerNumbers:
    """The random numbers of a data loader's workers, each of which has seeds of its own."""

    def __init__(self, count: int, seed: int, begin: Optional[Callable[[int], None]], dataset: Any) -> None:
        self._count, self._seed, self._begin, self._dataset = count, seed, begin, dataset
        self._states: Dict[int, Tuple[Any, ...]] = {}
        self._batches = 0

    @contextlib.contextmanager
    def next_batch(self) -> Iterator[None]:
        """A context in which the next worker makes its batch."""
        number = self._batches % self._count
        self._batches += 1
        before, info = _states(), workers._worker_info
        workers._worker_info = workers.WorkerInfo(id=number, num_workers=self._count, seed=self._seed + number, dataset=self._dataset)
        try:
            if number in self._states:
                _set_states(self._states[number])
            else:
                self._seed_worker(number)
            yield
            self._states[number] = _states()
        finally:
            workers._worker_info = info
            _set_states(before)

    def collating(self, collate: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The same without a worker: in one, PyTorch collates into shared memory, which tensors without values do not have."""

        def collated(items: Any) -> Any:
            info, workers._worker_info = workers._worker_info, None
            try:
                return collate(items)
            finally:
                workers._worker_info = info

        return collated

    def _seed_worker(self, number: int) -> None:
        """As PyTorch begins a worker."""
        seed = self._seed + number
        random.seed(seed)
        torch.default_generator.set_state(_seeded(seed))
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            numpy.random.seed(workers._generate_state(self._seed, number))
        if self._begin is not None:
            self._begin(number)


def _draw(fill: str, count: int, dtype: torch.dtype, contiguous: bool, generator: Optional[torch.Generator]) -> None:
    """Draws as an in-place operator does that fills so many elements."""
    while count > 0:
        # The last piece of normal numbers draws more than its elements unless they are a multiple of 16, and other numbers below 16.
        size = count if count < _PIECE + _DRAWS_IN_PIECES else _PIECE
        target = torch.empty(size if contiguous else 2 * size, dtype=dtype, device="cpu")
        getattr(target if contiguous else target[::2], fill)(generator=generator)
        count -= size


def _seeded(seed: int) -> torch.Tensor:
    return torch._C.Generator().manual_seed(seed).get_state()


def _states() -> Tuple[Any, ...]:
    numpy = sys.modules.get("numpy")
    return torch.default_generator.get_state(), random.getstate(), numpy.random.get_state() if numpy is not None else None


def _set_states(states: Tuple[Any, ...]) -> None:
    torch.default_generator.set_state(states[0])
    random.setstate(states[1])
    numpy = sys.modules.get("numpy")
    if numpy is not None and states[2] is not None:
        numpy.random.set_state(states[2])
