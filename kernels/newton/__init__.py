"""Descents by Newton's steps: the kernels of `kernels/native/newton`."""
