"""Makes a model's inputs and targets on the CPU."""

import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "as-built": None}
TINY_HIGH = 512


def sizes(tensor, symbols):
    return tuple(symbols[size] if isinstance(size, str) else size for size in tensor.shape)


def make_tensor(tensor, symbols, dtype, tiny=False):
    """Floats are cast to the model's dtype here, on the CPU."""
    shape = sizes(tensor, symbols)
    if tensor.kind == "integer" and tensor.fill == "random":
        return torch.randint(0, min(tensor.high, TINY_HIGH) if tiny else tensor.high, shape)
    if tensor.kind == "integer":
        values = torch.ones(shape, dtype=torch.int64)
        if tensor.fill == "padding":
            values[1::2, shape[1] - shape[1] // 4 :] = 0
        return values
    if tensor.kind == "boolean":
        return torch.rand(shape) < 0.5
    values = torch.randn(shape)
    if tensor.fill == "channels-last":
        values = values.to(memory_format=torch.channels_last)
    return values if tensor.kind == "float32" else values.to(DTYPES[dtype] or torch.float32)


def make_inputs(model, case, tiny=False):
    """The dict for model(**inputs), and the target or None."""
    symbols = {"batch": case.batch, "seq": case.seq}
    torch.manual_seed(1)
    inputs = {name: make_tensor(tensor, symbols, case.dtype, tiny) for name, tensor in model.inputs.items()}
    targets = make_tensor(model.targets, symbols, case.dtype, tiny) if model.targets else None
    return inputs, targets
