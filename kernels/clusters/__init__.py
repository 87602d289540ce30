"""Clustering of rows: the kernels of `kernels/native/clusters`."""
