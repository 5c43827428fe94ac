"""Operators and branches that the other families leave out: masks of known values, writes into views, attention's fast paths."""

import torch
from specs import MIXED, PLAIN, C, Family, I, P, X
from torch.nn import functional

ROWS = {"small": (33, 77), "large": (1605, 771)}
FP32 = ("fp32",)


def probes():
    family = Family()
    masks(family)
    writes(family)
    elementwise(family)
    losses(family)
    products(family)
    orders(family)
    fast_paths(family)
    attention(family)
    embeddings(family)
    return family.probes


def thirds(count, device):
    return torch.arange(count, device=device) % 3 == 0


def masks(family):
    """Every third element is chosen, so that a capture knows how many there are."""
    for items in (4096, 4097, 65_536, 131_072, 262_144, *range(500_000, 3_000_000, 41_000)):
        family.add(f"nonzero {items}", lambda x, n=items: thirds(n, x.device).nonzero(), {"": [C(1)]}, FP32, ("no_grad",))
    for size, shape in ROWS.items():
        whole = lambda x: thirds(x.numel(), x.device).view(x.shape)  # noqa: E731
        rows = lambda x: thirds(x.shape[0], x.device)  # noqa: E731
        given = {size: [X(*shape)]}
        family.add("masked_select thirds", lambda x: x.masked_select(whole(x)), given)
        family.add("index mask thirds", lambda x: x[whole(x)], given)
        family.add("index mask rows", lambda x: x[rows(x)], given)
        family.add("index mask columns", lambda x: x[:, thirds(x.shape[1], x.device)], given)
        family.add("masked_scatter thirds", lambda x: x.masked_scatter(whole(x), x * 2), given)
        family.add("masked_fill number thirds", lambda x: x.masked_fill(whole(x), 0.5), given)
        family.add("masked_fill of tensor thirds", lambda x, v: x.masked_fill(whole(x), v), {size: [X(*shape), X()]})
        repeats = lambda x: torch.arange(x.shape[0], device=x.device) % 3  # noqa: E731
        family.add("repeat_interleave by tensor", lambda x: x.repeat_interleave(repeats(x), 0), given)
        family.add("bincount known", lambda x: torch.bincount(repeats(x), minlength=5), given, FP32, ("no_grad",))


def writes(family):
    """Into views and at indices, as training code writes them."""

    def with_copy(change):
        def run(x, *others):
            copy = x * 1
            change(copy, *others)
            return copy

        return run

    changes = {
        "number into slice": lambda y: y.__setitem__((slice(None), slice(1, 3)), 0.0),
        "number into mask": lambda y: y.__setitem__(thirds(y.numel(), y.device).view(y.shape), 0.0),
        "number into rows": lambda y: y.__setitem__(torch.arange(9, device=y.device), 0.0),
        "slice times number": lambda y: y[:, :5].mul_(2),
        "every second plus number": lambda y: y[:, ::2].add_(1),
        "column filled": lambda y: y[:, 0].fill_(1),
        "slice tanh": lambda y: y[:, :5].tanh_(),
        "view relu": lambda y: y.view(-1).relu_(),
        "slice masked": lambda y: y[:, :5].masked_fill_(thirds(5, y.device), 0),
        "row zeroed": lambda y: y[0].zero_(),
    }
    for size, shape in ROWS.items():
        for name, change in changes.items():
            family.add(f"write: {name}", with_copy(change), {size: [X(*shape)]})
        two = {size: [X(*shape), X(shape[0], 5)]}
        family.add("write: slice", with_copy(lambda y, v: y.__setitem__((slice(None), slice(2, 7)), v)), two)
        family.add("write: slice times tensor", with_copy(lambda y, v: y[:, :5].mul_(v)), two)
        family.add("write: rows", with_copy(lambda y, v: y.__setitem__(torch.arange(5, device=y.device), v.t()[:, :1])), two)
        family.add("view then relu_", lambda x: (x * 1).view(-1).relu_(), {size: [X(*shape)]})
        family.add("flatten then gelu and relu_", lambda x: functional.relu_((x * 2).view(-1) * 1), {size: [X(*shape)]})
        family.add("zeros then slice", lambda x: torch.zeros_like(x).index_put((torch.arange(9, device=x.device),), x[:9]), {size: [X(*shape)]})
        family.add("scatter_add_ to zeros", lambda x, i: torch.zeros_like(x).scatter_add_(0, i, x), {size: [X(*shape), I(*shape, high=9)]})
        family.add("index_add_ to zeros", lambda x, i: torch.zeros_like(x).index_add_(0, i, x), {size: [X(*shape), I(shape[0], high=9)]})
        family.add("scatter_reduce sum", lambda x, i: torch.zeros_like(x).scatter_reduce(0, i, x, "sum"), {size: [X(*shape), I(*shape, high=9)]})
        family.add("scatter_reduce mean", lambda x, i: torch.zeros_like(x).scatter_reduce(0, i, x, "mean"), {size: [X(*shape), I(*shape, high=9)]})


