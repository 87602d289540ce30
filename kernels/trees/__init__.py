"""Gradient boosting: the kernels of `kernels/native/trees`."""
