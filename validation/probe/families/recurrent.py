"""Part two: RNN, LSTM and GRU through cuDNN; cells."""

import functools

import torch
from specs import Family, X
from torch import nn

# (batch, length, inputs, hidden, layers, bidirectional)
SIZES = [
    (3, 7, 17, 19, 1, False),
    (20, 35, 200, 300, 2, False),
    (16, 77, 128, 256, 2, True),
    (32, 128, 256, 256, 1, False),
    (64, 200, 512, 512, 3, False),
]


MODULES = []


@functools.cache
def layer(kind, device, dtype, inputs, hidden, layers, bidirectional, batch_first, dropout):
    torch.manual_seed(0)
    module = getattr(nn, kind)(
        inputs, hidden, layers, bidirectional=bidirectional, batch_first=batch_first, dropout=dropout
    )
    module = module.to(device=device, dtype=dtype)
    MODULES.append(module)
    return module


def forget_gradients():
    """Before each recording: the weights outlive a probe, their gradients must not."""
    for module in MODULES:
        module.zero_grad()


def call(x, *, kind, sizes, batch_first, dropout, eval_mode):
    _, _, inputs, hidden, layers, bidirectional = sizes
    module = layer(kind, x.device, x.dtype, inputs, hidden, layers, bidirectional, batch_first, dropout)
    module.train(not eval_mode)
    return module(x)[0]


def probes():
    family = Family()
    for kind in ("LSTM", "GRU", "RNN"):
        for sizes in SIZES if kind != "RNN" else SIZES[:3]:
            batch, length, inputs, hidden, layers, bidirectional = sizes
            text = f"{batch}x{length}x{inputs} to {hidden}, {layers} layers" + (", both ways" if bidirectional else "")
            for batch_first in (False, True):
                shape = (batch, length, inputs) if batch_first else (length, batch, inputs)
                for name, dropout, eval_mode in (("", 0.0, False), (" dropout", 0.2, False), (" eval", 0.0, True)):
                    if dropout and layers == 1:
                        continue
                    function = functools.partial(
                        call, kind=kind, sizes=sizes, batch_first=batch_first, dropout=dropout, eval_mode=eval_mode
                    )
                    function.prepare = forget_gradients
                    order = " batch first" if batch_first else ""
                    dtypes = ("fp32", "bf16", "fp16", "amp-bf16") if not name else ("fp32",)
                    family.add(f"{kind}{order}{name}", function, {text: [X(*shape)]}, dtypes)
    return family.probes