def elementwise(family):
    two = {size: [X(*shape), X(*shape)] for size, shape in ROWS.items()}
    one = {size: [X(*shape)] for size, shape in ROWS.items()}
    three = {size: [X(*shape)] * 3 for size, shape in ROWS.items()}
    family.add("lerp tensor", torch.lerp, three)
    for name in ("logaddexp", "logaddexp2", "xlogy", "copysign", "fmax", "fmin", "heaviside"):
        family.add(name, getattr(torch, name), two)
    for name in ("sgn", "rad2deg", "deg2rad", "nansum", "median", "trace", "i0"):
        family.add(name, getattr(torch, name), one)
    family.add("clamp tensors of grad", lambda x, y: x.clamp(y, y + 1), two)
    family.add("clamp low tensor of grad", lambda x, y: x.clamp(min=y), two)
    family.add("div floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), two)
    family.add("rrelu_", lambda x: functional.rrelu(x * 1, training=True, inplace=True), one)
    family.add("rrelu eval", functional.rrelu, one)
    family.add("roll both", lambda x: x.roll((1, 2), (0, 1)), one)
    family.add("diag_embed", torch.diag_embed, {"small": [X(9, 7)], "large": [X(33, 771)]})
    family.add("take_along_dim row", lambda x, i: torch.take_along_dim(x, i, 1), {"small": [X(33, 77), I(33, 1, high=77)]})
    family.add("gumbel_softmax hard", lambda x: functional.gumbel_softmax(x, hard=True), one)
    family.add("std_mean", lambda x: torch.std_mean(x, -1), one)

    def complex_rotary(x):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turn = torch.polar(torch.ones(pairs.shape[-1], device=x.device), torch.ones(pairs.shape[-1], device=x.device))
        return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)

    family.add("complex rotary", complex_rotary, {"small": [X(3, 7, 64)], "large": [X(5, 321, 770)]})


def losses(family):
    for size, shape in {"small": (9, 7), "large": (1605, 771)}.items():
        weighted = {size: [X(*shape), C(*shape), C(shape[1])]}
        family.add("bce_with_logits weight", lambda x, y, w: functional.binary_cross_entropy_with_logits(x, y, w), weighted)
        family.add("bce weight", lambda x, y, w: functional.binary_cross_entropy(x, y, w), weighted)
        both = {size: [X(*shape), X(*shape)]}
        family.add("kl_div both", lambda x, y: functional.kl_div(x, y, reduction="batchmean"), both)
        family.add("kl_div log both", lambda x, y: functional.kl_div(x, y, log_target=True, reduction="batchmean"), both)
        family.add("bce_with_logits both", functional.binary_cross_entropy_with_logits, both)
        family.add("smooth_l1_loss both", functional.smooth_l1_loss, both)
        family.add("huber_loss both", functional.huber_loss, both)
        family.add("cross_entropy probabilities both", functional.cross_entropy, both)
        family.add("gaussian_nll_loss of grad", lambda x, y: functional.gaussian_nll_loss(x, y.detach(), functional.softplus(y)), both)
        family.add("hinge_embedding_loss", lambda x, y: functional.hinge_embedding_loss(x, y.sign()), {size: [X(*shape), C(*shape)]})
        family.add("multilabel_margin_loss", functional.multilabel_margin_loss, {size: [X(*shape), I(*shape, high=7)]})
        family.add("multi_margin_loss none", lambda x, t: functional.multi_margin_loss(x, t, reduction="none"), {size: [X(*shape), I(shape[0], high=7)]})
        family.add("cross_entropy smooth sum weights", lambda x, t, w: functional.cross_entropy(x, t, w, reduction="sum", label_smoothing=0.1), {size: [X(*shape), I(shape[0], high=7), C(shape[1])]})
        family.add("cross_entropy probabilities smooth", lambda x, y: functional.cross_entropy(x, y, label_smoothing=0.1), {size: [X(*shape), C(*shape)]})
        family.add("cross_entropy probabilities weights", lambda x, y, w: functional.cross_entropy(x, y, w), weighted)
    sequences = {"small": [X(17, 3, 9), I(3, 5, high=8)]}

    def ctc(x, targets):
        lengths = torch.full((3,), 17), torch.full((3,), 5)
        return functional.ctc_loss(x.log_softmax(-1), targets + 1, *lengths)

    family.add("ctc_loss", ctc, sequences, FP32)


