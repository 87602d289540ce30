"""Structures of linear kernels: of squared scores of rows by their leverage
(`native/linear/robust.cpp`), and of Newton's method for many small groups
(`native/linear/systems/newton.cpp`).
"""

import ctypes


class Robust(ctypes.Structure):
    """`tk_robust`."""

    _fields_ = [
        ("weights", ctypes.c_void_p),
        ("shift", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("inverse", ctypes.c_void_p),
        ("power", ctypes.c_int32),
    ]


class Newton(ctypes.Structure):
    """`tk_newton`."""

    _fields_ = [
        ("shift", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("label_size", ctypes.c_void_p),
        ("gradient_unit", ctypes.c_void_p),
        ("rounding", ctypes.c_void_p),
        ("l2", ctypes.c_double),
        ("epsilon", ctypes.c_double),
        ("quadratic", ctypes.c_int32),
        ("most", ctypes.c_int32),
        ("deadline", ctypes.c_double),
        ("weights", ctypes.c_void_p),
        ("found", ctypes.c_void_p),
        ("gradient", ctypes.c_void_p),
        ("iterations", ctypes.c_void_p),
        ("stuck", ctypes.c_void_p),
        ("history", ctypes.c_void_p),
    ]
