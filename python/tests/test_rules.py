"""The recorder's own shape rules agree with PyTorch's meta kernels."""

import itertools

import pytest
import torch
from vramfit.rules import _RULES, contiguous_stride, recurrent, shape_of
from vramfit.tensors import Kinds

X = torch.empty(2, 3, 8, device="meta")
ROW = torch.empty(8, device="meta")
IMAGE = torch.empty(2, 4, 6, 6, device="meta")
CHANNEL = torch.empty(4, device="meta")
Q = torch.empty(2, 4, 5, 8, device="meta")
LOGITS, TARGET = torch.empty(6, 10, device="meta"), torch.empty(6, dtype=torch.long, device="meta")
CALLS = [("add.Tensor", (X, X)), ("add.Tensor", (X, ROW)), ("mul.Tensor", (ROW, X)), ("mul.Tensor", (X, 2.0)), ("div.Tensor", (X, 3)),
         ("sub.Tensor", (X, torch.empty(3, 8, device="meta"))), ("add.Tensor", (X, torch.empty(2, 1, 8, device="meta"))),
         ("pow.Tensor_Scalar", (X, 2)), ("dropout", (X, 0.1, True)), ("dropout", (X, 0.1, False)), ("dropout", (X, 0.0, True)),
         ("linear", (X, torch.empty(5, 8, device="meta"), torch.empty(5, device="meta"))), ("linear", (X, torch.empty(5, 8, device="meta"))),
         ("layer_norm", (X, [8], ROW, ROW)), ("layer_norm", (X, [3, 8])), ("batch_norm", (IMAGE, CHANNEL, CHANNEL, CHANNEL, CHANNEL, True, 0.1, 1e-5, True)),
         ("batch_norm", (IMAGE, None, None, None, None, True, 0.1, 1e-5, True)), ("scaled_dot_product_attention", (Q, Q, Q)),
         ("scaled_dot_product_attention", (Q.transpose(1, 2).contiguous().transpose(1, 2), Q, torch.empty(2, 4, 5, 16, device="meta"))),
         ("cross_entropy_loss", (LOGITS, TARGET)), ("cross_entropy_loss", (IMAGE, torch.empty(2, 6, 6, dtype=torch.long, device="meta")))]
CALLS += [(name.replace("aten::", ""), (X,)) for name in _RULES if _RULES[name].__name__ == "_pointwise"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name, args", CALLS)
def test_a_rule_answers_as_the_meta_kernel_does(name, args, dtype):
    args = [arg.to(dtype) if isinstance(arg, torch.Tensor) and arg.is_floating_point() else arg for arg in args]
    kinds = [Kinds().of(arg) for arg in args if isinstance(arg, torch.Tensor)]
    shape = shape_of(f"aten::{name}", args, {}, kinds)
    packet, _, overload = name.partition(".")
    result = getattr(getattr(torch.ops.aten, packet), overload or "default")(*args)
    if shape is None:
        assert result is args[0] or not result.is_contiguous() or name == "add.Tensor"
    else:
        assert tuple(result.shape) == shape and tuple(result.stride()) == contiguous_stride(shape) and result.dtype is dtype


def test_every_rule_is_tried_above():
    assert {f"aten::{name}" for name, _ in CALLS} == set(_RULES) - {"aten::_grouped_mm"}


def test_grouped_products_are_not_for_bfloat16_alone():
    args = (torch.empty(6, 8, device="meta"), torch.empty(3, 5, 8, device="meta").transpose(1, 2))
    assert shape_of("aten::_grouped_mm", args, {}, [Kinds().of(arg) for arg in args]) == (6, 5)


@pytest.mark.parametrize("kind, first, both", itertools.product(("LSTM", "GRU", "RNN"), (True, False), (True, False)))
def test_recurrent_shapes_are_those_of_a_real_run(kind, first, both):
    module = getattr(torch.nn, kind)(4, 6, 2, batch_first=first, bidirectional=both)
    seen = {}

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if getattr(func, "__name__", "") in ("lstm", "gru", "rnn_tanh"):
                seen["args"], seen["result"], seen["name"] = args, result, func.__name__
            return result

    with Mode():
        module(torch.randn(3, 5, 4))
    args = seen["args"]
    states = list(args[1]) if isinstance(args[1], tuple) else [args[1]]
    kinds = [Kinds().of(tensor) for tensor in (args[0], *states, *args[2])]
    found = recurrent(f"aten::{seen['name']}.input", args, kinds)
    assert [shape for shape, _ in found] == [tuple(tensor.shape) for tensor in seen["result"]]
    assert found[0][1] == tuple(seen["result"][0].stride())
