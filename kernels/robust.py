"""Structures of squared scores of rows by their leverage (`native/linear/robust.cpp`)."""

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
