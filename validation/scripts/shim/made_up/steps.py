"""Ends a script after so many optimizer steps (`MADE_UP_STEPS`), as if it had come to its end: for scripts with fixed numbers of epochs."""

import os
import sys


def replace(optimizer):
    """Changes `torch.optim.optimizer`."""
    left = [int(os.environ["MADE_UP_STEPS"])]

    def stepped(*_):
        left[0] -= 1
        if left[0] <= 0:
            sys.exit(0)

    optimizer.register_optimizer_step_post_hook(stepped)
