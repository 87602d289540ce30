"""Factorization machines: the kernels of `kernels/native/fm`."""
