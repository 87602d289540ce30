"""Messages to a part that travel together, such as those of several configurations.

Gradients by the same rows and settings are summed in one read of the rows, for all weights at a
time. Their bits are those of separate messages, because the kernel adds the sums of each vector of
weights in the order of the rows.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2: partial sums are shipped lazily.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from tuskml.kernels.parts.answering import pass_of
from tuskml.kernels.parts.keeping import PartRows
from tuskml.kernels.parts.message import header_of, pack_message, unpack_message
from tuskml.kernels.parts.sharded import ARRAYS

TOGETHER = "together"
"""Name of a message that bundles others."""


def bundle(messages: Sequence[bytes]) -> bytes:
    """Bundles messages, or replies, into one."""
    return pack_message({"method": TOGETHER}, [np.frombuffer(one, np.uint8) for one in messages])


def unbundle(message: bytes) -> list[bytes] | None:
    """Messages of a bundle; None for a single message."""
    if header_of(message).get("method") != TOGETHER:
        return None
    _, arrays = unpack_message(message)
    return [one.tobytes() for one in arrays if one is not None]


def adds(message: bytes) -> bool:
    """Returns whether replies to a message are sums of integers, which may be added anywhere."""
    given = header_of(message).get("given")
    return isinstance(given, dict) and bool(given.get("adds"))


def add_replies(found: Sequence[bytes]) -> list[bytes]:
    """Replies of several parts, each an array or None: the sum in the first, then zeros."""
    arrays: list[list[Any]] = [unpack_message(one)[1] for one in found]
    there = [place for place, one in enumerate(arrays) if one and one[0] is not None]
    if len(there) < 2:
        return list(found)
    total = reduce(np.add, [arrays[place][0] for place in there])
    zero = pack_message({}, [np.zeros((), np.int64)])
    out = [zero if place in there else one for place, one in enumerate(found)]
    out[there[0]] = pack_message({}, [total])
    return out


def answers(
    rows: PartRows, messages: Sequence[bytes], threads: int, alone: Callable[[bytes], bytes]
) -> list[bytes]:
    """Reply to each message.

    alone: handles a message that shares no rows with others.
    """
    replies: dict[int, bytes] = {}
    alike: dict[str, list[int]] = {}
    requests = [unpack_message(message) for message in messages]
    for place, (header, arrays) in enumerate(requests):
        if header["method"] == "gradient" and header["settings"]["stride"] == 1:
            there = [one is not None for one in arrays]
            alike.setdefault(json.dumps([header, there]), []).append(place)
    for places in alike.values():
        summed = gradients(rows, [requests[place] for place in places], threads)
        replies.update(zip(places, summed, strict=True))
    for place in range(len(messages)):
        if place not in replies:
            replies[place] = alone(messages[place])
    return [replies[place] for place in range(len(messages))]


def gradients(rows: PartRows, asked: Sequence[tuple[Any, Any]], threads: int) -> list[bytes]:
    """`Pass.gradient` for each of several messages that differ only in their arrays."""
    mine = pass_of(rows, asked[0][0], asked[0][1], threads)
    if mine is None:
        return [pack_message({})] * len(asked)
    every = zip(*(arrays for _, arrays in asked), strict=True)
    stacked: list[Any] = [None if each[0] is None else np.concatenate(each) for each in every]
    *own, weights = stacked
    settings: dict[str, Any] = dict(zip(ARRAYS, own, strict=True))
    several = replace(mine, groups=np.repeat(mine.groups, len(asked)), common=True, **settings)
    return [pack_message({}, [one[None]]) for one in several.gradient(weights)]
