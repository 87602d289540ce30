"""C structures of topics of documents, with the fields of `native/topics/api.h`."""

import ctypes

from tuskml.kernels.structures import KERNELS

ABOUT = KERNELS.dtype("tk_topics_about")
"""Dtype of the C structure `tk_topics_about`."""
WORDS = KERNELS.dtype("tk_topic_words")
"""Dtype of the C structure `tk_topic_words`."""


@KERNELS.structure("tk_topics_spec")
class Spec(ctypes.Structure):
    """The C structure `tk_topics_spec`."""


@KERNELS.structure("tk_online_spec")
class OnlineSpec(ctypes.Structure):
    """The C structure `tk_online_spec`."""
