"""How long `vramfit run` takes to record a script beyond importing its libraries, and how much memory the process has in the end.

    PYTHONPATH=python python3 benchmarks/run/seconds.py benchmarks/run/gpt2.py
"""

import os
import resource
import sys
import tempfile
import time

import torch  # noqa: F401
import transformers
from vramfit import file_format
from vramfit.running.cuda import Gpu
from vramfit.running.script import Limits, record
from vramfit.running.writing import contents

transformers.GPT2LMHeadModel  # noqa: B018 - imports it now
begun = time.monotonic()
recorded = record(sys.argv[1], sys.argv[2:], Gpu("NVIDIA H200", (9, 0), 141 << 30, 132), Limits(None, False))
with tempfile.TemporaryDirectory() as folder:
    size = file_format.write(os.path.join(folder, "script.vramfit"), contents(recorded, sys.argv[1]))
seconds = time.monotonic() - begun
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{recorded.steps} steps, {len(recorded.recorder.steps)} events, {size} bytes: {seconds:.2f} s beyond imports, {memory:.0f} MiB")
