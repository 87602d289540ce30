"""Which plan a training goes on by when its share of the cores, or its memory, changes (QOOP)."""
