"""The structures of paths of penalties, field by field as in `native/paths/api.h`."""

import ctypes

import numpy as np

from tuskml.kernels.structures import ADDRESS, DOUBLE, INT32, INT64

POINT = np.dtype(
    [
        ("lambda", np.float64),
        ("objective", np.float64),
        ("gap", np.float64),
        ("null", np.float64),
        ("intercept", np.float64),
        ("held", np.float64),
        ("held_error", np.float64),
        ("epochs", np.int64),
        ("n_weights", np.int64),
    ]
)
"""`tk_path_point`."""


class Spec(ctypes.Structure):
    """`tk_path_spec`."""

    _fields_ = [
        ("loss", INT32),
        ("length", INT32),
        ("folds", INT32),
        ("positive", INT32),
        ("standardize", INT32),
        ("alpha", DOUBLE),
        ("ratio", DOUBLE),
        ("tolerance", DOUBLE),
        ("max_epochs", INT64),
        ("n_stretches", INT32),
        ("stretch", ADDRESS),
        ("role", ADDRESS),
        ("lambda", ADDRESS),
        ("free", ADDRESS),
        ("block", ADDRESS),
    ]


class Chosen(ctypes.Structure):
    """`tk_chosen_paths`."""

    _fields_ = [
        ("n_groups", INT64),
        ("length", INT32),
        ("points", ADDRESS),
        ("chosen", ADDRESS),
        ("feature", ADDRESS),
        ("weight", ADDRESS),
    ]


STRUCTURES = {"tk_path_spec": Spec, "tk_path_point": POINT, "tk_chosen_paths": Chosen}
"""Each structure by its name in C, as `kernels.structures.STRUCTURES` has the others."""
