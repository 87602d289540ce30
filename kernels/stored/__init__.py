"""Models whose weights are in a store: their rows in chunks, and their training."""
