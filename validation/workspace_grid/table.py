"""The header that every cuDNN table starts with, and the manifest that lists the tables.

A table is a header of 64 bytes and a payload. All numbers are little endian:

    bytes  content
    0-7    magic "VFCUDNN" and a zero byte
    8-11   kind of table: "SERS" (series), "TREE" (decision trees), "RECU" (recurrent layers), "CAPS" (by capability)
    12-13  format version of this kind
    14-15  length of the header
    16-19  length of the payload
    20-23  CRC-32 of the payload
    24-27  cuDNN version, as cudnnGetVersion returns it
    28-29  compute capability of the GPU, major and minor
    30-31  multiprocessors of the GPU
    32-33  threads per multiprocessor
    34-59  name of the GPU, padded with zero bytes
    60-63  CRC-32 of bytes 0-59

`crates/cudnn/src/table.rs` reads the same header.
"""

import json
import struct
import tomllib
import zlib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "crates" / "cudnn" / "data"
MANIFEST = DATA / "manifest.toml"
MAGIC = b"VFCUDNN\0"
HEADER = struct.Struct("<8s4sHHIIIBBHH26s")
CHECKSUM = struct.Struct("<I")
LENGTH = HEADER.size + CHECKSUM.size
# Kinds with the version of their format.
SERIES, TREES, RECURRENT, CAPABILITIES = (b"SERS", 3), (b"TREE", 2), (b"RECU", 1), (b"CAPS", 1)


class BadTable(Exception):
    """A file that is not a complete table of the expected kind."""


@dataclass(frozen=True)
class Source:
    """The GPU and the libraries that gave the answers of a table."""

    gpu: str
    capability: tuple
    multiprocessors: int
    threads_per_multiprocessor: int
    cudnn: int
    torch: str


# No GPU answered: the library was asked about each compute capability.
DESCRIBED = Source("", (0, 0), 0, 0, 91900, "2.11.0+cu130")
H200 = Source("NVIDIA H200", (9, 0), 132, 2048, 91900, "2.11.0+cu130")


def with_header(kind, payload, source=H200):
    name, version = kind
    head = HEADER.pack(MAGIC, name, version, LENGTH, len(payload), zlib.crc32(payload), source.cudnn, *source.capability,
                       source.multiprocessors, source.threads_per_multiprocessor, source.gpu.encode())  # fmt: skip
    return head + CHECKSUM.pack(zlib.crc32(head)) + payload


def payload_of(data, kind):
    """The payload of a table of this kind, with header, length and checksum verified."""
    if len(data) < LENGTH or data[: len(MAGIC)] != MAGIC:
        raise BadTable("not a cuDNN table")
    head = data[: HEADER.size]
    if CHECKSUM.unpack_from(data, HEADER.size)[0] != zlib.crc32(head):
        raise BadTable("damaged header")
    _, name, version, start, length, checksum, *_ = HEADER.unpack(head)
    if (name, version) != kind:
        raise BadTable(f"kind {name!r} version {version} instead of {kind}")
    payload = data[start:]
    if len(payload) != length or zlib.crc32(payload) != checksum:
        raise BadTable("damaged payload")
    return payload


def manifest():
    """The entries of the manifest by file name."""
    return {entry["file"]: entry for entry in tomllib.loads(MANIFEST.read_text())["table"]} if MANIFEST.exists() else {}


def write_manifest(entries):
    lines = ["# The tables of this folder: which GPU and libraries answered, when, and which command made the file.",
             "# Written by validation/workspace_grid/make_tables.py. The crate's tests compare it with the files."]  # fmt: skip
    for _, entry in sorted(entries.items()):
        lines += ["", "[[table]]", *(f"{name} = {json.dumps(value)}" for name, value in entry.items())]
    MANIFEST.write_text("\n".join(lines) + "\n")


def entry(file, content, kind, recorded, command, inputs, source=H200):
    """The manifest's entry for a file as it is on disk."""
    data = (DATA / file).read_bytes()
    found = {"file": file, "content": content}
    if kind:
        found |= {"kind": kind[0].decode(), "format": kind[1]}
    return found | {
        "gpu": source.gpu,
        "compute_capability": ".".join(map(str, source.capability)),
        "multiprocessors": source.multiprocessors,
        "threads_per_multiprocessor": source.threads_per_multiprocessor,
        "cudnn": source.cudnn,
        "torch": source.torch,
        "recorded": recorded,
        "command": command,
        "inputs": inputs,
        "length": len(data),
        "crc32": f"{zlib.crc32(data):08x}",
    }
