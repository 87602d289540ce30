"""The structures of topics of documents, field by field as in `native/topics/api.h`."""

import ctypes

import numpy as np

from tuskml.kernels.structures import DOUBLE, INT32, INT64, UINT64

ABOUT = np.dtype(
    [
        ("tokens", np.int64),
        ("words", np.int64),
        ("documents", np.int64),
        ("parts", np.int32),
        ("fault", np.int32),
        ("bad_id", np.int64),
        ("bad_count", np.float64),
    ]
)
"""`tk_topics_about`."""
WORDS = np.dtype([("text", np.uintp), ("offsets", np.uintp), ("n", np.int64)])
"""`tk_topic_words`."""


class Spec(ctypes.Structure):
    """`tk_topics_spec`."""

    _fields_ = [
        ("topics", INT32),
        ("parts", INT32),
        ("alpha", DOUBLE),
        ("beta", DOUBLE),
        ("seed", UINT64),
        ("spends", INT64),
        ("window", INT64),
    ]


class OnlineSpec(ctypes.Structure):
    """`tk_online_spec`."""

    _fields_ = [
        ("topics", INT32),
        ("batch", INT32),
        ("alpha", DOUBLE),
        ("beta", DOUBLE),
        ("offset", DOUBLE),
        ("decay", DOUBLE),
        ("tolerance", DOUBLE),
        ("steps", INT64),
        ("seed", UINT64),
        ("spends", INT64),
    ]


STRUCTURES = {
    "tk_topics_spec": Spec,
    "tk_topics_about": ABOUT,
    "tk_topic_words": WORDS,
    "tk_online_spec": OnlineSpec,
}
"""Each structure by its name in C, as `kernels.structures.STRUCTURES` has the others."""
