"""The structures that Python and the kernels share, field by field as in `native/*/api.h`.

`tests/kernels/test_bindings.py` holds them to the headers: names, order, types, sizes and offsets.
"""

import ctypes
from typing import Any

import numpy as np

from tuskml.kernels.hinge.structures import Tried
from tuskml.kernels.robust import Robust

ADDRESS = ctypes.c_void_p
INT32, INT64, UINT64, DOUBLE = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_double
ERROR = ctypes.c_char * 512
"""Size of a store's error message, `TUSK_STORE_ERROR`."""

GROUP = np.dtype(
    [
        ("head", np.uintp),
        ("n_rows", np.int64),
        ("n_skipped", np.int64),
        ("dim", np.int32),
        ("kind", np.int32),
        ("parts", np.uintp),
        ("extras", np.int32),
        ("place", np.int32),
        ("wide", np.uintp),
    ]
)
"""`tusk_group`."""
WEIGHTS, OFFSETS, CLUSTERS, FOLDS = 1, 2, 4, 8
"""Bits of a group's `extras`: what its rows have beside their labels."""
SOME_ROW = np.iinfo(np.int64).max
"""For LABELS' third_row, where the row's number is not known."""


SEGMENT = np.dtype(
    [
        ("next", np.uintp),
        ("slab", np.uintp),
        ("n_rows", np.uint32),
        ("cap_rows", np.uint32),
        ("nnz", np.uint32),
        ("cap_nnz", np.uint32),
    ]
)
"""`tusk_segment`."""
LABELS = np.dtype(
    [
        ("low", np.float64),
        ("high", np.float64),
        ("n_rows", np.int64),
        ("n_high", np.int64),
        ("third_row", np.int64),
        ("third", np.float64),
        *(
            (name, np.float64)
            for name in ("mean", "variance", "weight", "weight_high", "exposure")
        ),
    ]
)
"""`tk_label_stats`."""
DUAL_GROUP = np.dtype(
    [
        ("n_rows", np.int64),
        ("in_use", np.int64),
        ("rho", np.float64),
        ("centre", np.float64),
        ("most", np.float64),
        ("least", np.float64),
        ("random", np.uint64),
        ("objective", np.float64),
        ("bound", np.float64),
        ("intercept", np.float64),
        ("gained", np.float64),
    ]
)
"""`tk_dual_group`."""
INTERIOR_GROUP = np.dtype(
    [
        ("n_rows", np.int64),
        ("target", np.float64),
        ("step", np.float64),
        ("product", np.float64),
        ("loss", np.float64),
        ("total", np.float64),
    ]
)
"""`tk_interior_group`."""


class MemoryUse(ctypes.Structure):
    """`tusk_memory_use`, bytes."""

    _fields_ = [(name, INT64) for name in ("budget", "resident", "spilled", "peak")]
    budget: int
    resident: int
    spilled: int
    peak: int


class Pass(ctypes.Structure):
    """`tk_pass`."""

    _fields_ = [
        ("groups", ADDRESS),
        ("n_groups", INT64),
        ("positive", ADDRESS),
        ("class_weight", ADDRESS),
        ("loss", INT32),
        ("fit_intercept", INT32),
        ("smoothing", DOUBLE),
        ("threads", INT32),
        ("loss_only", INT32),
        ("stride", INT32),
        ("cancel_mark", INT64),
        ("parameter", ADDRESS),
        ("by_scores", INT32),
        ("deadline", DOUBLE),
        ("common", INT32),
    ]


class Open(ctypes.Structure):
    """`tk_open`."""

    _fields_ = [
        ("loss", ADDRESS),
        ("any_thread", INT32),
        ("offset", ADDRESS),
        ("row", ADDRESS),
        ("weight", ADDRESS),
        ("answered", ADDRESS),
    ]


class Softmax(ctypes.Structure):
    """`tk_softmax`."""

    _fields_ = [("n_classes", INT64), ("label", ADDRESS), ("weight", ADDRESS)]


class System(ctypes.Structure):
    """`tk_system`."""

    _fields_ = [
        ("n_groups", INT64),
        ("p", INT64),
        ("hessian", ADDRESS),
        ("stride", INT64),
        ("gradient", ADDRESS),
        ("step", ADDRESS),
        ("rank", ADDRESS),
        ("pivot", ADDRESS),
        ("inverse_diagonal", ADDRESS),
        ("threads", INT32),
        ("cancel_mark", INT64),
        ("deadline", DOUBLE),
    ]


class Tridiagonal(ctypes.Structure):
    """`tk_tridiagonal`."""

    _fields_ = [
        ("k", INT64),
        ("p", INT64),
        ("diagonal", ADDRESS),
        ("beside", ADDRESS),
        ("basis", ADDRESS),
    ]


class Quadratic(ctypes.Structure):
    """`tk_quadratic`."""

    _fields_ = [
        ("k", INT64),
        ("p", INT64),
        ("diagonal", ADDRESS),
        ("beside", ADDRESS),
        ("gradient", ADDRESS),
        ("basis", ADDRESS),
        ("first_step", DOUBLE),
        ("tolerance", DOUBLE),
        ("most", INT64),
    ]


class Epoch(ctypes.Structure):
    """`tk_epoch`."""

    _fields_ = [
        ("batch_size", INT32),
        ("power", INT32),
        ("epochs_done", DOUBLE),
        ("l1", DOUBLE),
        ("l2", DOUBLE),
        ("step", ADDRESS),
        ("shift", ADDRESS),
        ("scale", ADDRESS),
        ("frequency", ADDRESS),
        ("seed", UINT64),
        ("shuffle", INT32),
        ("drawn", ADDRESS),
        ("rows_before", INT64),
        ("rows_of_all", INT64),
        ("mean_weight", DOUBLE),
    ]


