"""Spreads questions to cuDNN over processes."""

import multiprocessing
import time
from pathlib import Path


def run(work, arguments, *more):
    """Runs `work(number, arguments, *more, until)` in `arguments.jobs` fresh processes and names those that failed."""
    Path(arguments.out).mkdir(parents=True, exist_ok=True)
    until = time.time() + arguments.seconds
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=work, args=(number, arguments, *more, until)) for number in range(arguments.jobs)]
    for worker in workers:
        worker.start()
    for number, worker in enumerate(workers):
        worker.join()
        if worker.exitcode:
            print(f"process {number} ended with {worker.exitcode}", flush=True)
