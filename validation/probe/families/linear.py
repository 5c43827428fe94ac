"""Linear layers and matrix products."""

import torch
from specs import MIXED, PLAIN, C, Family, P, X
from torch.nn import functional


def probes():
    family = Family()
    shapes = {
        "2d small": ((3, 77), 65),
        "2d large": ((1501, 771), 515),
        "3d small": ((3, 7, 77), 65),
        "3d large": ((5, 321, 771), 515),
        "3d wide": ((4, 128, 256), 30522),
        "4d": ((2, 3, 333, 129), 515),
        "one row": ((1, 771), 515),
        "one output": ((5, 321, 771), 1),
        "two outputs": ((8, 768), 2),
    }
    for size, (shape, outputs) in shapes.items():
        weight = P(outputs, shape[-1])
        family.add("linear bias", functional.linear, {size: [X(*shape), weight, P(outputs)]}, MIXED)
        family.add("linear", functional.linear, {size: [X(*shape), weight]}, MIXED)
    small, large = (3, 7, 77), (5, 321, 771)
    sizes = {"small": small, "large": large}
    for name, shape in sizes.items():
        wide = shape[-1]
        family.add("linear bias, input without grad", functional.linear, {name: [C(*shape), P(515, wide), P(515)]})
        family.add("linear bias, frozen", functional.linear, {name: [X(*shape), C(515, wide), C(515)]}, MIXED)
        family.add(
            "linear bias, input transposed",
            functional.linear,
            {name: [X(*shape, layout="transposed"), P(515, wide), P(515)]},
        )
        family.add(
            "addmm of view (Conv1D)",
            lambda x, w, b: torch.addmm(b, x.view(-1, x.size(-1)), w).view(*x.shape[:-1], w.shape[1]),
            {name: [X(*shape), P(wide, 515), P(515)]},
            MIXED,
        )
        family.add("matmul 3d 2d", torch.matmul, {name: [X(*shape), X(wide, 129)]}, MIXED)
        family.add("matmul 3d 1d", torch.matmul, {name: [X(*shape), X(wide)]})
        family.add("matmul 2d 3d", torch.matmul, {name: [X(33, shape[1]), X(*shape)]})
    products(family)
    return family.probes


def products(family):
    family.add("mm", torch.mm, {"small": [X(3, 77), X(77, 65)], "large": [X(1501, 771), X(771, 515)]}, MIXED)
    family.add("mm transposed", lambda a, b: a @ b.t(), {"large": [X(1501, 771), X(515, 771)]})
    family.add("mm transposed left", lambda a, b: a.t() @ b, {"large": [X(771, 1501), X(771, 515)]})
    family.add("mv", torch.mv, {"small": [X(3, 77), X(77)], "large": [X(1501, 771), X(771)]})
    family.add("dot", torch.dot, {"small": [X(77), X(77)], "large": [X(1000001), X(1000001)]})
    family.add("outer", torch.outer, {"small": [X(77), X(65)], "large": [X(1501), X(771)]})
    batches = {"small": [X(3, 7, 9), X(3, 9, 5)], "large": [X(12, 321, 129), X(12, 129, 333)]}
    family.add("bmm", torch.bmm, batches, MIXED)
    family.add("matmul 3d 3d", torch.matmul, batches, MIXED)
    family.add(
        "bmm transposed", lambda a, b: torch.bmm(a, b.transpose(1, 2)), {"large": [X(12, 321, 129), X(12, 333, 129)]}
    )
    family.add(
        "matmul 4d 4d",
        torch.matmul,
        {"small": [X(2, 3, 7, 9), X(2, 3, 9, 5)], "large": [X(3, 4, 321, 129), X(3, 4, 129, 333)]},
        MIXED,
    )
    broadcast = {"small": [X(2, 3, 7, 9), X(1, 3, 9, 5)], "large": [X(3, 4, 321, 129), X(1, 4, 129, 333)]}
    family.add("matmul broadcast batch", torch.matmul, broadcast)
    family.add("matmul broadcast rank", torch.matmul, {"large": [X(3, 4, 321, 129), X(4, 129, 333)]})
    family.add("matmul 4d 2d", torch.matmul, {"large": [X(3, 4, 321, 129), X(129, 333)]}, PLAIN)
    family.add(
        "attention scores",
        lambda q, k: torch.matmul(q.transpose(1, 2), k.transpose(1, 2).transpose(2, 3)),
        {"small": [X(2, 7, 3, 16), X(2, 7, 3, 16)], "large": [X(3, 321, 6, 64), X(3, 321, 6, 64)]},
        MIXED,
    )
    family.add(
        "attention values",
        lambda w, v: torch.matmul(w, v.transpose(1, 2)).transpose(1, 2).contiguous(),
        {"small": [X(2, 3, 7, 7), X(2, 7, 3, 16)], "large": [X(3, 6, 321, 321), X(3, 321, 6, 64)]},
        MIXED,
    )
    addmm = {"small": [X(65), X(3, 77), X(77, 65)], "large": [X(515), X(1501, 771), X(771, 515)]}
    family.add("addmm", torch.addmm, addmm, MIXED)
    family.add("addmm full", torch.addmm, {"large": [X(1501, 515), X(1501, 771), X(771, 515)]}, PLAIN)
    family.add("addmm scaled", lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2.0), addmm)
    batched = {
        "small": [X(3, 7, 5), X(3, 7, 9), X(3, 9, 5)],
        "large": [X(12, 321, 333), X(12, 321, 129), X(12, 129, 333)],
    }
    family.add("baddbmm", torch.baddbmm, batched, MIXED)
    family.add("baddbmm broadcast", torch.baddbmm, {"large": [X(1, 1, 333), X(12, 321, 129), X(12, 129, 333)]})
    for equation, left, right in [
        ("bij,bjk->bik", (12, 321, 129), (12, 129, 333)),
        ("bhid,bhjd->bhij", (3, 4, 321, 64), (3, 4, 333, 64)),
        ("bsd,btd->bst", (5, 321, 129), (5, 333, 129)),
        ("bsd,de->bse", (5, 321, 771), (771, 515)),
        ("bshd,hde->bse", (5, 321, 4, 33), (4, 33, 515)),
        ("i,j->ij", (1501,), (771,)),
        ("bsd,d->bs", (5, 321, 771), (771,)),
        ("bnd,bmd->nm", (5, 321, 129), (5, 333, 129)),
    ]:
        family.add(
            f"einsum {equation}",
            lambda a, b, equation=equation: torch.einsum(equation, a, b),
            {"large": [X(*left), X(*right)]},
            ("fp32", "bf16", "amp-bf16"),
        )
    family.add("bilinear", functional.bilinear, {"small": [X(9, 17), X(9, 13), P(5, 17, 13), P(5)]})