def products(family):
    family.add("addmv", torch.addmv, {"small": [X(9), X(9, 7), X(7)], "large": [X(1605), X(1605, 771), X(771)]})
    family.add("addr", torch.addr, {"small": [X(9, 7), X(9), X(7)], "large": [X(1605, 771), X(1605), X(771)]})
    family.add("addbmm", torch.addbmm, {"small": [X(9, 5), X(3, 9, 7), X(3, 7, 5)]})
    family.add("cdist short", torch.cdist, {"small": [X(2, 9, 7), X(2, 8, 7)]}, FP32)
    for rows, inner, outer in ((1, 77, 33), (9, 1, 33), (9, 77, 1), (1, 1, 1), (7, 13, 5), (1605, 771, 129)):
        size = {f"{rows}x{inner} to {outer}": [X(rows, inner), P(outer, inner), P(outer)]}
        family.add("linear odd bias", functional.linear, size, MIXED)
        family.add("linear odd", lambda x, w, b: functional.linear(x, w), size, MIXED)
        size = {f"3x{rows}x{inner} to {outer}": [X(3, rows, inner), P(outer, inner), P(outer)]}
        family.add("linear odd 3d bias", functional.linear, size, MIXED)
        family.add("linear odd 3d", lambda x, w, b: functional.linear(x, w), size, MIXED)
    family.add("linear 1d bias", functional.linear, {"small": [X(77), P(33, 77), P(33)]}, MIXED)
    family.add("rms_norm weight fp32", lambda x, w: functional.rms_norm(x, w.shape, w), {"small": [X(3, 7, 77), P(77, dtype=torch.float32)]}, PLAIN)


def orders(family):
    sizes = {"experts": [X(4096, 8)], "many experts": [X(4096, 128)], "vocabulary": [X(512, 30522)], "rows": [X(5003, 401)]}
    family.add("topk 2", lambda x: x.topk(2, -1), sizes)
    family.add("topk columns", lambda x: x.topk(2, 0), {"small": [X(33, 77)]})
    family.add("sort columns", lambda x: x.sort(0), {"small": [X(33, 77)], "large": [X(1605, 771)]})
    family.add("sort descending", lambda x: x.sort(-1, descending=True), {"small": [X(33, 77)]})
    family.add("sort many long rows", lambda x: x.sort(-1), {"large": [X(200, 5003)]})
    family.add("softmax then topk", lambda x: x.softmax(-1, dtype=torch.float32).topk(2, -1), {"experts": [X(4096, 8)]})


