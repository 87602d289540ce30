"""The structures of boosted trees, with the fields of `native/trees/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS

NODE = KERNELS.dtype("tk_node")
"""`tk_node`."""
BOOSTED = KERNELS.dtype("tk_boosted")
"""`tk_boosted`."""


@KERNELS.structure("tk_started")
class Started(ctypes.Structure):
    """`tk_started`."""


@KERNELS.structure("tk_boost")
class Boost(ctypes.Structure):
    """`tk_boost`."""


@KERNELS.structure("tk_forest_arrays")
class ForestArrays(ctypes.Structure):
    """`tk_forest_arrays`."""


SIDE = KERNELS.dtype("tk_side")
"""`tk_side`."""
PART_SPLIT = KERNELS.dtype("tk_part_split")
"""`tk_part_split`."""
EXTENT = KERNELS.dtype("tk_extent")
"""`tk_extent`."""


ONE_SIDE = KERNELS.dtype("tk_one_side")
"""`tk_one_side`."""


@KERNELS.structure("tk_ranks")
class Ranks(ctypes.Structure):
    """`tk_ranks`."""


@KERNELS.structure("tk_bins")
class Bins(ctypes.Structure):
    """`tk_bins`."""


@KERNELS.structure("tk_growing")
class Growing(ctypes.Structure):
    """`tk_growing`."""


@KERNELS.structure("tk_summed_arrays")
class SummedArrays(ctypes.Structure):
    """`tk_summed_arrays`."""
