"""Answers of the binary as typed objects."""
