"""Runs one case in a fresh process and records what PyTorch's CUDA allocator did.

    python record.py --case resnet18 --out folder
    python record.py --case resnet18 --out folder --alloc-conf expandable_segments:True --label expandable

Writes NAME[.LABEL].pickle.gz, the snapshot as torch.cuda.memory._dump_snapshot pickles it with
machine paths removed, and NAME[.LABEL].json, the statistics. With --peaks-only it records no history
and writes only the statistics, as NAME[.LABEL].runK.json. On the CPU (--device cpu) the case runs with
tiny sizes and nothing is written: a check that the script runs.
"""

import argparse
import gzip
import importlib
import json
import os
import pickle
import platform
import random
import sys
import time
import traceback
from pathlib import Path

from scrub import scrub

MIB = 1024 * 1024


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", required=True, help="a file name of cases/, without .py")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the results")
    parser.add_argument("--alloc-conf", default="", help="PYTORCH_CUDA_ALLOC_CONF")
    parser.add_argument("--cap-mib", type=int, help="what PyTorch may reserve; 0: no cap (default: the case's own)")
    parser.add_argument("--label", default="", help="stands for the settings in the file names")
    parser.add_argument("--run", type=int, default=0, help="the number of this repetition")
    parser.add_argument("--peaks-only", action="store_true", help="no history, no snapshot")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    return parser.parse_args()


def prepare_environment(alloc_conf):
    """Must come before torch is imported: libc10 reads the settings when it is loaded."""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"):
        os.environ.pop(name, None)
    if alloc_conf:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = alloc_conf
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


class Recorder:
    """What happens around a case on the GPU: history, cap, observer of failures, snapshot, statistics."""

    def __init__(self, torch, case, arguments):
        self.torch = torch
        self.memory = torch.cuda.memory
        self.snapshot = None
        self.failures = []
        self.result = {}
        self.recording = not arguments.peaks_only
        self.cap_mib = getattr(case, "CAP_MIB", 0) if arguments.cap_mib is None else arguments.cap_mib
        self.history = {"enabled": "all", "context": "all", "stacks": "python", "max_entries": 1_000_000}
        self.history.update(getattr(case, "HISTORY", {}))
        self.records_itself = getattr(case, "RECORDS_ITSELF", False)

    def start(self):
        """Before the first allocation, so that the history holds everything the statistics count."""
        torch = self.torch
        torch.cuda.init()
        properties = torch.cuda.get_device_properties(0)
        _, total = torch.cuda.mem_get_info(0)
        fraction = None
        if self.cap_mib:
            fraction = self.cap_mib * MIB / total
            torch.cuda.set_per_process_memory_fraction(fraction, 0)
        torch._C._cuda_attach_out_of_memory_observer(self.observe_failure)
        if self.recording and not self.records_itself:
            self.memory._record_memory_history(**self.history)
        self.result.update(
            gpu=properties.name,
            compute_capability=f"{properties.major}.{properties.minor}",
            total_memory=properties.total_memory,
            device_total=total,
            torch=torch.__version__,
            cuda=torch.version.cuda,
            cudnn=torch.backends.cudnn.version(),
            python=platform.python_version(),
            cap_mib=self.cap_mib or None,
            memory_fraction=fraction,
            cap_bytes=int(fraction * total) if fraction else None,
            history=self.history if self.recording and not self.records_itself else None,
        )

    def observe_failure(self, device, requested, limit, device_free):
        """Called by the allocator on every failed request, also on those cuDNN recovers from."""
        self.failures.append(
            {
                "requested": requested,
                "limit": limit,
                "device_free": device_free,
                "stats": dict(self.memory.memory_stats(device)),
            }
        )

    def finish(self):
        """While all that the case holds is alive: the statistics, then at once the snapshot."""
        stats = dict(self.memory.memory_stats(0))
        if self.recording:
            self.snapshot = self.memory._snapshot()
        self.result.update(
            peak_allocated=stats["allocated_bytes.all.peak"],
            peak_reserved=stats["reserved_bytes.all.peak"],
            stats=stats,
            summary=self.memory.memory_summary(0) if self.recording else None,
        )

    def run(self, case):
        """A failed request is a result. The traceback keeps the case's variables alive till finish.

        cuDNN turns a workspace it cannot get into a plain RuntimeError.
        """
        self.result["oom"] = None
        try:
            case.main("cuda", False, self.finish)
        except RuntimeError as error:
            if not self.failures:
                raise
            self.finish()
            self.result["oom"] = {"type": type(error).__name__, "text": str(error), **self.failures[-1]}
        self.result["failed_requests"] = [
            {name: value for name, value in failure.items() if name != "stats"} for failure in self.failures
        ]


def write_snapshot(snapshot, path):
    scrub(snapshot)
    pickled = pickle.dumps(snapshot)
    path.write_bytes(gzip.compress(pickled, compresslevel=9, mtime=0))
    return {
        "events": [len(trace) for trace in snapshot["device_traces"]],
        "segments": len(snapshot["segments"]),
        "pickle_bytes": len(pickled),
        "gzip_bytes": path.stat().st_size,
    }


def main():
    arguments = parse_arguments()
    prepare_environment(arguments.alloc_conf)
    started = time.monotonic()

    import torch

    sys.path.insert(0, str(Path(__file__).resolve().parent))
    case = importlib.import_module(f"cases.{arguments.case}")
    random.seed(0)
    torch.manual_seed(0)

    if arguments.device == "cpu":
        if getattr(case, "NEEDS_CUDA", False):
            print(f"{arguments.case}: needs CUDA, not run")
        else:
            case.main("cpu", True, lambda: None)
        return 0

    arguments.out.mkdir(parents=True, exist_ok=True)
    name = ".".join(part for part in (arguments.case, arguments.label) if part)
    statistics = f"{name}.run{arguments.run}.json" if arguments.peaks_only else f"{name}.json"
    recorder = Recorder(torch, case, arguments)
    recorder.result.update(
        case=arguments.case,
        label=arguments.label,
        run=arguments.run,
        recorded=recorder.recording,
        alloc_conf=arguments.alloc_conf,
    )
    status = 0
    try:
        recorder.start()
        recorder.run(case)
        if recorder.recording:
            recorder.result.update(write_snapshot(recorder.snapshot, arguments.out / f"{name}.pickle.gz"))
    except Exception:
        traceback.print_exc()
        recorder.result["error"] = traceback.format_exc().replace(str(Path(__file__).resolve().parent), ".")
        status = 1
    recorder.result["seconds"] = round(time.monotonic() - started, 2)
    (arguments.out / statistics).write_text(json.dumps(recorder.result, indent=1) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
