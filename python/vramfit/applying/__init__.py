"""Applies a plan to a live model and optimizer, and reverts it."""
