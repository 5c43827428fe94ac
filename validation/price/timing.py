"""Times a call: on the GPU without waiting for the CPU, and on the CPU without waiting for the GPU.

On a machine without a GPU (`device = "cpu"`) everything is wall time, which only shows that the scripts run.
"""

import gc
import statistics
import time

import torch

SLEEP_CYCLES_A_CALL = 400_000  # 0.2 ms at 2 GHz: more than any call's dispatch takes
MOST_CALLS = 12
WANTED_MS = 2.0
DISPATCHES = 100  # the queue of launches holds 1,024


class Clock:
    def __init__(self, device):
        self.device = device
        gc.disable()

    def synchronize(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def gpu(self, call):
        """Microseconds that a call keeps the GPU busy. A kernel that spins lets the CPU get ahead first."""
        call()
        self.synchronize()
        if self.device != "cuda":
            began = time.perf_counter()
            call()
            return (time.perf_counter() - began) * 1e6
        single = self.burst(call, 1)
        count = int(min(MOST_CALLS, max(2, WANTED_MS / max(single, 1e-3))))
        return min(self.burst(call, count), self.burst(call, count)) * 1e3

    def burst(self, call, count):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(SLEEP_CYCLES_A_CALL * count)
        first.record()
        for _ in range(count):
            call()
        last.record()
        torch.cuda.synchronize()
        return first.elapsed_time(last) / count

    def gpu_backward(self, forward, inputs):
        """The same of the backward pass of what `forward` returns, for the gradients of `inputs`."""
        output = forward()
        gradient = torch.randn_like(output)
        return self.gpu(lambda: torch.autograd.grad(output, inputs, gradient, retain_graph=True))

    def cpu(self, call, count=DISPATCHES):
        """Microseconds until a call has been handed to the GPU."""
        for _ in range(10):
            call()
        self.synchronize()
        found = []
        for _ in range(5):
            began = time.perf_counter()
            for _ in range(count):
                call()
            found.append((time.perf_counter() - began) / count * 1e6)
            self.synchronize()
        return statistics.median(found)

    def cpu_backward(self, make, count=40):
        """Microseconds until the backward pass of one call has been handed over, gradient sinks included.

        `make()` returns (output, leaves) with new leaves each time, so that nothing is summed on the way.
        """
        found = []
        for _ in range(4):
            outputs = [make()[0] for _ in range(count)]
            gradients = [torch.ones_like(output) for output in outputs]
            self.synchronize()
            began = time.perf_counter()
            torch.autograd.backward(outputs, gradients)
            found.append((time.perf_counter() - began) / count * 1e6)
            self.synchronize()
        return statistics.median(found[1:])
