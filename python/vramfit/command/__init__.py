"""``python -m vramfit capture``: a model by its name in the sources, without a script."""
