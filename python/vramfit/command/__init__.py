"""``python -m vramfit capture``: captures a model given by its name in a module or file, without a script."""
