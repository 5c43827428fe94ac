"""Questions to the binary: a model and settings in, its answer out."""
