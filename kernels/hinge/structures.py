"""Structures of trials at the hinge (`native/hinge/tried.cpp`)."""

import ctypes


class Tried(ctypes.Structure):
    """`tk_tried`."""

    _fields_ = [
        ("n", ctypes.c_int64),
        ("p", ctypes.c_int64),
        ("z", ctypes.c_void_p),
        ("sign", ctypes.c_void_p),
        ("l2", ctypes.c_void_p),
        ("corners", ctypes.c_void_p),
        ("n_corners", ctypes.c_int64),
        ("epsilon", ctypes.c_double),
        ("weight_unit", ctypes.c_double),
        ("fit_intercept", ctypes.c_int32),
        ("most", ctypes.c_int64),
        ("seconds", ctypes.c_double),
    ]
