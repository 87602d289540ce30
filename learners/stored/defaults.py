"""What holds of every training into a store, unless options say otherwise."""

CACHE = 256 << 20
"""Bytes of memory for weights."""
CHECKPOINT_SECONDS = 60.0
"""Between two checkpoints, about."""
