"""Kernels that touch each row or weight, and their bindings."""
