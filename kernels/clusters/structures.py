"""C structures of clustering, with the fields of `native/clusters/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS

CLUSTERED = KERNELS.dtype("tk_clustered")
"""Dtype of the C structure `tk_clustered`."""


@KERNELS.structure("tk_clusters")
class Clusters(ctypes.Structure):
    """The C structure `tk_clusters`."""
