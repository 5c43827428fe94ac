"""Library workspaces: what the first call on a thread allocates and keeps, each in a fresh process."""

import torch
from recorder import Recorder
from torch.nn import functional

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}


def tensors(device, dtype, *shapes):
    return [torch.rand(shape, device=device).to(DTYPES[dtype]).requires_grad_() for shape in shapes]


# Name of a call: its function and the shapes of its arguments.
CALLS = {
    "mm": (torch.mm, (128, 77), (77, 99)),
    "mm even": (torch.mm, (128, 64), (64, 256)),
    "mm large": (torch.mm, (2048, 1024), (1024, 4096)),
    "mv": (torch.mv, (128, 77), (77,)),
    "dot": (torch.dot, (777,), (777,)),
    "bmm": (torch.bmm, (4, 128, 64), (4, 64, 96)),
    "matmul 4d": (torch.matmul, (2, 4, 128, 64), (2, 4, 64, 96)),
    "addmm": (torch.addmm, (96,), (128, 64), (64, 96)),
    "addmm full bias": (torch.addmm, (128, 96), (128, 64), (64, 96)),
    "baddbmm": (torch.baddbmm, (4, 128, 96), (4, 128, 64), (4, 64, 96)),
    "linear": (functional.linear, (128, 64), (96, 64)),
    "linear 3d": (functional.linear, (2, 64, 64), (96, 64)),
    "linear bias": (functional.linear, (128, 64), (96, 64), (96,)),
    "linear bias odd": (functional.linear, (129, 77), (65, 77), (65,)),
    "linear bias 3d": (functional.linear, (2, 64, 64), (96, 64), (96,)),
    "linear bias large": (functional.linear, (4, 512, 768), (3072, 768), (3072,)),
    "linear bias one output": (functional.linear, (128, 64), (1, 64), (1,)),
    "sdpa": (functional.scaled_dot_product_attention, *[(2, 4, 128, 64)] * 3),
    "sdpa small": (functional.scaled_dot_product_attention, *[(2, 4, 77, 32)] * 3),
    "conv2d": (functional.conv2d, (2, 16, 32, 32), (32, 16, 3, 3)),
    "linear then mm": (lambda x, w, b, y: functional.linear(x, w, b) @ y, (128, 64), (96, 64), (96,), (96, 32)),
    "mm then linear": (lambda y, x, w, b: functional.linear(y @ x, w, b), (128, 32), (32, 64), (96, 64), (96,)),
    "bmm then mm": (lambda a, b, c: torch.bmm(a, b)[0] @ c, (4, 128, 64), (4, 64, 96), (96, 32)),
}


def jobs():
    for name in CALLS:
        for dtype in ("fp32", "bf16", "fp16"):
            yield {"name": f"workspace|{name}|{dtype}", "call_name": name, "dtype": dtype, "amp": None}
    for name in ("linear bias", "mm", "sdpa"):
        for amp in ("bf16", "fp16"):
            yield {"name": f"workspace|{name}|amp-{amp}", "call_name": name, "dtype": "fp32", "amp": amp}
    yield {"name": "workspace|mm|fp64", "call_name": "mm", "dtype": "fp64", "amp": None}
    yield {"name": "workspace|linear bias|fp64", "call_name": "linear bias", "dtype": "fp64", "amp": None}


def run(call_name, dtype, amp, device):
    """Forward and backward twice, each part recorded; the second shows what is paid only once."""
    recorder = Recorder(device)
    function, *shapes = CALLS[call_name]
    arguments = tensors(device, dtype, *shapes)
    recorder.start()
    for turn in ("first", "second"):
        with torch.autocast(device, dtype=DTYPES[amp or "bf16"], enabled=bool(amp)):
            output = function(*arguments)
        recorder.mark(f"{turn} forward")
        gradient = torch.ones_like(output)
        recorder.mark(f"{turn} gradient")
        output.backward(gradient)
        recorder.mark(f"{turn} backward")
        del output, gradient
        for argument in arguments:
            argument.grad = None
        recorder.mark(f"{turn} dropped")
    parts = recorder.finish()
    stats = torch.cuda.memory_stats() if device == "cuda" else {}
    return {
        **parts,
        "arguments": [list(shape) for shape in shapes],
        "allocated_at_end": stats.get("allocated_bytes.all.current"),
        "requested_at_end": stats.get("requested_bytes.all.current"),
    }
