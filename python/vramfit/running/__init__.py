"""Runs a training script without a GPU and records what it would do to GPU memory."""
