"""One file a family of operators; each has a function `probes()`."""
