"""Names that newer versions of NumPy and Pillow removed and old scripts use."""

import numpy


def restore_numpy():
    """Changes `numpy`, which this package has imported."""
    for name, kind in (("float", float), ("int", int), ("bool", bool), ("object", object)):
        if name not in vars(numpy):
            setattr(numpy, name, kind)


def restore_pillow(image):
    """Changes `PIL.Image`."""
    if not hasattr(image, "ANTIALIAS"):
        image.ANTIALIAS = image.LANCZOS
