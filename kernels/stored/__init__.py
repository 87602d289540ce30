"""Models whose weights live in a store: their rows in chunks, and their training."""
