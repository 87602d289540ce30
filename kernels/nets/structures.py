"""The structures of dense nets, field by field as in `native/nets/api.h`."""

import ctypes

import numpy as np

from tuskml.kernels.structures import ADDRESS, DOUBLE, INT32, INT64, UINT64

MOST_HIDDEN = 8
"""Hidden layers, at most."""
TRAINED = np.dtype(
    [
        ("base_loss", np.float64),
        ("loss", np.float64),
        ("held_loss", np.float64),
        ("epochs", np.int64),
        ("kept", np.int64),
        ("ending", np.int64),
    ]
)
"""`tk_net_trained`."""


class Net(ctypes.Structure):
    """`tk_net`."""

    _fields_ = [
        ("loss", INT32),
        ("activation", INT32),
        ("algorithm", INT32),
        ("schedule", INT32),
        ("outputs", INT32),
        ("n_hidden", INT32),
        ("width", INT32 * MOST_HIDDEN),
        ("epochs", INT32),
        ("batch", INT32),
        ("patience", INT32),
        ("decay_every", INT32),
        ("shuffle", INT32),
        ("standardise", INT32),
        ("learning_rate", DOUBLE),
        ("decay", DOUBLE),
        ("momentum", DOUBLE),
        ("weight_decay", DOUBLE),
        ("dropout", DOUBLE),
        ("seed", UINT64),
        ("label", ADDRESS),
        ("start", ADDRESS),
        ("held", ADDRESS),
        ("left_out", ADDRESS),
        ("table", ADDRESS),
        ("class_weight", ADDRESS),
        ("seconds", DOUBLE),
        ("n_tables", INT64),
        ("sparse", INT64),
    ]


class Visit(ctypes.Structure):
    """`tk_net_visit`."""

    _fields_ = [
        ("units", ADDRESS),
        ("epoch", INT64),
        ("part", INT64),
        ("rows_before", INT64),
        ("steps", INT64),
        ("late", INT64),
        ("loss", DOUBLE),
        ("weight", DOUBLE),
    ]


class Pieces(ctypes.Structure):
    """`tk_net_pieces`."""

    _fields_ = [
        *((name, ADDRESS) for name in ("weights", "x", "y", "weight", "begin")),
        *((name, INT64) for name in ("n", "first", "rows", "epoch", "step")),
        *((name, ADDRESS) for name in ("gradient", "by_vectors", "loss")),
    ]


class Held(ctypes.Structure):
    """`tk_net_held`."""

    _fields_ = [("n", INT64), ("start", ADDRESS), ("numbers", ADDRESS), ("first", ADDRESS)]


class Read(ctypes.Structure):
    """`tk_net_read`."""

    _fields_ = [("which", ADDRESS), ("n", INT64), ("gradient", ADDRESS)]


STRUCTURES = {
    "tk_net": Net,
    "tk_net_trained": TRAINED,
    "tk_net_visit": Visit,
    "tk_net_pieces": Pieces,
    "tk_net_held": Held,
    "tk_net_read": Read,
}
"""Each structure by its name in C, as `kernels.structures.STRUCTURES` has the others."""
