"""The JSON files of this folder, compressed."""

import gzip
import json


def read(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def write(path, value):
    data = (json.dumps(value, indent=1) + "\n").encode()
    path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)
