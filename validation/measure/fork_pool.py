"""Runs jobs in fresh processes, several at a time, without repeating the imports in each.

The parent imports torch and the model libraries but never uses CUDA. Each job is a fork of it and
initialises CUDA itself, so that context, allocator and library handles are as in a new program. If a
fork cannot initialise CUDA, each job is a new Python process instead.

A job is {"name": …, "call": "module:function", "arguments": {…}}; the function returns what JSON can hold.
"""

import argparse
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

VALIDATION = Path(__file__).resolve().parents[1]
LOG_TAIL = 1500


def prepare_environment():
    """Before torch is imported. The NVML check keeps is_available from initialising CUDA in the parent."""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"):
        os.environ.pop(name, None)
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    for folder in (VALIDATION, VALIDATION / "measure", VALIDATION / "probe"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))


def call(job):
    module, function = job["call"].split(":")
    try:
        return getattr(importlib.import_module(module), function)(**job["arguments"])
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        return {"error": f"{type(error).__name__}: {error}"[:500], "traceback": text[-LOG_TAIL:]}


def write_result(job, path):
    """First under another name, so that a file under its own name is whole."""
    result = json.dumps(call(job), separators=(",", ":"))
    partial = path.with_suffix(".partial")
    partial.write_text(result)
    partial.rename(path)


class Child:
    """One running job."""

    def __init__(self, job, folder, number, forked):
        self.job = job
        self.result = folder / f"{number}.json"
        self.log = folder / f"{number}.log"
        self.began = time.monotonic()
        self.pid = self.fork() if forked else self.spawn(folder, number)

    def fork(self):
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            write_result(self.job, self.result)
            code = 0
        finally:
            os._exit(code)

    def spawn(self, folder, number):
        job_file = folder / f"{number}.job"
        job_file.write_text(json.dumps(self.job))
        command = [sys.executable, __file__, "--job", str(job_file), "--result", str(self.result)]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        return self.process.pid

    def outcome(self, timeout):
        """None while it runs, else its result."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        seconds = time.monotonic() - self.began
        if pid == 0 and seconds < timeout:
            return None
        if pid == 0:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            return {"error": f"stopped after {timeout} s", "log": self.log_tail(), "seconds": timeout}
        if self.result.exists():
            return {**json.loads(self.result.read_text()), "seconds": round(seconds, 2)}
        return {"error": f"ended with status {status}", "log": self.log_tail(), "seconds": round(seconds, 2)}

    def log_tail(self):
        return self.log.read_text(errors="replace")[-LOG_TAIL:] if self.log.exists() else ""


@functools.cache
def can_fork(device):
    """Whether a fork of this process may use CUDA; asked once, after the imports."""
    if device == "cpu":
        return True
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    code = 1
    try:
        import torch

        torch.zeros(8, device="cuda").sum().item()
        code = 0
    finally:
        os._exit(code)


def run(jobs, limit, timeout, device, report=None, deadline=None):
    """Results by job name. Calls `report(name, result, done, total)` for each.

    After `deadline`, a time of time.time(), no job is started any more.
    """
    forked = can_fork(device)
    if not forked:
        print("forks cannot use CUDA here: a new Python process for each job", file=sys.stderr, flush=True)
    results, running, waiting = {}, [], list(enumerate(jobs))
    with tempfile.TemporaryDirectory() as folder:
        while waiting or running:
            if deadline and time.time() > deadline:
                results.update({job["name"]: {"error": "not started: out of time"} for _, job in waiting})
                waiting = []
            while waiting and len(running) < limit:
                number, job = waiting.pop(0)
                running.append(Child(job, Path(folder), number, forked))
            for child in list(running):
                result = child.outcome(timeout)
                if result is None:
                    continue
                running.remove(child)
                results[child.job["name"]] = result
                if report:
                    report(child.job["name"], result, len(results), len(jobs))
            time.sleep(0.02)
    return results


if __name__ == "__main__":
    prepare_environment()
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", type=Path, required=True)
    parser.add_argument("--result", type=Path, required=True)
    given = parser.parse_args()
    write_result(json.loads(given.job.read_text()), given.result)
