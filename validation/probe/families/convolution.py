"""Part two: convolutions, their norms, pools and resizing."""

import torch
from specs import PLAIN, Family, P, X
from torch.nn import functional

DTYPES = ("fp32", "bf16", "amp-bf16", "amp-fp16")


def probes():
    family = Family()
    two_dimensional(family)
    other_dimensions(family)
    norms(family)
    pools(family)
    return family.probes


def two_dimensional(family):
    for (batch, channels, side), outputs, kernel, options in [
        ((2, 3, 32), 16, 3, {"padding": 1}),
        ((8, 64, 56), 64, 3, {"padding": 1}),
        ((8, 64, 56), 256, 1, {}),
        ((8, 256, 56), 64, 1, {}),
        ((16, 3, 128), 64, 7, {"padding": 3, "stride": 2}),
        ((8, 128, 28), 256, 3, {"padding": 1, "stride": 2}),
        ((4, 512, 7), 512, 3, {"padding": 1}),
        ((4, 96, 28), 96, 7, {"padding": 3, "groups": 96}),
        ((4, 96, 28), 96, 3, {"padding": 1, "groups": 96}),
        ((4, 64, 28), 128, 3, {"padding": 1, "groups": 4}),
        ((4, 64, 33), 64, 3, {"padding": 2, "dilation": 2}),
        ((8, 3, 224), 768, 16, {"stride": 16}),
        ((3, 17, 31), 13, 5, {}),
        ((16, 32, 64), 32, 3, {"padding": 1}),
        ((16, 512, 14), 512, 3, {"padding": 1}),
        ((32, 1024, 7), 2048, 1, {"stride": 2}),
    ]:
        groups = options.get("groups", 1)
        text = f"{batch}x{channels}x{side}x{side} to {outputs}, kernel {kernel} {options}"
        weight = P(outputs, channels // groups, kernel, kernel)
        image = (batch, channels, side, side)
        call = lambda x, w, o=options: functional.conv2d(x, w, **o)  # noqa: E731
        family.add("conv2d", call, {text: [X(*image), weight]}, DTYPES)
        family.add(
            "conv2d channels-last", call, {text: [X(*image, layout="channels-last"), weight]}, ("fp32", "amp-bf16")
        )
        family.add(
            "conv2d bias",
            lambda x, w, b, o=options: functional.conv2d(x, w, b, **o),
            {text: [X(*image), weight, P(outputs)]},
            ("fp32", "amp-bf16"),
        )
    for image, outputs, kernel, options in [
        ((4, 64, 24, 24), 32, 2, {"stride": 2}),
        ((2, 512, 14, 14), 256, 4, {"stride": 2, "padding": 1}),
        ((3, 16, 31, 31), 8, 3, {}),
    ]:
        family.add(
            "conv_transpose2d",
            lambda x, w, b, o=options: functional.conv_transpose2d(x, w, b, **o),
            {
                f"{image} to {outputs}, kernel {kernel} {options}": [
                    X(*image),
                    P(image[1], outputs, kernel, kernel),
                    P(outputs),
                ]
            },
            DTYPES,
        )


def other_dimensions(family):
    for image, outputs, kernel, options in [
        ((4, 80, 1500), 384, 3, {"padding": 1}),
        ((4, 384, 750), 384, 3, {"padding": 1, "stride": 2}),
        ((3, 17, 301), 33, 5, {}),
        ((3, 64, 301), 64, 3, {"groups": 64}),
    ]:
        arguments = [X(*image), P(outputs, image[1] // options.get("groups", 1), kernel), P(outputs)]
        call = lambda x, w, b, o=options: functional.conv1d(x, w, b, **o)  # noqa: E731
        family.add("conv1d", call, {f"{image} to {outputs}, kernel {kernel} {options}": arguments}, DTYPES)
    for image, outputs in [((2, 3, 8, 56, 56), 64), ((2, 32, 9, 17, 17), 16)]:
        arguments = [X(*image), P(outputs, image[1], 3, 3, 3), P(outputs)]
        call = lambda x, w, b: functional.conv3d(x, w, b, padding=1)  # noqa: E731
        family.add("conv3d", call, {f"{image} to {outputs}": arguments}, ("fp32", "amp-bf16"))
    family.add(
        "conv_transpose1d",
        lambda x, w: functional.conv_transpose1d(x, w, stride=2),
        {"large": [X(4, 64, 501), P(64, 32, 4)]},
        ("fp32",),
    )


def norms(family):
    images = {"small": (3, 7, 9, 9), "large": (5, 33, 77, 99), "channels": (8, 512, 14, 14)}
    for size, image in images.items():
        channels = image[1]

        def batch_norm(x, w, b, training=True):
            mean, variance = torch.zeros_like(w).detach(), torch.ones_like(w).detach()
            return functional.batch_norm(x, mean, variance, w, b, training=training)

        three = {size: [X(*image), P(channels), P(channels)]}
        family.add("batch_norm", batch_norm, three, ("fp32", "bf16", "amp-bf16"))
        family.add("batch_norm eval", lambda x, w, b: batch_norm(x, w, b, False), three, PLAIN)
        last = {size: [X(*image, layout="channels-last"), P(channels), P(channels)]}
        family.add("batch_norm channels-last", batch_norm, last, ("fp32", "amp-bf16"))
        family.add(
            "batch_norm, parameters fp32",
            batch_norm,
            {size: [X(*image), P(channels, dtype=torch.float32), P(channels, dtype=torch.float32)]},
            ("bf16",),
        )
        groups = {7: 7, 33: 3, 512: 32}[channels]
        family.add(
            "group_norm",
            lambda x, w, b, g=groups: functional.group_norm(x, g, w, b),
            three,
            ("fp32", "bf16", "amp-bf16"),
        )
        family.add("group_norm plain", lambda x, g=groups: functional.group_norm(x, g), {size: [X(*image)]})
        family.add("instance_norm", lambda x, w, b: functional.instance_norm(x, weight=w, bias=b), three)
        family.add("instance_norm plain", lambda x: functional.instance_norm(x), {size: [X(*image)]})
    rows = {"rows": [X(1003, 129), P(129), P(129)], "3d": [X(5, 129, 301), P(129), P(129)]}
    family.add("batch_norm", batch_norm, rows, PLAIN)
    family.add(
        "conv batch_norm relu",
        lambda x, k, w, b: functional.relu_(batch_norm(functional.conv2d(x, k, padding=1), w, b)),
        {"large": [X(8, 64, 56, 56), P(64, 64, 3, 3), P(64), P(64)]},
        ("fp32", "amp-bf16"),
    )


def pools(family):
    image = {"small": [X(3, 7, 9, 9)], "large": [X(5, 33, 77, 99)]}
    last = {"channels-last": [X(5, 32, 77, 99, layout="channels-last")]}
    for name, call in {
        "max_pool2d": lambda x: functional.max_pool2d(x, 2),
        "max_pool2d overlapping": lambda x: functional.max_pool2d(x, 3, 2, 1),
        "max_pool2d indices": lambda x: functional.max_pool2d(x, 2, return_indices=True),
        "avg_pool2d": lambda x: functional.avg_pool2d(x, 2),
        "adaptive_avg_pool2d 1": lambda x: functional.adaptive_avg_pool2d(x, 1),
        "adaptive_avg_pool2d 7": lambda x: functional.adaptive_avg_pool2d(x, 7),
        "adaptive_max_pool2d 3": lambda x: functional.adaptive_max_pool2d(x, 3),
        "lp_pool2d": lambda x: functional.lp_pool2d(x, 2, 2),
        "interpolate nearest": lambda x: functional.interpolate(x, scale_factor=2),
        "interpolate bilinear": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
        "interpolate bicubic": lambda x: functional.interpolate(x, scale_factor=2, mode="bicubic"),
        "interpolate area": lambda x: functional.interpolate(x, size=(5, 5), mode="area"),
        "interpolate smaller": lambda x: functional.interpolate(x, size=(5, 5), mode="bilinear", antialias=True),
        "pixel_shuffle": lambda x: functional.pixel_shuffle(x[:, :4], 2),
        "pixel_unshuffle": lambda x: functional.pixel_unshuffle(x[..., :8, :8], 2),
        "unfold 2d": lambda x: functional.unfold(x, 3, padding=1),
        "pad image reflect": lambda x: functional.pad(x, (1, 1, 1, 1), mode="reflect"),
        "channel shuffle": lambda x: torch.channel_shuffle(x[:, :6], 2),
        "grid_sample": lambda x: functional.grid_sample(
            x, torch.zeros(x.shape[0], 9, 9, 2, dtype=x.dtype, device=x.device)
        ),
        "to channels-last": lambda x: x.contiguous(memory_format=torch.channels_last),
    }.items():
        family.add(name, call, image, ("fp32", "bf16"))
        family.add(name, call, last, ("fp32",))
    line = {"small": [X(3, 7, 77)], "large": [X(5, 33, 7001)]}
    family.add("max_pool1d", lambda x: functional.max_pool1d(x, 2), line)
    family.add("avg_pool1d", lambda x: functional.avg_pool1d(x, 2), line)
    family.add("adaptive_avg_pool1d", lambda x: functional.adaptive_avg_pool1d(x, 1), line)
    family.add("interpolate linear", lambda x: functional.interpolate(x, scale_factor=2, mode="linear"), line)
    volume = {"large": [X(2, 8, 17, 33, 33)]}
    family.add("max_pool3d", lambda x: functional.max_pool3d(x, 2), volume)
    family.add("avg_pool3d", lambda x: functional.avg_pool3d(x, 2), volume)
    family.add("adaptive_avg_pool3d", lambda x: functional.adaptive_avg_pool3d(x, 1), volume)
