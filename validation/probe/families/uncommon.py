"""Operators outside the common models: spectral, sampling, scatter, packed sequences, MoE, detection, linear algebra, 3-D."""

import functools

import torch
from specs import ALL, MIXED, PLAIN, C, Family, I, P, X
from torch import nn
from torch.nn import functional

FP32 = ("fp32",)
ROWS = {"small": (33, 77), "large": (1605, 771)}
IMAGES = {"small": (2, 3, 9, 11), "large": (5, 24, 61, 67)}
VOLUMES = {"small": (2, 4, 5, 7, 9), "large": (3, 16, 17, 33, 35)}


def probes():
    family = Family()
    for add in (spectral, sampling, strided, scatters, experts, cells, packed, norms, parametrized, resizing, pooling,
                detection, sparse, algebra, volumes, losses, elementwise, attention_pieces):
        add(family)
    return family.probes


def spectral(family):
    rows = {size: [X(*shape)] for size, shape in ROWS.items()}
    images = {size: [X(*shape)] for size, shape in IMAGES.items()}
    family.add("fft real of row", lambda x: torch.fft.fft(x).real, rows, FP32)
    family.add("fft abs", lambda x: torch.fft.fft(x).abs(), rows, FP32)
    family.add("rfft view_as_real", lambda x: torch.view_as_real(torch.fft.rfft(x)), rows, FP32)
    family.add("irfft of rfft", lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]), rows, FP32)
    family.add("irfft of rfft long", lambda x: torch.fft.irfft(torch.fft.rfft(x, n=2 * x.shape[-1])), rows, FP32)
    family.add("fft columns", lambda x: torch.fft.fft(x, dim=0).real, rows, FP32)
    family.add("fft2 real", lambda x: torch.fft.fft2(x).real, images, FP32)
    family.add("fftn of both", lambda x: torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real, rows, FP32)
    family.add("rfft2 times weight", lambda x, w: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(w), s=x.shape[-2:], norm="ortho"),
               {size: [X(*shape), P(shape[1], shape[2], shape[3] // 2 + 1, 2)] for size, shape in IMAGES.items()}, FP32)
    for name, options in {"": {}, " centred": {"center": True}, " window": {"window": True}}.items():
        def stft(x, options=options):
            window = torch.hann_window(64, device=x.device) if "window" in options else None
            return torch.view_as_real(torch.stft(x, 64, 16, window=window, return_complex=True))

        family.add(f"stft{name}", stft, {"small": [X(3, 400)], "large": [X(5, 48_000)]}, FP32)
    family.add("fftshift", torch.fft.fftshift, rows, FP32)
    family.add("long convolution by fft", lambda x, k: torch.fft.irfft(torch.fft.rfft(x, n=2 * x.shape[-1]) * torch.fft.rfft(k, n=2 * x.shape[-1]), n=2 * x.shape[-1])[..., : x.shape[-1]],
               {"small": [X(3, 5, 64), P(5, 64)], "large": [X(4, 64, 1024), P(64, 1024)]}, FP32)


def sampling(family):
    for size, (batch, channels, height, width) in IMAGES.items():
        grid = {size: [X(batch, channels, height, width), X(batch, 7, 8, 2)]}
        for mode in ("bilinear", "nearest", "bicubic"):
            for padding in ("zeros", "border", "reflection"):
                family.add(f"grid_sample {mode} {padding}", lambda x, g, m=mode, p=padding: functional.grid_sample(x, g, m, p, align_corners=False), grid, MIXED if padding == "zeros" else PLAIN)
        family.add("grid_sample of input", lambda x, g: functional.grid_sample(x, g, align_corners=True), {size: [X(batch, channels, height, width), C(batch, 7, 8, 2)]})
        family.add("grid_sample of grid", lambda x, g: functional.grid_sample(x, g, align_corners=True), {size: [C(batch, channels, height, width), X(batch, 7, 8, 2)]})
        family.add("affine_grid", lambda t, b=batch, c=channels, h=height, w=width: functional.affine_grid(t, [b, c, h, w], align_corners=False), {size: [X(batch, 2, 3)]})
    family.add("grid_sample 3d", lambda x, g: functional.grid_sample(x, g, align_corners=False), {size: [X(*shape), X(shape[0], 3, 4, 5, 3)] for size, shape in VOLUMES.items()})


def strided(family):
    rows = {size: [X(*shape)] for size, shape in ROWS.items()}
    images = {size: [X(*shape)] for size, shape in IMAGES.items()}
    family.add("as_strided windows", lambda x: x.contiguous().as_strided((x.shape[0], x.shape[1] // 4 - 1, 8), (x.shape[1], 4, 1)), rows)
    family.add("as_strided windows times 2", lambda x: x.as_strided((x.shape[0], x.shape[1] // 4 - 1, 8), (x.shape[1], 4, 1)) * 2, rows)
    family.add("tensor unfold", lambda x: x.unfold(1, 8, 4), rows)
    family.add("tensor unfold times 2", lambda x: x.unfold(1, 8, 4) * 2, rows)
    for name, options in {"": (3, 1, 1, 1), " strided": (4, 1, 0, 4), " dilated": (3, 2, 2, 1)}.items():
        kernel, dilation, padding, stride = options
        family.add(f"im2col{name}", lambda x, o=options: functional.unfold(x, o[0], o[1], o[2], o[3]), images, ALL)

        def fold(x, o=options):
            columns = functional.unfold(x, o[0], o[1], o[2], o[3])
            return functional.fold(columns, x.shape[-2:], o[0], o[1], o[2], o[3])

        family.add(f"col2im of im2col{name}", fold, images)
    family.add("diagonal", lambda x: x.diagonal(0, -2, -1), images)
    family.add("diagonal_scatter", lambda x: x.diagonal_scatter(x.diagonal(0, -2, -1) * 2, 0, -2, -1), images)
    family.add("select_scatter", lambda x: x.select_scatter(x[0], 0, 1), rows)
    family.add("slice_scatter", lambda x: x.slice_scatter(x[:, :5], 1, 2, 7), rows)
    family.add("rot90", lambda x: x.rot90(1, (-2, -1)), images)
    family.add("tril", torch.tril, rows)
    family.add("triu", lambda x: torch.triu(x, 1), rows)
    family.add("block_diag", lambda x: torch.block_diag(x, x), {"small": [X(9, 7)]})
    family.add("cartesian meshgrid", lambda x, y: torch.stack(torch.meshgrid(x, y, indexing="ij")), {"small": [X(9), X(7)], "large": [X(1605), X(771)]})
    family.add("kron", torch.kron, {"small": [X(9, 7), X(3, 5)], "large": [X(97, 77), X(13, 11)]})


def scatters(family):
    for size, (rows, columns) in ROWS.items():
        index, places = I(rows, columns, high=9), I(rows, high=9)
        family.add("scatter src", lambda x, i, s: x.scatter(0, i, s), {size: [X(rows, columns), index, X(rows, columns)]})
        family.add("scatter number", lambda x, i: x.scatter(0, i, 1.0), {size: [X(rows, columns), index]})
        family.add("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), {size: [X(rows, columns), index, X(rows, columns)]})
        for how in ("sum", "prod", "mean", "amax", "amin"):
            family.add(f"scatter_reduce {how} of grad", lambda x, i, s, how=how: x.scatter_reduce(0, i, s, how), {size: [X(rows, columns), index, X(rows, columns)]})
            family.add(f"scatter_reduce {how} without self", lambda x, i, s, how=how: x.scatter_reduce(0, i, s, how, include_self=False), {size: [X(rows, columns), index, X(rows, columns)]})
        family.add("index_add", lambda x, i, s: x.index_add(0, i, s), {size: [X(rows, columns), places, X(rows, columns)]})
        family.add("index_add_ of messages", lambda x, i: torch.zeros(9, x.shape[1], device=x.device, dtype=x.dtype).index_add_(0, i, x), {size: [X(rows, columns), places]})
        family.add("scatter_add_ of messages", lambda x, i: torch.zeros(9, x.shape[1], device=x.device, dtype=x.dtype).scatter_add_(0, i[:, None].expand_as(x), x), {size: [X(rows, columns), places]})
        family.add("index_copy", lambda x, i, s: x.index_copy(0, i, s), {size: [X(rows, columns), I(9, high=33), X(9, columns)]})
        family.add("index_fill", lambda x, i: x.index_fill(0, i, 0.5), {size: [X(rows, columns), places]})
        family.add("index_put accumulate", lambda x, i, s: x.index_put((i,), s, accumulate=True), {size: [X(rows, columns), places, X(rows, columns)]})
        family.add("index_put rows", lambda x, i, s: x.index_put((i,), s), {size: [X(rows, columns), places, X(rows, columns)]})
        family.add("index_put_ into clone", lambda x, i, s: (x * 1).index_put_((i,), s), {size: [X(rows, columns), places, X(rows, columns)]})
        family.add("index_put_ accumulate into clone", lambda x, i, s: (x * 1).index_put_((i,), s, accumulate=True), {size: [X(rows, columns), places, X(rows, columns)]})
        family.add("index_put two indices", lambda x, i, j, s: x.index_put((i, j), s), {size: [X(rows, columns), places, I(rows, high=9), X(rows)]})
        family.add("index_reduce amax", lambda x, i, s: x.index_reduce(0, i, s, "amax"), {size: [X(rows, columns), places, X(rows, columns)]})
        family.add("gather then scatter_add", lambda x, i: torch.zeros_like(x).scatter_add(0, i, x.gather(0, i)), {size: [X(rows, columns), index]})
        family.add("put accumulate", lambda x, i, s: x.put(i, s, accumulate=True), {size: [X(rows, columns), places, X(rows)]})
        family.add("take", lambda x, i: x.take(i), {size: [X(rows, columns), places]})
        family.add("segment softmax", segment_softmax, {size: [X(rows), places]})
        family.add("segment_reduce", lambda x: torch.segment_reduce(x, "sum", lengths=torch.full((11,), x.shape[0] // 11, device=x.device), unsafe=True), {"small": [X(33, 77)], "large": [X(1595, 771)]}, FP32)
        family.add("masked_scatter", lambda x, s: x.masked_scatter(torch.arange(x.numel(), device=x.device).view(x.shape) % 2 == 0, s), {size: [X(rows, columns), X(rows, columns)]})
        family.add("bucketize", lambda x: torch.bucketize(x, torch.linspace(0, 1, 32, device=x.device)), {size: [C(rows, columns)]}, FP32, ("no_grad",))
        family.add("searchsorted", lambda x: torch.searchsorted(torch.linspace(0, 1, 32, device=x.device), x), {size: [C(rows, columns)]}, FP32, ("no_grad",))
        family.add("unique_consecutive known", lambda x: torch.unique_consecutive(torch.arange(x.shape[0], device=x.device) // 3), {size: [C(rows, columns)]}, FP32, ("no_grad",))
        family.add("unique known", lambda x: torch.unique(torch.arange(x.shape[0], device=x.device) // 3), {size: [C(rows, columns)]}, FP32, ("no_grad",))


def segment_softmax(x, index):
    """As torch_geometric.utils.softmax: maximum, exponentials and sums of each group."""
    groups = torch.full((9,), float("-inf"), device=x.device, dtype=x.dtype).scatter_reduce(0, index, x.detach(), "amax")
    exponentials = (x - groups.index_select(0, index)).exp()
    sums = torch.zeros(9, device=x.device, dtype=x.dtype).scatter_add_(0, index, exponentials)
    return exponentials / (sums.index_select(0, index) + 1e-16)


def experts(family):
    rows = {size: [C(*shape)] for size, shape in ROWS.items()}
    family.add("histc", lambda x: torch.histc(x.float(), bins=8, min=0, max=8), rows, FP32, ("no_grad",))
    family.add("histc of integers", lambda i: torch.histc(i.int(), bins=8, min=0, max=7), {"small": [I(77, high=8)], "large": [I(40_000, high=8)]}, FP32, ("no_grad",))
    family.add("one_hot", lambda i: functional.one_hot(i, 8), {"small": [I(33, 2, high=8)], "large": [I(4096, 2, high=8)]}, FP32, ("no_grad",))
    family.add("one_hot permuted then where", lambda i: torch.where(functional.one_hot(i, 8).permute(2, 1, 0)[3]), {"small": [I(33, 2, high=8)]}, FP32, ("no_grad",))
    for tokens, width, inner, count in ((64, 32, 64, 4), (1024, 256, 512, 8), (4096, 512, 1024, 8)):
        def grouped(x, w, count=count):
            ends = torch.arange(1, count + 1, device=x.device, dtype=torch.int32) * (x.shape[0] // count)
            return torch._grouped_mm(x, w, offs=ends)

        size = f"{tokens}x{width} to {inner}, {count}"
        family.add("_grouped_mm", grouped, {size: [X(tokens, width), P(count, width, inner)]}, ("bf16",))
        family.add("_grouped_mm transposed weight", lambda x, w, f=grouped: f(x, w.transpose(-2, -1)), {size: [X(tokens, width), P(count, inner, width)]}, ("bf16",))
        if hasattr(functional, "grouped_mm"):
            def public(x, w, count=count):
                ends = torch.arange(1, count + 1, device=x.device, dtype=torch.int32) * (x.shape[0] // count)
                return functional.grouped_mm(x, w, offs=ends)

            family.add("grouped_mm", public, {size: [X(tokens, width), P(count, width, inner)]}, ALL)
        family.add("experts by bmm", lambda x, w, count=count: torch.bmm(x.view(count, -1, x.shape[-1]), w), {size: [X(tokens, width), P(count, width, inner)]})
    family.add("sort of expert ids", lambda i: i.view(-1).sort(stable=True), {"small": [I(33, 2, high=8)], "large": [I(40_000, 2, high=8)]}, FP32, ("no_grad",))
    family.add("argsort of expert ids", lambda i: i.view(-1).argsort(stable=True), {"small": [I(33, 2, high=8)], "large": [I(40_000, 2, high=8)]}, FP32, ("no_grad",))
    family.add("multinomial", lambda x: torch.multinomial(x, 2), {"small": [C(33, 77)]}, FP32, ("no_grad",))
    family.add("cumsum then index_add", lambda x, i: torch.zeros_like(x).index_add_(0, i, x * x.cumsum(-1)), {"small": [X(33, 77), I(33, high=9)]})


def cells(family):
    for batch, inputs, hidden in ((3, 17, 19), (64, 256, 512), (1000, 64, 128)):
        size = f"{batch}x{inputs} to {hidden}"
        for kind, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
            weights = [P(gates * hidden, inputs), P(gates * hidden, hidden), P(gates * hidden), P(gates * hidden)]
            cell = getattr(torch, f"{kind}_cell")
            if kind == "lstm":
                family.add("lstm_cell", lambda x, h, c, *w, f=cell: f(x, (h, c), *w), {size: [X(batch, inputs), X(batch, hidden), X(batch, hidden), *weights]}, MIXED)
                family.add("lstm_cell without bias", lambda x, h, c, a, b, *_, f=cell: f(x, (h, c), a, b), {size: [X(batch, inputs), X(batch, hidden), X(batch, hidden), *weights]})
            else:
                family.add(f"{kind}_cell", cell, {size: [X(batch, inputs), X(batch, hidden), *weights]}, MIXED)

                def loop(x, h, *w, f=cell):
                    for _ in range(3):
                        h = f(x, h, *w)
                    return h

                family.add(f"{kind}_cell in a loop", loop, {size: [X(batch, inputs), X(batch, hidden), *weights]}, MIXED)


PACKED = []


RECURRENT = {}


def recurrent(device, dtype, *sizes):
    """The module of these sizes, on the device that asked for it first: capture.py makes it before the forward pass."""
    if (dtype, *sizes) not in RECURRENT:
        kind, inputs, hidden, layers, bidirectional = sizes
        torch.manual_seed(0)
        module = getattr(nn, kind)(inputs, hidden, layers, bidirectional=bidirectional, batch_first=True).to(device=device, dtype=dtype)
        PACKED.append(module)
        RECURRENT[dtype, *sizes] = module
    return RECURRENT[dtype, *sizes]


def packed(family):
    def forget():
        for module in PACKED:
            module.zero_grad()

    for kind in ("LSTM", "GRU", "RNN"):
        for batch, length, inputs, hidden, layers, both in ((3, 7, 17, 19, 1, False), (16, 77, 128, 256, 2, True), (32, 128, 256, 256, 1, False)):
            def run(x, kind=kind, inputs=inputs, hidden=hidden, layers=layers, both=both, is_sorted=True):
                lengths = torch.tensor([x.shape[1] - 2 * (row % 3) for row in range(x.shape[0])])
                if is_sorted:
                    lengths = lengths.sort(descending=True).values
                given = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=is_sorted)
                result, _ = recurrent(x.device, x.dtype, kind, inputs, hidden, layers, both)(given)
                return nn.utils.rnn.pad_packed_sequence(result, batch_first=True)[0]

            unsorted = functools.partial(run, is_sorted=False)
            for probed in (run, unsorted):
                probed.prepare = forget
                probed.module = lambda device, dtype, sizes=(kind, inputs, hidden, layers, both): recurrent(device, dtype, *sizes)
            size = {f"{batch}x{length}x{inputs} to {hidden}, {layers} layers" + (", both ways" if both else ""): [X(batch, length, inputs)]}
            family.add(f"packed {kind}", run, size, ("fp32", "bf16", "fp16", "amp-bf16"))
            family.add(f"packed {kind} unsorted", unsorted, size, ("fp32",))
    family.add("pack_padded_sequence", lambda x: nn.utils.rnn.pack_padded_sequence(x, torch.arange(x.shape[1], x.shape[1] - x.shape[0], -1), batch_first=True).data, {"small": [X(3, 7, 17)], "large": [X(16, 77, 771)]})
    family.add("pad_sequence", lambda x: nn.utils.rnn.pad_sequence([x[0, :5], x[1, :3], x[2]], batch_first=True), {"small": [X(3, 7, 17)], "large": [X(16, 77, 771)]})


def norms(family):
    shapes = {"1d": {"small": (3, 6, 77), "large": (5, 32, 3001)}, "2d": {"small": (2, 6, 9, 11), "large": (5, 32, 61, 67)}, "3d": {"small": (2, 6, 5, 7, 9), "large": (3, 32, 17, 33, 35)}}
    for rank, sizes in shapes.items():
        for size, shape in sizes.items():
            channels = shape[1]
            family.add(f"instance_norm {rank}", functional.instance_norm, {size: [X(*shape)]}, MIXED)
            family.add(f"instance_norm affine {rank}", lambda x, w, b: functional.instance_norm(x, weight=w, bias=b), {size: [X(*shape), P(channels), P(channels)]}, MIXED)
            family.add(f"group_norm {rank}", lambda x, w, b: functional.group_norm(x, 2, w, b), {size: [X(*shape), P(channels), P(channels)]}, MIXED)
            family.add(f"batch_norm {rank}", lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True), {size: [X(*shape), P(channels), P(channels)]}, MIXED)
    family.add("local_response_norm", lambda x: functional.local_response_norm(x, 5), {size: [X(*shape)] for size, shape in IMAGES.items()})
    family.add("normalize", lambda x: functional.normalize(x, dim=-1), {size: [X(*shape)] for size, shape in ROWS.items()})


def parametrized(family):
    family.add("weight_norm old", lambda v, g: torch._weight_norm(v, g, 0), {"small": [P(9, 7, 3), P(9, 1, 1)], "large": [P(771, 321, 3), P(771, 1, 1)]}, ALL)
    family.add("weight_norm by hand", lambda v, g: v * (g / v.norm(2, (1, 2), keepdim=True)), {"small": [P(9, 7, 3), P(9, 1, 1)], "large": [P(771, 321, 3), P(771, 1, 1)]})
    family.add("norm_except_dim", lambda v: torch.norm_except_dim(v, 2, 0), {"small": [P(9, 7, 3)], "large": [P(771, 321, 3)]})

    def spectral_norm(w):
        matrix = w.flatten(1)
        u = functional.normalize(torch.ones(matrix.shape[0], device=w.device, dtype=w.dtype), dim=0)
        v = functional.normalize(torch.mv(matrix.detach().t(), u), dim=0)
        return w / torch.vdot(u, torch.mv(matrix, v))

    family.add("spectral norm", spectral_norm, {"small": [P(9, 7, 3, 3)], "large": [P(257, 129, 3, 3)]}, FP32)
    family.add("orthogonal by matrix_exp", lambda w: torch.matrix_exp(w.triu(1) - w.triu(1).t()), {"small": [P(9, 9)], "large": [P(257, 257)]}, FP32)
    for size, shape in IMAGES.items():
        family.add("prelu channels", functional.prelu, {size: [X(*shape), P(shape[1])]}, MIXED)
        family.add("prelu one", functional.prelu, {size: [X(*shape), P(1)]}, MIXED)


def resizing(family):
    for size, shape in IMAGES.items():
        given = {size: [X(*shape)]}
        for mode in ("bicubic", "bilinear", "nearest", "nearest-exact", "area"):
            family.add(f"interpolate {mode} x2", lambda x, m=mode: functional.interpolate(x, scale_factor=2, mode=m), given, MIXED)
            family.add(f"interpolate {mode} to 17", lambda x, m=mode: functional.interpolate(x, size=(17, 19), mode=m), given)
        for mode in ("bicubic", "bilinear"):
            family.add(f"interpolate {mode} antialias", lambda x, m=mode: functional.interpolate(x, size=(7, 8), mode=m, antialias=True), given)
            family.add(f"interpolate {mode} corners", lambda x, m=mode: functional.interpolate(x, scale_factor=2, mode=m, align_corners=True), given)
        batch, channels, height, width = shape
        family.add("pixel_shuffle", lambda x: functional.pixel_shuffle(x, 2), {size: [X(batch, 4 * channels, height, width)]}, ALL)
        family.add("pixel_unshuffle", lambda x: functional.pixel_unshuffle(x, 2), {size: [X(batch, channels, 2 * height, 2 * width)]}, ALL)
        family.add("channel_shuffle", lambda x: functional.channel_shuffle(x, 2), {size: [X(batch, 2 * channels, height, width)]})
    for size, shape in VOLUMES.items():
        for mode in ("trilinear", "nearest"):
            family.add(f"interpolate {mode} 3d", lambda x, m=mode: functional.interpolate(x, scale_factor=2, mode=m), {size: [X(*shape)]}, MIXED)
    for size, shape in {"small": (3, 6, 77), "large": (5, 32, 3001)}.items():
        family.add("interpolate linear 1d", lambda x: functional.interpolate(x, scale_factor=2, mode="linear"), {size: [X(*shape)]}, MIXED)
        family.add("interpolate nearest 1d", lambda x: functional.interpolate(x, scale_factor=2), {size: [X(*shape)]}, MIXED)
        for mode in ("reflect", "replicate", "circular", "constant"):
            family.add(f"pad {mode} 1d", lambda x, m=mode: functional.pad(x, (2, 3), mode=m), {size: [X(*shape)]})
    for size, shape in IMAGES.items():
        for mode in ("reflect", "replicate", "circular", "constant"):
            family.add(f"pad {mode} 2d", lambda x, m=mode: functional.pad(x, (2, 3, 1, 2), mode=m), {size: [X(*shape)]})
    for size, shape in VOLUMES.items():
        for mode in ("reflect", "replicate"):
            family.add(f"pad {mode} 3d", lambda x, m=mode: functional.pad(x, (2, 3, 1, 2, 1, 1), mode=m), {size: [X(*shape)]})


def pooling(family):
    def unpool(x, rank):
        pool, back = getattr(functional, f"max_pool{rank}d"), getattr(functional, f"max_unpool{rank}d")
        pooled, places = pool(x, 2, return_indices=True)
        return back(pooled, places, 2, output_size=x.shape[-rank:])

    shapes = {1: {"small": (3, 6, 78), "large": (5, 32, 3002)}, 2: {"small": (2, 6, 8, 10), "large": (5, 32, 62, 68)}, 3: {"small": (2, 6, 4, 6, 8), "large": (3, 32, 16, 32, 34)}}
    for rank, sizes in shapes.items():
        given = {size: [X(*shape)] for size, shape in sizes.items()}
        family.add(f"max_unpool{rank}d", lambda x, r=rank: unpool(x, r), given)
        family.add(f"max_pool{rank}d indices", lambda x, r=rank: getattr(functional, f"max_pool{r}d")(x, 3, 2, 1, return_indices=True), given)
        family.add(f"avg_pool{rank}d", lambda x, r=rank: getattr(functional, f"avg_pool{r}d")(x, 3, 2, 1), given, ALL)
        family.add(f"adaptive_max_pool{rank}d", lambda x, r=rank: getattr(functional, f"adaptive_max_pool{r}d")(x, 3), given)
        family.add(f"adaptive_avg_pool{rank}d", lambda x, r=rank: getattr(functional, f"adaptive_avg_pool{r}d")(x, 3), given, ALL)
        family.add(f"adaptive_avg_pool{rank}d to one", lambda x, r=rank: getattr(functional, f"adaptive_avg_pool{r}d")(x, 1), given, ALL)
        family.add(f"lp_pool{rank}d", lambda x, r=rank: getattr(functional, f"lp_pool{r}d")(x, 2, 2), given)
    family.add("fractional_max_pool2d", lambda x: functional.fractional_max_pool2d(x, 2, output_ratio=0.7), {size: [X(*shape)] for size, shape in shapes[2].items()}, FP32)


def boxes(count, device, dtype=torch.float32):
    """A row of boxes that do not overlap, so that nms keeps all."""
    left = torch.arange(count, device=device, dtype=dtype) * 10
    return torch.stack([left, torch.zeros_like(left), left + 6, torch.full_like(left, 6)], 1)


def detection(family):
    from torchvision import ops

    for count in (33, 1000, 4097):
        family.add(f"nms {count}", lambda x, n=count: ops.nms(boxes(n, x.device), torch.arange(n, device=x.device).float(), 0.5), {"": [C(1)]}, FP32, ("no_grad",))
        family.add(f"batched_nms {count}", lambda x, n=count: ops.batched_nms(boxes(n, x.device), torch.arange(n, device=x.device).float(), torch.arange(n, device=x.device) % 3, 0.5), {"": [C(1)]}, FP32, ("no_grad",))
        family.add(f"box_iou {count}", lambda x, n=count: ops.box_iou(boxes(n, x.device), boxes(77, x.device)), {"": [C(1)]}, FP32, ("no_grad",))
    for size, shape in IMAGES.items():
        def rois(x):
            return [boxes(7, x.device, x.dtype) * 0.1 for _ in range(x.shape[0])]

        for name in ("roi_align", "roi_pool"):
            family.add(name, lambda x, f=getattr(ops, name): f(x, rois(x), (7, 7)), {size: [X(*shape)]}, ("fp32", "fp16"))
        family.add("roi_align aligned", lambda x: ops.roi_align(x, rois(x), (14, 14), 0.25, 2, True), {size: [X(*shape)]}, ("fp32",))
        batch, channels, height, width = shape
        family.add("deform_conv2d", lambda x, o, w, b: ops.deform_conv2d(x, o, w, b, padding=1), {size: [X(*shape), X(batch, 18, height, width), P(16, channels, 3, 3), P(16)]}, FP32)
        family.add("deform_conv2d mask", lambda x, o, m, w: ops.deform_conv2d(x, o, w, padding=1, mask=m), {size: [X(*shape), X(batch, 18, height, width), X(batch, 9, height, width), P(16, channels, 3, 3)]}, FP32)
    pairs = {size: [X(count, 4), C(count, 4)] for size, count in (("small", 33), ("large", 20_003))}
    for name in ("generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"):
        family.add(name, lambda x, y, f=getattr(ops, name): f(x, y, reduction="sum"), pairs, FP32)
    family.add("sigmoid_focal_loss", lambda x, y: ops.sigmoid_focal_loss(x, y, reduction="mean"), {size: [X(*shape), C(*shape)] for size, shape in ROWS.items()})
    family.add("stochastic_depth", lambda x: ops.stochastic_depth(x, 0.2, "row"), {size: [X(*shape)] for size, shape in IMAGES.items()}, ALL)


def sparse(family):
    for count, rows, width in ((77, 55, 64), (5000, 5003, 129)):
        given = {f"{count} of {rows}": [I(count, high=rows), P(rows, width)]}
        family.add("embedding sparse", lambda i, w: functional.embedding(i, w, sparse=True), given, FP32, ("leaf", "no_grad"))
        family.add("embedding_bag sparse", lambda i, w: functional.embedding_bag(i.view(-1, 1), w, mode="sum", sparse=True), given, FP32, ("leaf", "no_grad"))

    def adjacency(count, device, dtype):
        nodes = torch.arange(count, device=device)
        return torch.sparse_coo_tensor(torch.stack([nodes, nodes.flip(0)]), torch.ones(count, device=device, dtype=dtype), (count, count))

    rows = {size: [X(*shape)] for size, shape in ROWS.items()}
    family.add("sparse coo mm", lambda x: torch.sparse.mm(adjacency(x.shape[0], x.device, x.dtype), x), rows, FP32)
    family.add("sparse csr mm", lambda x: adjacency(x.shape[0], x.device, x.dtype).to_sparse_csr() @ x, rows, FP32, ("no_grad",))


def algebra(family):
    squares = {"small": [X(9, 9)], "large": [X(257, 257)], "batch": [X(64, 33, 33)]}
    steady = lambda x: x @ x.mT + 9 * torch.eye(x.shape[-1], device=x.device)  # noqa: E731
    linalg = torch.linalg
    calls = {
        "inv": lambda x: linalg.inv(steady(x)),
        "inv_ex": lambda x: linalg.inv_ex(steady(x)).inverse,
        "det": lambda x: linalg.det(steady(x)),
        "slogdet": lambda x: linalg.slogdet(steady(x))[1],
        "cholesky": lambda x: linalg.cholesky(steady(x)),
        "qr": lambda x: linalg.qr(steady(x))[0],
        "svd": lambda x: linalg.svd(x, full_matrices=False)[1],
        "svdvals": linalg.svdvals,
        "eigh": lambda x: linalg.eigh(steady(x))[0],
        "solve": lambda x: linalg.solve(steady(x), x),
        "solve_triangular": lambda x: linalg.solve_triangular(steady(x).tril(), x, upper=False),
        "cholesky_solve": lambda x: torch.cholesky_solve(x, linalg.cholesky(steady(x))),
        "pinv": lambda x: linalg.pinv(steady(x), hermitian=True),
        "lu_factor": lambda x: linalg.lu_factor(steady(x))[0],
        "matrix_power": lambda x: linalg.matrix_power(x, 3),
        "matrix_norm": lambda x: linalg.matrix_norm(x),
        "matrix_norm nuclear": lambda x: linalg.matrix_norm(x, "nuc"),
        "multi_dot": lambda x: linalg.multi_dot([x, x, x]) if x.dim() == 2 else x @ x @ x,
        "vecdot": lambda x: linalg.vecdot(x, x),
        "cross": lambda x: linalg.cross(x[..., :3], x[..., 3:6]),
    }
    for name, call in calls.items():
        family.add(f"linalg {name}", call, squares, FP32)
    points = {"small": [X(2, 33, 3), X(2, 29, 3)], "large": [X(3, 1024, 3), X(3, 771, 3)], "wide": [X(3, 1024, 64), X(3, 771, 64)]}
    family.add("cdist", torch.cdist, points, FP32)
    family.add("cdist p1", lambda x, y: torch.cdist(x, y, p=1.0), points, FP32)
    family.add("pdist", torch.pdist, {"small": [X(33, 7)], "large": [X(771, 33)]}, FP32)
    family.add("dot", torch.dot, {"small": [X(77), X(77)], "large": [X(1_000_003), X(1_000_003)]})
    family.add("mv", torch.mv, {"small": [X(9, 7), X(7)], "large": [X(1605, 771), X(771)]})
    family.add("outer", torch.outer, {"small": [X(9), X(7)], "large": [X(1605), X(771)]})
    family.add("bilinear", functional.bilinear, {"small": [X(5, 7), X(5, 9), P(4, 7, 9), P(4)], "large": [X(129, 64), X(129, 33), P(16, 64, 33), P(16)]}, FP32)
    family.add("tensordot", lambda x, y: torch.tensordot(x, y, ([1], [0])), {"small": [X(9, 7, 3), X(7, 5)], "large": [X(65, 771, 9), X(771, 33)]})
    family.add("chain_matmul", lambda x, y: torch.linalg.multi_dot([x, y, x]), {"small": [X(9, 7), X(7, 9)]})
    family.add("cosine_similarity", functional.cosine_similarity, {size: [X(*shape), X(*shape)] for size, shape in ROWS.items()})
    family.add("pairwise_distance", functional.pairwise_distance, {size: [X(*shape), X(*shape)] for size, shape in ROWS.items()})


def volumes(family):
    for size, (batch, channels, depth, height, width) in {"small": (2, 4, 5, 9, 11), "large": (2, 16, 16, 32, 32), "wide": (1, 32, 24, 48, 48)}.items():
        image = X(batch, channels, depth, height, width)
        for kernel, stride, padding in ((1, 1, 0), (3, 1, 1), (3, 2, 1), (2, 2, 0)):
            given = {f"{size} k{kernel} s{stride}": [image, P(2 * channels, channels, kernel, kernel, kernel), P(2 * channels)]}
            family.add("conv3d", lambda x, w, b, s=stride, p=padding: functional.conv3d(x, w, b, s, p), given, MIXED)
        given = {f"{size} k2 s2": [image, P(channels, channels, 2, 2, 2), P(channels)]}
        family.add("conv_transpose3d", lambda x, w, b: functional.conv_transpose3d(x, w, b, 2), given, MIXED)
        given = {f"{size} depthwise": [image, P(channels, 1, 3, 3, 3), P(channels)]}
        family.add("conv3d depthwise", lambda x, w, b: functional.conv3d(x, w, b, padding=1, groups=x.shape[1]), given, ALL)
        given = {f"{size} factored": [image, P(channels, channels, 1, 3, 3), P(channels)]}
        family.add("conv3d 1x3x3", lambda x, w, b: functional.conv3d(x, w, b, padding=(0, 1, 1)), given, ALL)


def losses(family):
    rows = {size: [X(*shape), C(*shape)] for size, shape in ROWS.items()}
    three = {size: [X(*shape)] * 3 for size, shape in ROWS.items()}
    family.add("triplet_margin_loss", functional.triplet_margin_loss, three)
    family.add("triplet_margin_with_distance_loss", lambda a, p, n: functional.triplet_margin_with_distance_loss(a, p, n, distance_function=lambda x, y: 1 - functional.cosine_similarity(x, y)), three)
    family.add("cosine_embedding_loss", lambda x, y: functional.cosine_embedding_loss(x, y, torch.ones(x.shape[0], device=x.device)), {size: [X(*shape)] * 2 for size, shape in ROWS.items()})
    family.add("margin_ranking_loss", lambda x, y: functional.margin_ranking_loss(x, y, torch.ones_like(x)), {size: [X(*shape)] * 2 for size, shape in ROWS.items()})
    family.add("poisson_nll_loss", functional.poisson_nll_loss, rows)
    family.add("gaussian_nll_loss", lambda x, y: functional.gaussian_nll_loss(x, y, torch.ones_like(y)), rows)
    family.add("soft_margin_loss", lambda x, y: functional.soft_margin_loss(x, y), rows)
    family.add("multilabel_soft_margin_loss", functional.multilabel_soft_margin_loss, rows)
    family.add("dice by hand", lambda x, y: 1 - (2 * (x.sigmoid() * y).sum() + 1) / (x.sigmoid().sum() + y.sum() + 1), rows)
    for size, (length, batch, classes) in {"small": (17, 3, 9), "large": (150, 16, 33)}.items():
        def ctc(x, targets, length=length, batch=batch):
            return functional.ctc_loss(x.log_softmax(-1), targets + 1, torch.full((batch,), length), torch.full((batch,), targets.shape[1]), zero_infinity=True)

        family.add("ctc_loss lengths", ctc, {size: [X(length, batch, classes), I(batch, 5, high=8)]}, FP32)
    contrast = {"small": [X(8, 33), X(8, 33)], "large": [X(512, 256), X(512, 256)]}
    family.add("contrastive loss", lambda x, y: functional.cross_entropy(functional.normalize(x, dim=-1) @ functional.normalize(y, dim=-1).t() * 10, torch.arange(x.shape[0], device=x.device)), contrast, MIXED)


def elementwise(family):
    one = {size: [X(*shape)] for size, shape in ROWS.items()}
    two = {size: [X(*shape), X(*shape)] for size, shape in ROWS.items()}
    three = {size: [X(*shape)] * 3 for size, shape in ROWS.items()}
    for name in ("erf", "erfc", "erfinv", "lgamma", "digamma", "expm1", "log1p", "log2", "log10", "exp2", "acos", "asin", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "tan", "frac", "trunc", "round", "floor", "ceil", "nan_to_num", "logit", "sinc", "cumprod", "logcumsumexp", "cummax", "cummin", "diff", "flip", "softsign", "tanhshrink", "hardshrink", "softshrink", "glu", "rrelu", "logsigmoid", "celu", "mish", "hardtanh"):
        call = getattr(torch, name, None) or getattr(functional, name)
        if name in ("cumprod", "logcumsumexp", "cummax", "cummin"):
            family.add(name, lambda x, f=call: f(x, -1), one)
        elif name == "flip":
            family.add(name, lambda x: x.flip(-1), one)
        elif name == "glu":
            family.add(name, lambda x: functional.glu(torch.cat([x, x], -1)), one)
        else:
            family.add(f"{name} again", call, one)
    for name in ("atan2", "remainder", "fmod", "hypot", "floor_divide", "true_divide", "maximum", "minimum", "dist", "float_power"):
        family.add(f"{name} again", getattr(torch, name), two)
    family.add("addcmul again", torch.addcmul, three)
    family.add("addcdiv again", torch.addcdiv, three)
    family.add("logsumexp again", lambda x: torch.logsumexp(x, -1), one)
    family.add("renorm", lambda x: torch.renorm(x, 2, 0, 1.0), one)
    family.add("quantile", lambda x: torch.quantile(x.float(), 0.5, -1), one, FP32)
    family.add("kthvalue", lambda x: torch.kthvalue(x, 3, -1)[0], one, FP32)
    family.add("mode values", lambda x: torch.mode(x, -1)[0], one, FP32)
    family.add("median rows", lambda x: torch.median(x, -1)[0], one, FP32)
    family.add("var_mean", lambda x: torch.var_mean(x, -1), one)
    family.add("alpha_dropout", lambda x: functional.alpha_dropout(x, 0.1, True), one)
    family.add("feature_alpha_dropout", lambda x: functional.feature_alpha_dropout(x, 0.1, True), one)
    family.add("dropout1d", lambda x: functional.dropout1d(x, 0.1, True), {"small": [X(3, 6, 77)]})
    family.add("dropout2d again", lambda x: functional.dropout2d(x, 0.1, True), {size: [X(*shape)] for size, shape in IMAGES.items()})
    family.add("dropout3d", lambda x: functional.dropout3d(x, 0.1, True), {size: [X(*shape)] for size, shape in VOLUMES.items()})
    family.add("gumbel_softmax", lambda x: functional.gumbel_softmax(x), one)
    family.add("rand_like reparametrized", lambda m, s: m + torch.randn_like(s) * s.mul(0.5).exp(), two)
    family.add("complex times", lambda x, y: torch.view_as_real(torch.complex(x, y) * torch.complex(y, x)), two, FP32)
    family.add("complex abs", lambda x, y: torch.complex(x, y).abs(), two, FP32)
    family.add("polar", lambda x, y: torch.view_as_real(torch.polar(x, y)), two, FP32)
    family.add("straight through", lambda x: x + (x.round() - x).detach(), one)
    family.add("clone channels_last", lambda x: x.clone(memory_format=torch.channels_last), {size: [X(*shape)] for size, shape in IMAGES.items()})
    family.add("special i0e", torch.special.i0e, one, FP32)
    family.add("repeat_interleave number", lambda x: x.repeat_interleave(3, -1), one)
    family.add("tile", lambda x: x.tile(2, 3), one)
    family.add("trapezoid", lambda x: torch.trapezoid(x), one)
    family.add("corrcoef", lambda x: torch.corrcoef(x), {"small": [X(9, 77)]}, FP32)
    family.add("cov", lambda x: torch.cov(x), {"small": [X(9, 77)]}, FP32)


def attention_pieces(family):
    """State spaces and linear attention as written without custom kernels."""
    def scan(x, a):
        state = torch.zeros_like(x[:, 0])
        rows = []
        for step in range(x.shape[1]):
            state = a * state + x[:, step]
            rows.append(state)
        return torch.stack(rows, 1)

    family.add("recurrence in a loop", scan, {"small": [X(3, 7, 16), P(16)], "large": [X(8, 33, 771), P(771)]})
    family.add("causal depthwise conv1d", lambda x, w: functional.conv1d(functional.pad(x, (3, 0)), w, groups=x.shape[1]), {"small": [X(2, 8, 33), P(8, 1, 4)], "large": [X(4, 256, 1024), P(256, 1, 4)]}, MIXED)
    family.add("linear attention", lambda q, k, v: torch.einsum("bld,bde->ble", q.softmax(-1), torch.einsum("bld,ble->bde", k.softmax(1), v)), {"small": [X(2, 33, 8)] * 3, "large": [X(8, 512, 64)] * 3}, MIXED)
    family.add("segsum", lambda x: (x.cumsum(-1)[..., :, None] - x.cumsum(-1)[..., None, :]).tril().exp(), {"small": [X(2, 3, 33)], "large": [X(4, 8, 256)]})
    family.add("relative bias", lambda t, i: t[i.view(-1)].view(49, 49, -1).permute(2, 0, 1).contiguous(), {"small": [P(169, 4), I(49 * 49, high=169)]})
