"""The binary's JSON answers as typed objects."""
