"""One pass of the model and its loss under the recorder, in one precision, mode and size."""

from __future__ import annotations

import contextlib
import gc
import random
import re
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch

from .errors import CaptureError
from .function_mode import FunctionMode
from .inputs import Inputs
from .model_state import ModelState
from .outputs import describe, find_loss
from .patches import Patches
from .recorder import Recorder
from .regions import ModuleTable, Regions, tensors_in
from .session import Session, leave
from .tensors import META

_PRE = torch._C.DispatchKey.PreDispatch
_LARGEST_REAL_INPUT = 1 << 22
# Steps of passes that are remembered, so that another try at the same sizes need not run the model again: about 200 MB.
_REMEMBERED_STEPS = 500_000


class Precision:
    """A precision of the training: the dtype of the whole model, and that of autocast."""

    def __init__(self, name: str, dtype: Optional[torch.dtype], autocast: Optional[torch.dtype]) -> None:
        self.name = name
        self.dtype = dtype
        self.autocast = autocast


PRECISIONS: Tuple[Precision, ...] = (
    Precision("as-built", None, None),
    Precision("fp32", torch.float32, None),
    Precision("bf16", torch.bfloat16, None),
    Precision("fp16", torch.float16, None),
    Precision("amp-bf16", torch.float32, torch.bfloat16),
    Precision("amp-fp16", torch.float32, torch.float16),
)


class Recording:
    """The result of one pass."""

    def __init__(self, recorder: Recorder, outputs: Any, loss: Optional[str], held: List[int], leaves_tensors: bool = False) -> None:
        self.steps = recorder.steps
        self.rows = recorder.rows
        self.constants = recorder.constants
        self.outputs = outputs
        self.loss = loss
        self.held = held
        # Whether tensors outlive the pass and what it returned: in a cache, which the next pass may find.
        self.leaves_tensors = leaves_tensors
        self.causes = recorder.causes
        self.assumes = recorder.assumes
        self.recast = recorder.recast
        self.backwards = recorder.backwards


def step(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Dict[str, Any], loss: Optional[Callable[..., Any]], targets: Any, steps: List[Any],
) -> Tuple[Any, Any]:
    """Calls the model and the loss, as the training loop does. Marks the boundary between the model's frames and ours."""
    outputs = model(*args, **kwargs)
    if loss is None:
        return outputs, None
    steps.append(("loss",))
    value = loss(outputs, targets)
    steps.append(("end", "loss"))
    return outputs, value


