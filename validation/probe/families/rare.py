"""Operators that few models call: writing in place by index or mask, membership, samples, short-time spectra and back."""

import torch
from specs import PLAIN, C, Family, I, X

FP32 = ("fp32",)
ROWS = {"small": (33, 77), "large": (1605, 771)}
NO_GRAD = ("no_grad",)


def probes():
    family = Family()
    for add in (in_place, by_mask, membership, samples, spectra, algebra):
        add(family)
    return family.probes


def in_place(family):
    for size, (rows, columns) in ROWS.items():
        places = I(9, high=33)
        family.add("index_copy_ into clone", lambda x, i, s: (x * 1).index_copy_(0, i, s), {size: [X(rows, columns), places, X(9, columns)]})
        family.add("index_copy_ columns", lambda x, i, s: (x * 1).index_copy_(1, i, s), {size: [X(rows, columns), places, X(rows, 9)]})
        family.add("index_copy_ of constants", lambda x, i, s: (x * 1).index_copy_(0, i, s), {size: [X(rows, columns), places, C(9, columns)]})
        whole = {size: [C(rows, columns)]}
        family.add("floor_divide_ by number", lambda x: (x * 9).floor_divide_(2), whole)
        family.add("floor_divide_ by tensor", lambda x, y: (x * 9).floor_divide_(y), {size: [C(rows, columns), C(rows, columns)]})
        numbers = {size: [I(rows, columns, high=999)]}
        family.add("floor_divide_ of integers", lambda x: (x * 1).floor_divide_(7), numbers, FP32, NO_GRAD)
        family.add("remainder_ by number", lambda x: (x * 1).remainder_(7), numbers, FP32, NO_GRAD)


def by_mask(family):
    def every_second(x, count):
        return torch.arange(count, device=x.device) % 2 == 0

    def written(x, value=0.5):
        result = x * 1
        result[every_second(x, x.numel()).view(x.shape)] = value
        return result

    def rows_written(x, value):
        result = x * 1
        result[every_second(x, x.shape[0])] = value
        return result

    for size, (rows, columns) in ROWS.items():
        whole = X(rows, columns)
        family.add("mask written with a number", written, {size: [whole]})
        family.add("mask written with one value", written, {size: [whole, X()]})
        family.add("mask written with values", written, {size: [whole, X((rows * columns + 1) // 2)]})
        family.add("rows written by mask", rows_written, {size: [whole, X((rows + 1) // 2, columns)]})
        family.add("rows written by mask with one row", rows_written, {size: [whole, X(columns)]})


def membership(family):
    for size, (rows, columns) in ROWS.items():
        for count in (1, 3, 100, 4096):
            given = {f"{size} {count}": [I(rows, columns, high=999), I(count, high=999)]}
            family.add("isin", torch.isin, given, FP32, NO_GRAD)
            family.add("isin inverted", lambda x, y: torch.isin(x, y, invert=True), given, FP32, NO_GRAD)
        family.add("isin number", lambda x: torch.isin(x, 7), {size: [I(rows, columns, high=999)]}, FP32, NO_GRAD)


def samples(family):
    for size, (rows, columns) in {"small": (33, 77), "large": (129, 50_257), "row": (1, 1000), "one row": (1, 32_000)}.items():
        for count in (1, 5):
            given = {f"{size} {count}": [C(rows, columns)]}
            family.add("multinomial again", lambda x, n=count: torch.multinomial(x, n), given, PLAIN, NO_GRAD)
            family.add("multinomial replaced", lambda x, n=count: torch.multinomial(x, n, replacement=True), given, PLAIN, NO_GRAD)
    family.add("multinomial of vector", lambda x: torch.multinomial(x, 3), {"small": [C(77)], "large": [C(50_257)]}, FP32, NO_GRAD)
    family.add("multinomial replaced of vector", lambda x: torch.multinomial(x, 3, replacement=True), {"small": [C(77)], "large": [C(50_257)]}, FP32, NO_GRAD)


def spectra(family):
    def back(x, window=True, centred=True, length=None):
        shape = torch.hann_window(64, device=x.device) if window else None
        spectrum = torch.stft(x, 64, 16, window=shape, center=centred, return_complex=True)
        return torch.istft(spectrum, 64, 16, window=shape, center=centred, length=length)

    sizes = {"small": [X(3, 400)], "large": [X(5, 48_000)]}
    family.add("istft", back, sizes, FP32)
    family.add("istft of one", back, {"small": [X(400)]}, FP32)
    family.add("istft without window", lambda x: back(x, window=False), sizes, FP32)
    family.add("istft of length", lambda x: back(x, length=x.shape[-1]), sizes, FP32)


def algebra(family):
    steady = lambda x: x @ x.mT + 9 * torch.eye(x.shape[-1], device=x.device)  # noqa: E731
    linalg = torch.linalg
    sizes = {"tiny": [C(3, 3)], "middle": [C(65, 65)], "wide": [C(771, 771)], "tiny batch": [C(129, 3, 3)], "few": [C(2, 129, 129)]}
    calls = {
        "inv": linalg.inv,
        "det": linalg.det,
        "slogdet": lambda x: linalg.slogdet(x)[1],
        "cholesky": linalg.cholesky,
        "qr": lambda x: linalg.qr(x)[0],
        "eigh": lambda x: linalg.eigh(x)[1],
        "svd": lambda x: linalg.svd(x, full_matrices=False)[0],
        "solve": lambda x: linalg.solve(x, x),
        "lu_factor": lambda x: linalg.lu_factor(x)[0],
        "pinv": linalg.pinv,
        "matrix_exp": linalg.matrix_exp,
    }
    for name, call in calls.items():
        family.add(f"linalg {name} of constants", lambda x, call=call: call(steady(x)), sizes, FP32, NO_GRAD)
    for size, shape in {"small": (9, 9), "batch": (64, 33, 33)}.items():
        family.add("matrix_exp", linalg.matrix_exp, {size: [X(*shape)]}, FP32)
        family.add("solve of vector", lambda x, b: linalg.solve(steady(x), b), {size: [X(*shape), X(*shape[:-1])]}, FP32)
    family.add("quantile of several", lambda x: torch.quantile(x, torch.tensor([0.25, 0.5], device=x.device), -1), {size: [X(*shape)] for size, shape in ROWS.items()}, FP32)
    family.add("quantile of all", lambda x: torch.quantile(x, 0.9), {size: [X(*shape)] for size, shape in ROWS.items()}, FP32)
