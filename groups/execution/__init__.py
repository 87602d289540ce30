"""Executors of units of work: threads of this process, or the workers of a Ray cluster."""
