"""C structures of boosted trees, with the fields of `native/trees/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS

NODE = KERNELS.dtype("tk_node")
"""Dtype of the C structure `tk_node`."""
BOOSTED = KERNELS.dtype("tk_boosted")
"""Dtype of the C structure `tk_boosted`."""


@KERNELS.structure("tk_started")
class Started(ctypes.Structure):
    """The C structure `tk_started`."""


@KERNELS.structure("tk_boost")
class Boost(ctypes.Structure):
    """The C structure `tk_boost`."""


@KERNELS.structure("tk_forest_arrays")
class ForestArrays(ctypes.Structure):
    """The C structure `tk_forest_arrays`."""


SIDE = KERNELS.dtype("tk_side")
"""Dtype of the C structure `tk_side`."""
PART_SPLIT = KERNELS.dtype("tk_part_split")
"""Dtype of the C structure `tk_part_split`."""
EXTENT = KERNELS.dtype("tk_extent")
"""Dtype of the C structure `tk_extent`."""


ONE_SIDE = KERNELS.dtype("tk_one_side")
"""Dtype of the C structure `tk_one_side`."""


@KERNELS.structure("tk_ranks")
class Ranks(ctypes.Structure):
    """The C structure `tk_ranks`."""


@KERNELS.structure("tk_bins")
class Bins(ctypes.Structure):
    """The C structure `tk_bins`."""


@KERNELS.structure("tk_growing")
class Growing(ctypes.Structure):
    """The C structure `tk_growing`."""


@KERNELS.structure("tk_summed_arrays")
class SummedArrays(ctypes.Structure):
    """The C structure `tk_summed_arrays`."""
