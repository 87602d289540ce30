"""The structures of descents, field by field as in `native/newton/api.h`."""

import ctypes

from tuskml.kernels.structures import ADDRESS, DOUBLE, INT32, INT64
from tuskml.kernels.structures import Pass as PassStructure


class Chord(ctypes.Structure):
    """`tk_chord`."""

    _fields_ = [
        ("pass", ctypes.POINTER(PassStructure)),
        ("n", INT64),
        ("which", ADDRESS),
        ("hessian", ADDRESS),
        ("stride", INT64),
        ("shift", ADDRESS),
        ("scale", ADDRESS),
        ("l2", DOUBLE),
        *((name, ADDRESS) for name in ("size", "unit", "weight_unit")),
        ("before", ADDRESS),
        ("before_gradient", ADDRESS),
        ("before_violation", ADDRESS),
        ("epsilon", DOUBLE),
        ("enough", DOUBLE),
        ("far", DOUBLE),
        ("slow", DOUBLE),
        ("pivot", DOUBLE),
        ("most", INT32),
        *((name, ADDRESS) for name in ("v", "objective", "violation", "slack", "last")),
        *((name, ADDRESS) for name in ("gradient", "steps", "ended", "history")),
    ]


class Newton(ctypes.Structure):
    """`tk_newton`."""

    _fields_ = [
        *((name, ADDRESS) for name in ("shift", "scale", "label_size", "gradient_unit")),
        ("weight_unit", ADDRESS),
        ("l2", DOUBLE),
        ("epsilon", DOUBLE),
        ("damping", DOUBLE),
        ("quadratic", INT32),
        ("most", INT32),
        ("deadline", DOUBLE),
        *((name, ADDRESS) for name in ("weights", "found", "gradient")),
        *((name, ADDRESS) for name in ("iterations", "stuck", "history")),
    ]


STRUCTURES = {"tk_chord": Chord, "tk_newton": Newton}
