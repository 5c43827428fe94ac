"""Reads the allocator at the end of each phase."""

import os
import subprocess

import torch


class Meter:
    """Called at the end of each phase; `tracer` marks the place in the trace."""

    def __init__(self, device, tracer=None, alone=False):
        self.device = device
        self.tracer = tracer
        self.alone = alone
        self.phases = []
        self.final = {}

    def __call__(self, step, name, micro):
        if self.device != "cuda":
            self.phases.append({"step": step, "phase": name, "micro": micro})
            return
        self.phases.append(
            {
                "step": step,
                "phase": name,
                "micro": micro,
                "allocated": torch.cuda.memory_allocated(),
                "peak": torch.cuda.max_memory_allocated(),
                "reserved": torch.cuda.memory_reserved(),
                "peak_reserved": torch.cuda.max_memory_reserved(),
            }
        )
        if self.tracer:
            self.tracer.mark("/".join(str(part) for part in (step, name, micro) if part is not None))
        torch.cuda.reset_peak_memory_stats()

    def end(self):
        """While everything is still held."""
        if self.device != "cuda":
            return
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        self.final["memory_stats"] = {key: value for key, value in stats.items() if value}
        self.final["num_alloc_retries"] = stats.get("num_alloc_retries")
        if self.tracer:
            self.final["trace"] = self.tracer.finish()
            return
        self.final["device_used"] = device_used()
        if self.alone:
            free, total = torch.cuda.mem_get_info()
            self.final["device_used_alone"] = total - free

    def peaks(self):
        """Maxima over the steps; building is not counted."""
        steps = [phase for phase in self.phases if phase["phase"] != "build" and "peak" in phase]
        return {
            "peak_allocated": max((phase["peak"] for phase in steps), default=None),
            "peak_reserved": max((phase["peak_reserved"] for phase in steps), default=None),
        }


def device_used():
    """What nvidia-smi shows for this process in bytes, or None where it cannot tell."""
    command = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=20).stdout.splitlines()
        for line in lines:
            pid, used = (part.strip() for part in line.split(","))
            if int(pid) == os.getpid():
                return int(used) * 1024 * 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return None
