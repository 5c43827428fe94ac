"""Writes signatures.txt beside this file: python crates/readers/src/pt2/signatures.py

An archive names only the arguments that were given. This table says, from PyTorch's own schemas, which arguments each
operator has, in order, and their defaults. One line an overload:

    name.overload argument argument=default … >alias…

A default is a number, `true`, `false`, `~` (None), `'text`, `[…]` (numbers with commas between) or `@format`. For each
result that is one of the arguments or a view of one, `>w0` (written in place) or `>v0` (a view) names the argument; a
result that is neither is `>-`.
"""

import re
from pathlib import Path

import torch

LEFT_OUT = re.compile(
    r"_backward|^_foreach|^_fused|^_cudnn|^cudnn|^miopen|^mkldnn|^_mkldnn|^quantize|^fbgemm|^_sparse|^sparse|^q_|"
    r"_nested|^_test|^_cslt|^_pack|^_pad_packed|^_masked_scale|Dimname|dimname|^_use_cudnn|^_amp|^_fft|^_coal|^_values"
)
FORMATS = {0: "contiguous", 1: "preserve", 2: "channels_last", 3: "channels_last_3d"}


def default(argument):
    value = argument.default_value
    if argument.name == "memory_format" and isinstance(value, int):
        return "@" + FORMATS[value]
    if value is None:
        return "~"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(str(item).lower() if isinstance(item, bool) else repr(item) for item in value) + "]"
    return "'" + value if isinstance(value, str) else repr(value)


def alias(result, arguments):
    if result.alias_info is None:
        return "-"
    for at, argument in enumerate(arguments):
        if argument.alias_info is not None and argument.alias_info.before_set & result.alias_info.before_set:
            return f"{'w' if result.alias_info.is_write else 'v'}{at}"
    return "-"


def line(schema):
    name = schema.name.removeprefix("aten::") + "." + (schema.overload_name or "default")
    words = [argument.name + (f"={default(argument)}" if argument.has_default_value() else "") for argument in schema.arguments]
    aliases = [alias(result, schema.arguments) for result in schema.returns]
    if any(word != "-" for word in aliases):
        words += [">" + word for word in aliases]
    return " ".join([name, *words])


def main():
    lines = set()
    for schema in torch._C._jit_get_all_schemas():
        is_tensors = any("Tensor" in str(part.type) for part in [*schema.arguments, *schema.returns])
        is_out = any(argument.is_out for argument in schema.arguments)
        full = f"{schema.name}.{schema.overload_name}"
        if schema.name.startswith("aten::") and is_tensors and not is_out and not LEFT_OUT.search(full.removeprefix("aten::")):
            lines.add(line(schema))
    path = Path(__file__).with_name("signatures.txt")
    path.write_text("\n".join(sorted(lines)) + "\n")
    print(f"{len(lines)} operators, torch {torch.__version__}")


if __name__ == "__main__":
    main()
