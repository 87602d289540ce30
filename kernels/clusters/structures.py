"""The structures of clusters, with the fields of `native/clusters/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS

CLUSTERED = KERNELS.dtype("tk_clustered")
"""`tk_clustered`."""


@KERNELS.structure("tk_clusters")
class Clusters(ctypes.Structure):
    """`tk_clusters`."""
