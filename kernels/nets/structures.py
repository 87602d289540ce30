"""The structures of dense nets, with the fields of `native/nets/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS

MOST_HIDDEN = 8
"""Hidden layers, at most."""
TRAINED = KERNELS.dtype("tk_net_trained")
"""`tk_net_trained`."""


@KERNELS.structure("tk_net")
class Net(ctypes.Structure):
    """`tk_net`."""


@KERNELS.structure("tk_net_visit")
class Visit(ctypes.Structure):
    """`tk_net_visit`."""


@KERNELS.structure("tk_net_pieces")
class Pieces(ctypes.Structure):
    """`tk_net_pieces`."""


@KERNELS.structure("tk_net_held")
class Held(ctypes.Structure):
    """`tk_net_held`."""


@KERNELS.structure("tk_net_read")
class Read(ctypes.Structure):
    """`tk_net_read`."""
