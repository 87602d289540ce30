"""C structures of dense nets, with the fields of `native/nets/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS

MOST_HIDDEN = 8
"""Largest number of hidden layers."""
TRAINED = KERNELS.dtype("tk_net_trained")
"""Dtype of the C structure `tk_net_trained`."""


@KERNELS.structure("tk_net")
class Net(ctypes.Structure):
    """The C structure `tk_net`."""


@KERNELS.structure("tk_net_visit")
class Visit(ctypes.Structure):
    """The C structure `tk_net_visit`."""


@KERNELS.structure("tk_net_pieces")
class Pieces(ctypes.Structure):
    """The C structure `tk_net_pieces`."""


@KERNELS.structure("tk_net_held")
class HeldOutRows(ctypes.Structure):
    """The C structure `tk_net_held`."""


@KERNELS.structure("tk_net_read")
class Read(ctypes.Structure):
    """The C structure `tk_net_read`."""
