"""Messages to and from parts: numbers and names alone, as bytes.

A message is the length of its header (8 bytes, little-endian), the header as JSON, and the bytes
of its arrays in the order in which the header lists them.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LENGTH = 8


def pack_message(header: Mapping[str, Any], arrays: Sequence[Array | None] = ()) -> bytes:
    """Packs a message; None stands for a missing array."""
    shapes = [None if one is None else (one.dtype.str, one.shape) for one in arrays]
    text = json.dumps({**header, "arrays": shapes}).encode()
    held = [np.ascontiguousarray(one).tobytes() for one in arrays if one is not None]
    return b"".join([len(text).to_bytes(LENGTH, "little"), text, *held])


def header_of(data: bytes) -> dict[str, Any]:
    """Header of a message."""
    at = LENGTH + int.from_bytes(data[:LENGTH], "little")
    header: dict[str, Any] = json.loads(data[LENGTH:at])
    return header


def unpack_message(data: bytes) -> tuple[dict[str, Any], list[Array | None]]:
    """Header and arrays of a message; the arrays are copies."""
    at = LENGTH + int.from_bytes(data[:LENGTH], "little")
    header = json.loads(data[LENGTH:at])
    arrays: list[Array | None] = []
    for form in header.pop("arrays"):
        if form is None:
            arrays.append(None)
            continue
        kind, shape = np.dtype(form[0]), tuple(form[1])
        count = math.prod(shape)
        arrays.append(np.frombuffer(data, kind, count, at).reshape(shape).copy())
        at += count * kind.itemsize
    return header, arrays
