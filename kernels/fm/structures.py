"""The structures of factorization machines, field by field as in `native/fm/api.h`."""

import ctypes

import numpy as np

from tuskml.kernels.structures import ADDRESS, DOUBLE, INT32, UINT64

TRAINED = np.dtype(
    [
        ("intercept", np.float64),
        ("base_loss", np.float64),
        ("loss", np.float64),
        ("held_loss", np.float64),
        ("epochs", np.int64),
        ("kept", np.int64),
        ("ending", np.int64),
    ]
)
"""`tk_fm_trained`."""


class Machine(ctypes.Structure):
    """`tk_fm`."""

    _fields_ = [
        ("loss", INT32),
        ("algorithm", INT32),
        ("rank", INT32),
        ("epochs", INT32),
        ("patience", INT32),
        ("lock_free", INT32),
        ("learning_rate", DOUBLE),
        ("l2", DOUBLE),
        ("l2_factors", DOUBLE),
        ("init", DOUBLE),
        ("seed", UINT64),
        ("held", ADDRESS),
        ("left_out", ADDRESS),
        ("place", ADDRESS),
    ]


STRUCTURES = {"tk_fm": Machine, "tk_fm_trained": TRAINED}
"""Each structure by its name in C, as `kernels.structures.STRUCTURES` has the others."""
