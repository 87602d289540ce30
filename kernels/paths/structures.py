"""C structures of paths of penalties, with the fields of `native/paths/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS

POINT = KERNELS.dtype("tk_path_point")
"""Dtype of the C structure `tk_path_point`."""


@KERNELS.structure("tk_path_spec")
class Spec(ctypes.Structure):
    """The C structure `tk_path_spec`."""


@KERNELS.structure("tk_chosen_paths")
class Chosen(ctypes.Structure):
    """The C structure `tk_chosen_paths`."""
