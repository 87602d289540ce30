"""C structures of factorization machines, with the fields of `native/fm/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS

TRAINED = KERNELS.dtype("tk_fm_trained")
"""Dtype of the C structure `tk_fm_trained`."""


@KERNELS.structure("tk_fm")
class Machine(ctypes.Structure):
    """The C structure `tk_fm`."""