def _without_compiler() -> Any:
    """Runs functions that are compiled with torch.compile eagerly."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else contextlib.nullcontext()


class _ReleasedLate(Exception):
    """Reference cycles that Python had not collected held tensors of a pass."""


class Recorded:
    """Runs passes of one model."""

    def __init__(self, model: torch.nn.Module, inputs: Inputs, loss: Optional[Callable[..., Any]], session: Session) -> None:
        self.model = model
        self.inputs = inputs
        self.loss = loss
        self.session = session
        self.modules = ModuleTable(model)
        self.state = ModelState(model)
        self._patches = Patches()
        self.regions = Regions(self.modules, self._patches)
        self._makes_cycles = False
        # Steps recorded so far, of passes that ended early and of remembered ones too.
        self.effort = 0
        self._remembered: Dict[Any, Recording] = {}
        # Then a pass depends on those before it, and none is remembered.
        self._keeps_tensors = False

    def __enter__(self) -> "Recorded":
        # The cyclic garbage collector would run at random moments of a pass and free tensors then.
        self._collecting = gc.isenabled()
        gc.disable()
        # Objects that exist already need not be looked through each time garbage is collected below.
        self._freezing = gc.get_freeze_count() == 0
        if self._freezing:
            gc.freeze()
        try:
            self.regions.install()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self._patches.undo()
        if self._freezing:
            gc.unfreeze()
        if self._collecting:
            gc.enable()

    def run(self, precision: Precision, mode: str, sizes: Dict[str, int]) -> Recording:
        """One pass. ``mode`` is ``train``, ``eval`` (without gradients) or ``eval-grad``. A pass at the same sizes is run once."""
        key = (precision.name, mode, self.session.assumed, self.inputs.spread, tuple(sorted(sizes.items())))
        recording = self._remembered.get(key)
        if recording is not None and not self._keeps_tensors:
            self.effort += len(recording.steps)
            return recording
        recording = self._run_again(precision, mode, sizes)
        if sum(len(other.steps) for other in self._remembered.values()) + len(recording.steps) <= _REMEMBERED_STEPS:
            self._remembered[key] = recording
        return recording

    def _run_again(self, precision: Precision, mode: str, sizes: Dict[str, int]) -> Recording:
        recording = self._run_until_released(precision, mode, sizes)
        if recording.recast is not None:
            # The stand-ins keep the type that they got, as the weights of a training do.
            later = self._run_until_released(precision, mode, sizes)
            later.causes.append(f"{recording.recast}: the first forward gives weights another type; it is assumed to be theirs from the start")
            return later
        if recording.leaves_tensors:
            later = self._run_until_released(precision, mode, sizes)
            if len(later.steps) < len(recording.steps):  # It found what the first pass left, as all later steps do.
                return later
        return recording

    def _run_until_released(self, precision: Precision, mode: str, sizes: Dict[str, int]) -> Recording:
        try:
            return self._run(precision, mode, sizes)
        except _ReleasedLate:
            # Imports at the first call of an operator may leave exceptions behind, whose frames hold everything below them. The
            # next pass does not import. If cycles hold tensors again, the model itself makes them, as it does in a training.
            try:
                return self._run(precision, mode, sizes)
            except _ReleasedLate:
                self._makes_cycles = True
                return self._run(precision, mode, sizes)

    def _run(self, precision: Precision, mode: str, sizes: Dict[str, int]) -> Recording:
        recorder = Recorder(self.session)
        random_state, torch_state = random.getstate(), torch.get_rng_state()
        grad = torch.is_grad_enabled()
        try:
            random.seed(0)
            torch.default_generator.manual_seed(0)
            # Autocast is used with float32 weights; a model built in another precision is trained in that precision.
            replacements = self.state.install(precision.dtype)
            self.model.train(mode == "train")
            recorder.replacements = {key: value for key, value in replacements.items()}
            self._adopt(recorder, replacements)
            args, kwargs, targets = self._inputs(recorder, precision, sizes)
            self.regions.recorder = recorder
            return self._pass(recorder, precision, mode, args, kwargs, targets)
        finally:
            recorder.active = False
            self.effort += len(recorder.steps)
            self.regions.recorder = None
            self.state.restore()
            torch.set_grad_enabled(grad)
            random.setstate(random_state)
            torch.set_rng_state(torch_state)
            recorder.close()

    def _adopt(self, recorder: Recorder, replacements: Dict[int, torch.Tensor]) -> None:
        kinds = self.session.kinds
        for entry in (*self.state.parameters, *self.state.buffers):
            tensor = replacements[id(entry.original)]
            real = not tensor.is_meta
            recorder.adopt(tensor, kinds.of(tensor), None, 0, False, leaf=True, real=real, known=real)

    def _inputs(self, recorder: Recorder, precision: Precision, sizes: Dict[str, int]) -> Tuple[List[Any], Dict[str, Any], Any]:
        made: List[torch.Tensor] = []
        for leaf in self.inputs.leaves:
            tensor = leaf.sized(sizes, self.inputs.spread)
            # Targets too: in backward most losses refuse targets of another dtype than the outputs.
            if tensor.is_floating_point() and precision.dtype is not None:
                tensor = tensor.to(precision.dtype)
            # Computations on real values run without autograd.
            if tensor.is_floating_point() and (leaf.requires_grad or tensor.numel() > _LARGEST_REAL_INPUT):
                tensor = tensor.to(META)
            tensor.requires_grad_(leaf.requires_grad)
            real = not tensor.is_meta
            info = recorder.adopt(tensor, self.session.kinds.of(tensor), None, 0, False, leaf=True, real=real, known=real)
            info.storage.given = frozenset((leaf.name,))
            made.append(tensor)
        return self.inputs.fill(made)

    def _pass(self, recorder: Recorder, precision: Precision, mode: str, args: List[Any], kwargs: Dict[str, Any], targets: Any) -> Recording:
        include = torch._C._dispatch_tls_set_dispatch_key_included
        torch.set_grad_enabled(mode != "eval")
        function_mode = FunctionMode(recorder)
        autocast = None
        recorder.active = True
        include(_PRE, True)
        try:
            with _without_compiler(), torch._C._EnablePythonDispatcher(), function_mode:
                if precision.autocast is not None:
                    autocast = torch.autocast("cuda", dtype=precision.autocast)
                    autocast.__enter__()
                try:
                    outputs, value = step(self.model, args, kwargs, self.loss, targets, recorder.steps)
                finally:
                    if autocast is not None:
                        autocast.__exit__(None, None, None)
        except CaptureError:
            raise
        except Exception as problem:
            what, hint = "the model's forward", "check that the model runs with these inputs on a GPU; if it does, please report the line"
            if ("loss",) in recorder.steps:
                what, hint = "the loss function", "it is called as loss(outputs, targets)"
                if targets is None:
                    hint += ", and no targets were given: pass targets=..."
            raise CaptureError(f"{self._line_of(problem)}: {what} failed with {type(problem).__name__}: {problem}", hint) from problem
        finally:
            recorder.active = False
            include(_PRE, False)
        described = describe(outputs, recorder)
        loss = find_loss(outputs, value, recorder)
        held = sorted(info.index for info in recorder.infos.values())
        names = set(re.findall(r"%\d+", repr(described))) | {recorder.info_of(tensor).name for tensor in tensors_in((outputs, value), [], 12)}
        given = len(self.state.parameters) + len(self.state.buffers) + len(self.inputs.leaves)
        made = [number for number in held if number >= given and number not in recorder.constants]
        kept = [number for number in made if f"%{number}" not in names]
        self._note_kept(recorder, kept)
        del outputs, value
        leaves_tensors = self._leave_returned(recorder, {number for number in made if f"%{number}" in names})
        return Recording(recorder, described, loss, held, bool(kept) or leaves_tensors)

    def _leave_returned(self, recorder: Recorder, returned: Set[int]) -> bool:
        """Whether the model keeps tensors that it returned, now that the caller has released them."""
        if returned.intersection(info.index for info in recorder.infos.values()):
            gc.collect()
        left = [info for info in recorder.infos.values() if info.index in returned]
        leave(left)
        self._keeps_tensors |= bool(left)
        return bool(left)

    def _note_kept(self, recorder: Recorder, kept: List[int]) -> None:
        """Adds a cause if the model itself keeps tensors from one step to the next."""
        if kept and not self._makes_cycles:
            gc.collect()
        still = {info.index for info in recorder.infos.values()}
        leave(info for info in recorder.infos.values() if info.index in kept)
        if not still.issuperset(kept):
            raise _ReleasedLate
        if kept:
            self._keeps_tensors = True
            recorder.cause(
                f"the model keeps {len(kept)} tensor{'s' if len(kept) > 1 else ''} beyond the step (a cache); later steps, "
                "which find them there, may differ from the recorded first one"
            )

    def _line_of(self, problem: Exception) -> str:
        """The model's line in a traceback."""
        from .sources import MODEL, shown_path

        found = "the model"
        sources = self.session.sources
        trace = problem.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if sources._kinds.get(code, None) == MODEL or (code not in sources._kinds and sources._kind(code) == MODEL):
                found = f"{shown_path(code.co_filename)}:{trace.tb_lineno} in {code.co_name}"
            trace = trace.tb_next
        return found
