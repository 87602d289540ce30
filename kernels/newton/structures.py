"""C structures of descents, with the fields of `native/newton/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS, Pass


@KERNELS.structure("tk_chord", **{"pass": ctypes.POINTER(Pass)})
class Chord(ctypes.Structure):
    """The C structure `tk_chord`."""


@KERNELS.structure("tk_newton")
class Newton(ctypes.Structure):
    """The C structure `tk_newton`."""
