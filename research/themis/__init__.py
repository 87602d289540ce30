"""Finish-time fairness (Themis): a simulated cluster of GPUs, ten schedulers, and traces."""
