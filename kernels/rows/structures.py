"""C structures of the kernels that copy rows, with the fields of `native/rows/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS

TEXTS = dict.fromkeys(
    (
        "classes",
        "categories",
        "words",
        "interactions",
        "absorbed",
        "cluster",
        "fold",
        "reference",
    ),
    ctypes.c_char_p,
)
"""Fields of `tk_preparing` that are lists of names."""
OF_HISTOGRAM = ("categories", "words", "apart", "features")
"""Those of `tk_histogram_of`."""


@KERNELS.structure(
    "tk_known_levels",
    column=ctypes.c_char_p,
    text=ctypes.c_char_p,
    ends=ctypes.POINTER(ctypes.c_int64),
)
class LevelTable(ctypes.Structure):
    """The C structure `tk_known_levels`."""


@KERNELS.structure("tk_preparing", **TEXTS, known=ctypes.POINTER(LevelTable))
class Preparing(ctypes.Structure):
    """The C structure `tk_preparing`."""


@KERNELS.structure("tk_histogram_of", **dict.fromkeys(OF_HISTOGRAM, ctypes.c_char_p))
class HistogramOf(ctypes.Structure):
    """The C structure `tk_histogram_of`."""


@KERNELS.structure("tk_dealing")
class Dealing(ctypes.Structure):
    """The C structure `tk_dealing`."""


@KERNELS.structure("tk_parted")
class PartOfRows(ctypes.Structure):
    """The C structure `tk_parted`."""


@KERNELS.structure("tk_words")
class Words(ctypes.Structure):
    """The C structure `tk_words`."""
