"""The structures of descents, with the fields of `native/newton/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS, Pass


@KERNELS.structure("tk_chord", **{"pass": ctypes.POINTER(Pass)})
class Chord(ctypes.Structure):
    """`tk_chord`."""


@KERNELS.structure("tk_newton")
class Newton(ctypes.Structure):
    """`tk_newton`."""
