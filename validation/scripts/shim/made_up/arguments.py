"""Stands for `tyro`: command lines of a data class's fields."""

import argparse
import dataclasses


def module(tyro):
    """Fills the module."""

    def cli(kind):
        parser = argparse.ArgumentParser()
        for field in dataclasses.fields(kind):
            convert = field.type if field.type in (int, float, str) else (lambda text: text == "True")
            parser.add_argument("--" + field.name.replace("_", "-"), dest=field.name, type=convert, default=field.default)
        return kind(**vars(parser.parse_args()))

    tyro.cli = cli
