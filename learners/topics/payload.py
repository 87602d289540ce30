"""Topics in the payload of a model (`udas/scalars/models/payload.h`), where SQL keeps them."""

import struct

import numpy as np

HEAD = struct.Struct("<4sHBBBBHIIIQd3d")
TASK, NULLS, WEIGHTS = 2, 4, 10
TOPICS, HAS_NULLS = 7, 8
"""`TUSK_TOPICS` and `TUSK_HAS_NULLS`."""


def topics_of_payload(payload: bytes) -> list[float] | None:
    """The bytes of the topics as doubles, as `coef` has them; None for other payloads, and for
    a truncated one.
    """
    if len(payload) < HEAD.size:
        return None
    head = HEAD.unpack_from(payload)
    end = HEAD.size + 8 * head[WEIGHTS]
    if head[TASK] != TOPICS or head[NULLS] & HAS_NULLS or end > len(payload):
        return None
    return np.frombuffer(payload[HEAD.size : end], np.float64).tolist() or None