def fast_paths(family):
    """Evaluation of attention and encoder layers without gradients."""
    for width, heads, length in ((64, 4, 33), (96, 4, 77), (60, 4, 33), (512, 8, 128), (512, 8, 1333)):
        torch.manual_seed(0)
        size = f"{width} by {heads}, {length}"
        weights = {"in": C(3 * width, width), "in bias": C(3 * width), "out": C(width, width), "out bias": C(width)}
        source, mask = C(3, length, width), C(3, length)

        def attend(x, w, wb, o, ob, m=None, *, n=width, h=heads, cross=0, **options):
            key = x if cross == 0 else x * 1
            value = key if cross < 2 else x * 1
            kind = None if m is None else 1
            return torch._native_multi_head_attention(x, key, value, n, h, w, wb, o, ob, None if m is None else m > 0.5, **options, mask_type=kind)

        def add(name, function, extra=(), family=family, size=size, weights=weights, source=source):
            family.add(name, function, {size: [source, *weights.values(), *extra]}, ("fp32", "bf16", "fp16"), ("no_grad",))

        add("native attention", lambda *t, f=attend: f(*t, need_weights=False))
        add("native attention weights", lambda *t, f=attend: f(*t, need_weights=True))
        add("native attention heads' weights", lambda *t, f=attend: f(*t, need_weights=True, average_attn_weights=False))
        add("native attention masked", lambda *t, f=attend: f(*t, need_weights=False), (mask,))
        add("native attention of memory", lambda *t, f=attend: f(*t, need_weights=False, cross=1))
        add("native attention of three", lambda *t, f=attend: f(*t, need_weights=False, cross=2))
        layer = [C(width), C(width), C(width), C(width), C(2 * width, width), C(2 * width), C(width, 2 * width), C(width)]
        for first in (False, True):
            for gelu in (False, True):

                def encode(x, w, wb, o, ob, *rest, n=width, h=heads, gelu=gelu, first=first):
                    given, left = rest[:8], rest[8:]
                    m = (left[0] > 0.5, 1) if left else (None, None)
                    return torch._transformer_encoder_layer_fwd(x, n, h, w, wb, o, ob, gelu, first, 1e-5, *given, *m)

                name = f"encoder layer{', norm first' if first else ''}{', gelu' if gelu else ''}"
                add(name, encode, layer)
                add(f"{name}, masked", encode, (*layer, mask))


def attention(family):
    def attend(query, key, value, mask=None, **options):
        query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, **options)

    every = ("fp32", "bf16", "fp16")
    for width in (8, 20, 40, 72, 100, 192, 160):
        for batch, length in ((1, 33), (3, 130)):
            size = {f"{width} by {length}": [X(batch, length, 3, width)] * 3}
            family.add("sdpa corner", attend, size, every)
            family.add("sdpa corner causal dropout", lambda q, k, v: attend(q, k, v, is_causal=True, dropout_p=0.1), size, every)
            masked = {f"{width} by {length}": [*[X(batch, length, 3, width)] * 3, C(batch, 1, length, length)]}
            family.add("sdpa corner mask", attend, masked, every)
            family.add("sdpa corner mask of grad", attend, {f"{width} by {length}": [*[X(batch, length, 3, width)] * 3, P(1, 3, length, length)]}, every)
    for heads in ((8, 2), (6, 1), (4, 4)):
        for queries, keys in ((1, 77), (33, 77), (77, 77)):
            size = {f"{heads} {queries} {keys}": [X(2, queries, heads[0], 64), X(2, keys, heads[1], 64), X(2, keys, heads[1], 64)]}
            family.add("sdpa corner grouped", lambda q, k, v: attend(q, k, v, enable_gqa=True), size, every)


def embeddings(family):
    for count, rows, width in ((77, 55, 64), (5000, 55, 64), (5000, 5003, 129), (40_000, 30_522, 128)):
        given = {f"{count} of {rows}": [I(count, high=rows), P(rows, width)]}
        family.add("embedding corner", lambda i, w: functional.embedding(i, w), given, MIXED)
        family.add("embedding corner padding", lambda i, w: functional.embedding(i, w, padding_idx=0), given)
        family.add("embedding corner frequency", lambda i, w: functional.embedding(i, w, scale_grad_by_freq=True), given)
        bags = {f"{count} of {rows}": [I(count // 4, 4, high=rows), P(rows, width)]}
        for mode in ("sum", "mean", "max"):
            family.add(f"embedding_bag corner {mode}", lambda i, w, m=mode: functional.embedding_bag(i, w, mode=m), bags)
        weights = {f"{count} of {rows}": [I(count // 4, 4, high=rows), P(rows, width), P(count // 4, 4)]}
        family.add("embedding_bag corner weights", lambda i, w, p: functional.embedding_bag(i, w, per_sample_weights=p, mode="sum"), weights)
        family.add("embedding corner max_norm", lambda i, w: functional.embedding(i, w.detach().clone(), max_norm=1.0), given, FP32, ("no_grad",))
