"""The aggregates: rows in, kernels over rows, losses, operators and algorithms."""
