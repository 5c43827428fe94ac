"""The losses of torch.nn.functional."""

import torch
from specs import LARGE, MIXED, PLAIN, SMALL, B, C, Family, I, X
from torch.nn import functional

CLASSES = {"small": (9, 7), "large": (1605, 771), "tokens": (512, 30522), "wide": (1023, 50257)}


def probes():
    family = Family()
    cross_entropies(family)
    regressions(family)
    others(family)
    return family.probes


def cross_entropies(family):
    for size, (rows, classes) in CLASSES.items():
        given = {size: [X(rows, classes), I(rows, high=classes)]}
        dtypes = MIXED if size in ("small", "large") else PLAIN
        family.add("cross_entropy", functional.cross_entropy, given, dtypes)
        family.add("cross_entropy ignore", lambda x, t: functional.cross_entropy(x, t, ignore_index=-100), given)
        family.add("cross_entropy sum", lambda x, t: functional.cross_entropy(x, t, reduction="sum"), given)
        family.add("cross_entropy none", lambda x, t: functional.cross_entropy(x, t, reduction="none"), given)
        family.add(
            "cross_entropy smooth", lambda x, t: functional.cross_entropy(x, t, label_smoothing=0.1), given, MIXED
        )
        family.add(
            "cross_entropy of float", lambda x, t: functional.cross_entropy(x.float(), t), given, ("bf16", "fp16")
        )
        family.add("nll_loss", functional.nll_loss, given)
        weighted = {size: [X(rows, classes), I(rows, high=classes), C(classes)]}
        family.add("cross_entropy weights", lambda x, t, w: functional.cross_entropy(x, t, w), weighted)
        family.add(
            "cross_entropy weights smooth",
            lambda x, t, w: functional.cross_entropy(x, t, w, label_smoothing=0.1),
            weighted,
        )
        family.add(
            "cross_entropy probabilities", functional.cross_entropy, {size: [X(rows, classes), C(rows, classes)]}
        )
        family.add("nll of log_softmax", lambda x, t: functional.nll_loss(functional.log_softmax(x, -1), t), given)
    images = {
        "4d small": [X(2, 5, 7, 9), I(2, 7, 9, high=5)],
        "4d": [X(4, 21, 96, 97), I(4, 96, 97, high=21)],
        "3d": [X(8, 5003, 99), I(8, 99, high=5003)],
    }
    family.add("cross_entropy", functional.cross_entropy, images)
    family.add("cross_entropy smooth", lambda x, t: functional.cross_entropy(x, t, label_smoothing=0.1), images)
    family.add("nll_loss", functional.nll_loss, images)

    def causal(logits, labels):
        logits = logits.float()
        labels = functional.pad(labels, (0, 1), value=-100)
        shifted = labels[..., 1:].contiguous()
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), shifted.view(-1), ignore_index=-100)

    family.add("causal loss of transformers", causal, {"large": [X(3, 77, 30522), I(3, 77, high=30522)]}, MIXED)


def regressions(family):
    for size, shape in {"small": SMALL, "large": LARGE, "vector": (1003,)}.items():
        fixed = {size: [X(*shape), C(*shape)]}
        for (
            name
        ) in "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits soft_margin_loss".split():
            function = getattr(functional, name)
            family.add(name, function, fixed, MIXED if size == "large" else PLAIN)
            family.add(f"{name} sum", lambda x, y, f=function: f(x, y, reduction="sum"), fixed, ("fp32",))
            family.add(f"{name} none", lambda x, y, f=function: f(x, y, reduction="none"), fixed, ("fp32",))
        family.add("mse_loss both", functional.mse_loss, {size: [X(*shape), X(*shape)]})
        family.add("l1_loss both", functional.l1_loss, {size: [X(*shape), X(*shape)]})
        family.add("binary_cross_entropy", lambda x, y: functional.binary_cross_entropy(x, y), fixed)
        family.add("kl_div", lambda x, y: functional.kl_div(x, y, reduction="batchmean"), fixed)
        family.add("kl_div log", lambda x, y: functional.kl_div(x, y, log_target=True, reduction="batchmean"), fixed)
        family.add("poisson_nll_loss", functional.poisson_nll_loss, fixed)
        family.add(
            "bce_with_logits to float", lambda x, y: functional.binary_cross_entropy_with_logits(x, y.float()), fixed
        )
        weighted = {size: [X(*shape), C(*shape), C(shape[-1])]}
        family.add(
            "bce_with_logits pos_weight",
            lambda x, y, w: functional.binary_cross_entropy_with_logits(x, y, pos_weight=w),
            weighted,
        )
        family.add("mean", lambda x: x.mean(), {size: [X(*shape)]})
        family.add("square mean", lambda x: x.pow(2).mean(), {size: [X(*shape)]})


def others(family):
    rows = {"small": [X(9, 77), X(9, 77), C(9)], "large": [X(1605, 771), X(1605, 771), C(1605)]}
    family.add("cosine_embedding_loss", lambda x, y, t: functional.cosine_embedding_loss(x, y, t.sign()), rows)
    family.add("margin_ranking_loss", lambda x, y, t: functional.margin_ranking_loss(x, y, t[:, None].sign()), rows)
    family.add("gaussian_nll_loss", lambda x, y, t: functional.gaussian_nll_loss(x, y, t[:, None] + 0.1), rows)
    three = {"small": [X(9, 77)] * 3, "large": [X(1605, 771)] * 3}
    family.add("triplet_margin_loss", functional.triplet_margin_loss, three)
    classes = {"small": [X(9, 7), I(9, high=7)], "large": [X(1605, 771), I(1605, high=771)]}
    family.add("multi_margin_loss", functional.multi_margin_loss, classes, ("fp32",))
    many = {"small": [X(9, 7), B(9, 7)], "large": [X(1605, 771), B(1605, 771)]}
    family.add(
        "multilabel_soft_margin_loss", lambda x, y: functional.multilabel_soft_margin_loss(x, y.to(x.dtype)), many
    )
    pairs = {"small": [X(9, 77)] * 2, "large": [X(1605, 771)] * 2}
    family.add("pairwise_distance", functional.pairwise_distance, pairs)
    family.add("cdist", torch.cdist, {"large": [X(4, 301, 77), X(4, 299, 77)]}, ("fp32",))
    family.add("divided loss", lambda x, t: functional.cross_entropy(x, t) / 4, classes)
