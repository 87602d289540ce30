"""The structures of boosted trees, field by field as in `native/trees/api.h`."""

import ctypes

import numpy as np

from tuskml.kernels.structures import ADDRESS, DOUBLE, INT32, INT64, UINT64

NODE = np.dtype(
    [("value", np.float64), ("feature", np.int32), ("right", np.int32), ("missing", np.int64)]
)
"""`tk_node`."""
BOOSTED = np.dtype(
    [
        ("base", np.float64),
        ("base_loss", np.float64),
        ("trees", np.int64),
        ("grown", np.int64),
        ("nodes", np.int64),
        ("held_loss", np.float64),
        ("sets", np.int64),
    ]
)
"""`tk_boosted`."""


class Started(ctypes.Structure):
    """`tk_started`."""

    _fields_ = [
        ("base", ADDRESS),
        ("trees", INT64),
        ("start", ADDRESS),
        ("nodes", ADDRESS),
        ("sets", ADDRESS),
    ]


class Boost(ctypes.Structure):
    """`tk_boost`."""

    _fields_ = [
        ("objective", INT32),
        ("trees", INT32),
        ("num_leaves", INT32),
        ("max_depth", INT32),
        ("max_bins", INT32),
        ("patience", INT32),
        ("min_child_rows", INT64),
        ("min_child_hessian", DOUBLE),
        ("min_gain", DOUBLE),
        ("l1", DOUBLE),
        ("l2", DOUBLE),
        ("learning_rate", DOUBLE),
        ("feature_fraction", DOUBLE),
        ("row_fraction", DOUBLE),
        ("shape", DOUBLE),
        ("seed", UINT64),
        ("held", ADDRESS),
        ("classes", ADDRESS),
        ("n_classes", INT64),
        ("monotone", ADDRESS),
        ("categorical", ADDRESS),
        ("max_cat_threshold", INT32),
        ("max_cat_to_onehot", INT32),
        ("min_category_rows", INT64),
        ("cat_smooth", DOUBLE),
        ("cat_l2", DOUBLE),
        ("averaged", INT64),
        ("node_fraction", DOUBLE),
        ("top_rate", DOUBLE),
        ("other_rate", DOUBLE),
        ("spends", INT64),
        ("bounds", ADDRESS),
        ("bound_start", ADDRESS),
        ("from", ADDRESS),
    ]


class ForestArrays(ctypes.Structure):
    """`tk_forest_arrays`."""

    _fields_ = [
        (name, ADDRESS)
        for name in ("base", "start", "nodes", "gain", "rows", "loss", "held", "sets")
    ]


SIDE = np.dtype([("bin", np.int16), ("also", np.int16), ("set", np.int32)])
"""`tk_side`."""
PART_SPLIT = np.dtype(
    [
        *((name, np.int32) for name in ("leaf", "left", "right", "feature", "wanted", "by_level")),
        ("side", SIDE),
        ("set", np.uint64, (4,)),
    ]
)
"""`tk_part_split`."""
EXTENT = np.dtype(
    [(name, np.float64) for name in ("total", "most", "held", "derivative", "curvature", "room")]
)
"""`tk_extent`."""


ONE_SIDE = np.dtype([("least", np.float64), ("factor", np.float64), ("last", np.uint64)])
"""`tk_one_side`."""


class Ranks(ctypes.Structure):
    """`tk_ranks`."""

    _fields_ = [
        ("of", INT32),
        ("known", INT32),
        ("bits", INT64),
        ("first", ADDRESS),
        ("slots", INT64),
        ("iteration", INT64),
        ("least", DOUBLE),
    ]


class Bins(ctypes.Structure):
    """`tk_bins`."""

    _fields_ = [
        ("bound", ADDRESS),
        ("first", ADDRESS),
        ("missing", ADDRESS),
        ("by_level", ADDRESS),
        ("features", INT64),
    ]


class Growing(ctypes.Structure):
    """`tk_growing`."""

    _fields_ = [("branch_rows", INT64), ("threads", INT64), ("cancel_mark", INT64)]


class SummedArrays(ctypes.Structure):
    """`tk_summed_arrays`."""

    _fields_ = [(name, ADDRESS) for name in ("nodes", "gain", "rows", "sides", "codes", "sets")]


STRUCTURES = {
    "tk_side": SIDE,
    "tk_part_split": PART_SPLIT,
    "tk_extent": EXTENT,
    "tk_one_side": ONE_SIDE,
    "tk_ranks": Ranks,
    "tk_bins": Bins,
    "tk_growing": Growing,
    "tk_summed_arrays": SummedArrays,
    "tk_started": Started,
    "tk_boost": Boost,
    "tk_node": NODE,
    "tk_boosted": BOOSTED,
    "tk_forest_arrays": ForestArrays,
}
"""Each structure by its name in C, as `kernels.structures.STRUCTURES` has the others."""
