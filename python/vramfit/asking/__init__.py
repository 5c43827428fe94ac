"""Turns a model and settings into a question to the binary, and returns its answer."""