class Dual(ctypes.Structure):
    """`tk_dual`."""

    _fields_ = [
        ("l2", DOUBLE),
        ("tolerance", DOUBLE),
        ("shift", ADDRESS),
        ("offset", ADDRESS),
        ("alpha", ADDRESS),
        ("norm", ADDRESS),
        ("margin", ADDRESS),
        ("order", ADDRESS),
        ("sign", ADDRESS),
        ("weight", ADDRESS),
        ("groups", ADDRESS),
    ]


class Interior(ctypes.Structure):
    """`tk_interior`."""

    _fields_ = [
        (name, ADDRESS)
        for name in (
            *("offset", "alpha", "slack", "excess", "affine", "move", "slope", "curvature"),
            *("sign", "weight", "groups"),
        )
    ]


class Cut(ctypes.Structure):
    """`tk_cut`."""

    _fields_ = [
        ("rows_per_chunk", INT64),
        ("most_bytes", INT64),
        ("frame_bytes", INT64),
        ("weight_size", INT32),
        ("shift", INT32),
        ("threads", INT32),
        ("cancel_mark", INT64),
    ]


class Chunk(ctypes.Structure):
    """`tk_chunk`."""

    _fields_ = [
        ("row", INT64),
        ("rows", INT64),
        ("entries", INT64),
        ("keys", ADDRESS),
        ("widths", ADDRESS),
        ("n_keys", INT64),
        ("weights", INT64),
        ("features", INT64),
        ("shift", INT32),
        ("wide", INT32),
    ]


_NANOSECONDS = [("acquire_ns", INT64), ("train_ns", INT64), ("release_ns", INT64)]


class Stored(ctypes.Structure):
    """`tk_stored`; calling: keeps alive what `open` points at; classes: what the softmax does."""

    calling: Any = None
    classes: Any = None
    _fields_ = [
        ("pass", ADDRESS),
        ("chunks", ADDRESS),
        ("access", ADDRESS),
        ("open", ADDRESS),
        ("softmax", ADDRESS),
        ("intercepts", ADDRESS),
        ("which", ADDRESS),
        ("n_which", INT64),
        ("batch_size", INT32),
        ("power", INT32),
        ("epochs_done", DOUBLE),
        ("l1", DOUBLE),
        ("l2", DOUBLE),
        ("step", DOUBLE),
        ("seed", UINT64),
        ("shuffle", INT32),
        ("fold", INT32),
        ("together", INT32),
        ("reference", INT32),
        ("intercept", DOUBLE),
        ("time", DOUBLE),
        ("scale", DOUBLE),
        ("loss", DOUBLE),
        ("sum_squares", DOUBLE),
        ("sum_absolute", DOUBLE),
        ("rows", INT64),
        ("n_keys", INT64),
        ("nonzeros", INT64),
        *_NANOSECONDS,
        ("failed_chunk", INT64),
        ("error", ERROR),
    ]


class Frame(ctypes.Structure):
    """`tusk_frame`."""

    _fields_ = [("weights", ADDRESS), ("stamp", DOUBLE), ("width", ctypes.c_uint32)]


class RatingIds(ctypes.Structure):
    """`tk_ids`."""

    _fields_ = [
        ("n_users", INT64),
        ("n_items", INT64),
        ("bad_row", INT64),
        ("bad_position", INT32),
        ("bad", DOUBLE),
    ]


class FactorSpec(ctypes.Structure):
    """`tk_factor_spec`."""

    _fields_ = [
        ("n_users", INT64),
        ("n_items", INT64),
        ("rank", INT32),
        ("biases", INT32),
        ("l2", DOUBLE),
        ("seed", UINT64),
        ("block_bytes", INT64),
        ("alpha", DOUBLE),
    ]


class StoredFactors(ctypes.Structure):
    """`tk_stored_factors`."""

    _fields_ = [
        ("factorization", ADDRESS),
        ("keys", ADDRESS),
        ("access", ADDRESS),
        ("threads", INT32),
        ("cancel_mark", INT64),
        ("epoch", INT64),
        ("step", DOUBLE),
        ("mean", DOUBLE),
        ("deviation", DOUBLE),
        ("loss", DOUBLE),
        ("penalty", DOUBLE),
        ("n_vectors", INT64),
        ("n_keys", INT64),
        *_NANOSECONDS,
        ("error", ERROR),
    ]


STRUCTURES = {
    "tusk_group": GROUP,
    "tusk_segment": SEGMENT,
    "tusk_memory_use": MemoryUse,
    "tusk_frame": Frame,
    "tk_pass": Pass,
    "tk_label_stats": LABELS,
    "tk_open": Open,
    "tk_robust": Robust,
    "tk_softmax": Softmax,
    "tk_system": System,
    "tk_tridiagonal": Tridiagonal,
    "tk_quadratic": Quadratic,
    "tk_tried": Tried,
    "tk_epoch": Epoch,
    "tk_dual_group": DUAL_GROUP,
    "tk_dual": Dual,
    "tk_interior_group": INTERIOR_GROUP,
    "tk_interior": Interior,
    "tk_cut": Cut,
    "tk_chunk": Chunk,
    "tk_stored": Stored,
    "tk_ids": RatingIds,
    "tk_factor_spec": FactorSpec,
    "tk_stored_factors": StoredFactors,
}
"""Each structure by its name in C, as a ctypes structure or as the type of an array's items."""
