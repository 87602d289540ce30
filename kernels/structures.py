"""Structures that Python and the kernels share, with the fields of `native/*/api.h`."""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from tuskml.schedule.declared import Interface

KERNELS = Interface(Path(__file__).parent)
"""Declarations of the kernels' headers."""
ADDRESS = ctypes.c_void_p
INT32, INT64, DOUBLE = ctypes.c_int32, ctypes.c_int64, ctypes.c_double

GROUP = KERNELS.dtype("tusk_group")
"""Dtype of the C structure `tusk_group`."""
WEIGHTS, OFFSETS, CLUSTERS, FOLDS = 1, 2, 4, 8
"""Bits of a group's `extras`: fields of its rows besides their labels."""
COUNTS = 32
"""Bit of a group's `extras`: its weights are numbers of equal rows (`udas/rowblock/merge.h`)."""
SOME_ROW = np.iinfo(np.int64).max
"""Value of LABELS' third_row if the row's number is not known."""


SEGMENT = KERNELS.dtype("tusk_segment")
"""Dtype of the C structure `tusk_segment`."""
LABELS = KERNELS.dtype("tk_label_stats")
"""Dtype of the C structure `tk_label_stats`."""
DUAL_GROUP = KERNELS.dtype("tk_dual_group")
"""Dtype of the C structure `tk_dual_group`."""
INTERIOR_GROUP = KERNELS.dtype("tk_interior_group")
"""Dtype of the C structure `tk_interior_group`."""


@KERNELS.structure("tusk_memory_use")
class MemoryUse(ctypes.Structure):
    """`tusk_memory_use`, bytes."""

    budget: int
    resident: int
    spilled: int
    peak: int


@KERNELS.structure("tk_pass")
class Pass(ctypes.Structure):
    """The C structure `tk_pass`."""


@KERNELS.structure("tk_open")
class Open(ctypes.Structure):
    """The C structure `tk_open`."""


@KERNELS.structure("tk_softmax")
class Softmax(ctypes.Structure):
    """The C structure `tk_softmax`."""


@KERNELS.structure("tk_system")
class System(ctypes.Structure):
    """The C structure `tk_system`."""


@KERNELS.structure("tk_tridiagonal")
class Tridiagonal(ctypes.Structure):
    """The C structure `tk_tridiagonal`."""


@KERNELS.structure("tk_quadratic")
class Quadratic(ctypes.Structure):
    """The C structure `tk_quadratic`."""


@KERNELS.structure("tk_epoch")
class Epoch(ctypes.Structure):
    """The C structure `tk_epoch`."""


@KERNELS.structure("tk_dual")
class Dual(ctypes.Structure):
    """The C structure `tk_dual`."""


@KERNELS.structure("tk_interior")
class Interior(ctypes.Structure):
    """The C structure `tk_interior`."""


@KERNELS.structure("tk_cut")
class CutStructure(ctypes.Structure):
    """The C structure `tk_cut`."""


@KERNELS.structure("tk_chunk")
class Chunk(ctypes.Structure):
    """The C structure `tk_chunk`."""


@KERNELS.structure("tk_stored")
class StoredPass(ctypes.Structure):
    """`tk_stored`; calling: keeps the targets of `open` alive; classes: those of the softmax."""

    calling: Any = None
    classes: Any = None


@KERNELS.structure("tusk_frame")
class Frame(ctypes.Structure):
    """The C structure `tusk_frame`."""


@KERNELS.structure("tk_ids")
class RatingIds(ctypes.Structure):
    """The C structure `tk_ids`."""


@KERNELS.structure("tk_factor_spec")
class FactorSpec(ctypes.Structure):
    """The C structure `tk_factor_spec`."""


@KERNELS.structure("tk_stored_factors")
class StoredFactors(ctypes.Structure):
    """The C structure `tk_stored_factors`."""


@KERNELS.structure("tk_robust")
class Robust(ctypes.Structure):
    """The C structure `tk_robust`."""


@KERNELS.structure("tk_tried")
class CornerTrial(ctypes.Structure):
    """The C structure `tk_tried`."""
