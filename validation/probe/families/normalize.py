"""Layer and RMS norm, fused and as Hugging Face writes them, over a grid of rows and widths."""

import torch
from specs import MIXED, PLAIN, Family, P, X
from torch.nn import functional

ROWS = (1, 7, 128, 616, 1024, 4096, 16384, 65537)
WIDTHS = (64, 100, 768, 1024, 4096)


def llama_rms_norm(x, weight):
    dtype = x.dtype
    hidden = x.to(torch.float32)
    variance = hidden.pow(2).mean(-1, keepdim=True)
    hidden = hidden * torch.rsqrt(variance + 1e-6)
    return weight * hidden.to(dtype)


def gemma_rms_norm(x, weight):
    hidden = x.float()
    output = hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + 1e-6)
    output = output * (1.0 + weight.float())
    return output.type_as(x)


def t5_layer_norm(x, weight):
    variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    x = x * torch.rsqrt(variance + 1e-6)
    if weight.dtype in (torch.float16, torch.bfloat16):
        x = x.to(weight.dtype)
    return weight * x


def probes():
    family = Family()
    for rows in ROWS:
        for width in WIDTHS:
            if rows * width > 70_000_000:
                continue
            size = {f"{rows}x{width}": [X(rows, width), P(width), P(width)]}
            family.add("layer_norm", lambda x, w, b: functional.layer_norm(x, w.shape, w, b), size, PLAIN, ("chained",))
            size = {f"{rows}x{width}": [X(rows, width), P(width)]}
            family.add("rms_norm", lambda x, w: functional.rms_norm(x, w.shape, w), size, PLAIN, ("chained",))
    sizes = {"small": (3, 7, 77), "large": (5, 321, 771)}
    for name, shape in sizes.items():
        width = shape[-1]
        both, one, none = [X(*shape), P(width), P(width)], [X(*shape), P(width)], [X(*shape)]
        family.add("layer_norm 3d", lambda x, w, b: functional.layer_norm(x, w.shape, w, b), {name: both}, MIXED)
        family.add("layer_norm no bias", lambda x, w: functional.layer_norm(x, w.shape, w), {name: one})
        family.add("layer_norm plain", lambda x: functional.layer_norm(x, x.shape[-1:]), {name: none})
        family.add("layer_norm two dims", lambda x: functional.layer_norm(x, x.shape[-2:]), {name: none})
        family.add("rms_norm 3d", lambda x, w: functional.rms_norm(x, w.shape, w), {name: one}, MIXED)
        family.add("rms_norm plain", lambda x: functional.rms_norm(x, x.shape[-1:]), {name: none})
        family.add(
            "layer_norm, parameters fp32",
            lambda x, w, b: functional.layer_norm(x, w.shape, w, b),
            {name: [X(*shape), P(width, dtype=torch.float32), P(width, dtype=torch.float32)]},
            ("bf16",),
        )
        family.add("llama rms_norm", llama_rms_norm, {name: one}, MIXED)
        family.add("gemma rms_norm", gemma_rms_norm, {name: one}, MIXED)
        family.add("t5 layer_norm", t5_layer_norm, {name: one}, MIXED)
        family.add("normalize", lambda x: functional.normalize(x, dim=-1), {name: none}, MIXED)
        family.add("cosine_similarity", functional.cosine_similarity, {name: [X(*shape), X(*shape)]})
        family.add("local_response_norm", lambda x: functional.local_response_norm(x, 3), {name: none})
    return family.probes
