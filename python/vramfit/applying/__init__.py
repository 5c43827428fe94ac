"""Makes a plan real on a live model and optimizer, and takes it back."""
