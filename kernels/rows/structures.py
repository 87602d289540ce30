"""The structures of the kernels that copy rows, as `native/rows/api.h` has them."""

import ctypes
from typing import Any

INT32, INT64, UINT64 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64


class Known(ctypes.Structure):
    """`tk_known_levels`."""

    _fields_ = [
        ("column", ctypes.c_char_p),
        ("text", ctypes.c_char_p),
        ("ends", ctypes.POINTER(INT64)),
        ("n", INT64),
        ("missing", INT32),
    ]


class Preparing(ctypes.Structure):
    """`tk_preparing`."""

    _fields_ = [
        ("missing", INT32),
        ("levels", INT32),
        ("refuse_unseen", INT32),
        ("threads", INT32),
        ("max_categories", INT64),
        ("min_count", INT64),
        ("cancel_mark", INT64),
        ("classes", ctypes.c_char_p),
        ("n_classes", INT64),
        ("dates", INT32),
        ("word_bits", INT32),
        ("categories", ctypes.c_char_p),
        ("n_categories", INT64),
        ("words", ctypes.c_char_p),
        ("n_words", INT64),
        ("interactions", ctypes.c_char_p),
        ("n_interactions", INT64),
        ("cluster", ctypes.c_char_p),
        ("dense", INT32),
        ("level_numbers", INT32),
        ("fold", ctypes.c_char_p),
        ("fold_in_time", INT32),
        ("census", ctypes.c_void_p),
        ("n_known", INT32),
        ("known", ctypes.POINTER(Known)),
    ]


class Dealing(ctypes.Structure):
    """`tk_dealing`."""

    _fields_ = [
        ("seed", UINT64),
        ("folds", INT32),
        ("slices", INT32),
        ("by_label", INT32),
        ("by", INT32),
        ("keeps_marks", INT32),
        ("has_gap", INT32),
        ("gap", ctypes.c_double),
        ("held", ctypes.c_void_p),
        ("n_forms", INT32),
        ("forms", ctypes.c_void_p),
    ]


class Hold(ctypes.Structure):
    """`tk_hold`."""

    _fields_ = [
        ("seed", UINT64),
        ("until", UINT64),
        ("hash", ctypes.c_void_p),
        ("before", ctypes.c_void_p),
        ("n", INT64),
    ]


class Words(ctypes.Structure):
    """`tk_words`."""

    _fields_ = [
        ("held", ctypes.c_void_p),
        ("n", INT64),
        ("offsets", ctypes.c_void_p),
        ("text", ctypes.c_void_p),
    ]


STRUCTURES: dict[str, Any] = {
    "tk_known_levels": Known,
    "tk_preparing": Preparing,
    "tk_dealing": Dealing,
    "tk_hold": Hold,
    "tk_words": Words,
}
"""By their names in C."""
