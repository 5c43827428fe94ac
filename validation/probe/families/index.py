"""Embedding, gather, scatter, index, sort, topk: their gradients need sorting buffers on the GPU."""

import torch
from specs import ALL, LARGE, PLAIN, C, Family, I, P, X
from torch.nn import functional

VOCABULARY = (2, 100, 512, 5003, 30522)
TOKENS = ((1, 77), (4, 128), (8, 384), (3073,), (8, 512), (16, 1000), (64, 1024))


def probes():
    family = Family()
    embeddings(family)
    indexing(family)
    sorting(family)
    return family.probes


def embeddings(family):
    for vocabulary in VOCABULARY:
        for tokens in TOKENS:
            size = {f"{vocabulary} by {'x'.join(map(str, tokens))}": [I(*tokens, high=vocabulary), P(vocabulary, 129)]}
            family.add("embedding", functional.embedding, size, PLAIN, ("leaf",))
    for width in (64, 768, 4096):
        size = {f"width {width}": [I(8, 512, high=997), P(997, width)]}
        family.add("embedding", functional.embedding, size, ALL, ("leaf", "chained", "no_grad"))
    sizes = {"small": [I(3, 77, high=55), P(55, 64)], "large": [I(16, 300, high=30522), P(30522, 200)]}
    family.add("embedding padding", lambda i, w: functional.embedding(i, w, padding_idx=0), sizes)
    family.add("embedding by frequency", lambda i, w: functional.embedding(i, w, scale_grad_by_freq=True), sizes)
    family.add("embedding in autocast", functional.embedding, sizes, ("amp-bf16",))
    family.add(
        "embedding max_norm", lambda i, w: functional.embedding(i, w, max_norm=1.0), sizes, ("fp32",), ("no_grad",)
    )
    family.add("embedding twice", lambda i, w: functional.embedding(i, w) + functional.embedding(i.flip(0), w), sizes)
    family.add(
        "tied embedding",
        lambda i, w: functional.linear(functional.embedding(i, w), w),
        {"large": [I(4, 300, high=5003), P(5003, 200)]},
    )
    broadcast = {"position": [I(1, 128, high=512), P(512, 384)], "types": [I(16, 128, high=2), P(2, 384)]}
    family.add("embedding", functional.embedding, broadcast)
    for mode in ("sum", "mean", "max"):
        family.add(
            f"embedding_bag {mode}", lambda i, w, m=mode: functional.embedding_bag(i, w, mode=m), sizes, ("fp32",)
        )


def indexing(family):
    rows = {"small": [X(33, 77), I(9, high=33)], "large": [X(1605, 771), I(1001, high=1605)]}
    family.add("index_select rows", lambda x, i: x.index_select(0, i), rows)
    family.add("index rows", lambda x, i: x[i], rows)
    columns = {"small": [X(33, 77), I(9, high=77)], "large": [X(1605, 771), I(301, high=771)]}
    family.add("index_select columns", lambda x, i: x.index_select(1, i), columns)
    family.add("index columns", lambda x, i: x[:, i], columns)
    table = {"bias table": [P(32, 8), I(300, 300, high=32)], "big": [P(5003, 129), I(8, 512, high=5003)]}
    family.add("index table", lambda w, i: w[i], table)
    pooled = {"small": [X(3, 7, 77), I(3, high=7)], "large": [X(16, 321, 771), I(16, high=321)]}
    family.add("index pair", lambda x, i: x[torch.arange(x.shape[0], device=x.device), i], pooled)
    mask = {"small": [X(33, 77), I(33, high=2)], "large": [X(1605, 771), I(1605, high=2)]}
    family.add("index mask", lambda x, m: x[m.bool()], mask)
    same = {"small": [X(33, 77), I(33, 9, high=77)], "large": [X(1605, 771), I(1605, 301, high=771)]}
    family.add("gather", lambda x, i: x.gather(1, i), same, ALL)
    family.add("gather one", lambda x, i: x.gather(1, i[:, :1]), same)
    family.add("take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), same)
    family.add("take", lambda x, i: x.take(i), same)
    scattered = {
        "small": [X(33, 77), I(33, 9, high=77), X(33, 9)],
        "large": [X(1605, 771), I(1605, 301, high=771), X(1605, 301)],
    }
    family.add("scatter", lambda x, i, y: x.scatter(1, i, y), scattered)
    family.add("scatter value", lambda x, i, y: x.scatter(1, i, 0.0), scattered)
    family.add("scatter_add", lambda x, i, y: x.scatter_add(1, i, y), scattered)
    family.add("scatter_reduce amax", lambda x, i, y: x.scatter_reduce(1, i, y, "amax"), scattered)
    added = {"small": [X(33, 77), I(9, high=33), X(9, 77)], "large": [X(1605, 771), I(1001, high=1605), X(1001, 771)]}
    family.add("index_add", lambda x, i, y: x.index_add(0, i, y), added)
    family.add("index_copy", lambda x, i, y: x.index_copy(0, i, y), added)
    family.add("index_fill", lambda x, i, y: x.index_fill(0, i, 0.0), added)
    family.add("index_put", lambda x, i, y: x.index_put((i,), y), added)
    family.add("index_put accumulate", lambda x, i, y: x.index_put((i,), y, accumulate=True), added)
    family.add(
        "masked_scatter", lambda x, y: x.masked_scatter(x > 0.5, y), {"large": [X(*LARGE), X(*LARGE)]}, ("fp32",)
    )


def sorting(family):
    for size, shape in {
        "small": (3, 77),
        "large": (5, 321, 771),
        "one row": (1_000_003,),
        "long rows": (9, 50257),
    }.items():
        given = {size: [X(*shape)]}
        family.add("sort", lambda x: x.sort(-1), given)
        family.add(
            "sort descending stable", lambda x: x.sort(dim=-1, descending=True, stable=True), given, modes=("no_grad",)
        )
        family.add("argsort", lambda x: x.argsort(-1), given, modes=("no_grad",))
        family.add("topk 5", lambda x: x.topk(5, -1), given)
        family.add("topk 50", lambda x: x.topk(50, -1), given)
        family.add("kthvalue", lambda x: x.kthvalue(3, -1), given)
        family.add("unique", lambda x: torch.unique(x), given, ("fp32",), ("no_grad",))
    for elements in (77, 4097, 100_003, 1_000_003):
        size = {str(elements): [I(elements, high=997)]}
        family.add("sort integers", lambda x: x.sort(), size, ("fp32",), ("no_grad",))
        family.add("bincount", lambda x: torch.bincount(x, minlength=997), size, ("fp32",), ("no_grad",))
        family.add("cumsum integers", lambda x: x.cumsum(0), size, ("fp32",), ("no_grad",))
        family.add("nonzero", lambda x: x.nonzero(), size, ("fp32",), ("no_grad",))
    sizes = {"large": [I(16, 1000, high=2)]}
    family.add("cumsum rows integers", lambda x: x.cumsum(1), sizes, ("fp32",), ("no_grad",))
    family.add("searchsorted", torch.searchsorted, {"large": [C(1001), C(100_001)]}, ("fp32",), ("no_grad",))
