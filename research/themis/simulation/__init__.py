"""A simulated cluster whose workers apps share, under several schedulers. Not a measurement."""
