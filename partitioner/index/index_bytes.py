"""The index map as bytes.

Little-endian, without padding:

    0   8 bytes   "TUSKIDX" and the version: 1; 2 where there are live features; 3 where those that
                  several groups of rows have are in an order of their own
    8   uint32    CRC-32 of all bytes from 12 on
    12  uint64    K, the number of frequent features
    20  uint8     bytes of a gap: 1, 2, 4 or 8
    21  uint8     bytes of a key: 1, 2, 4 or 8
    22  uint8     R, the number of ranges of blocks
    23  ranges    R times: uint8, the bits of the range's first feature; uint32, features per block
        gaps      K of them: the first feature, then what each is above the one before
        keys      K of them: the partition of each
        live      from version 2 on, to the end: the live features (`live.LiveFeatures`)

Slots follow from these: a feature's rank by id within its partition.
"""

import struct
import zlib

import numpy as np

from tuskml.errors import DataError
from tuskml.partitioner.index.blocks import Blocks
from tuskml.partitioner.index.live import LiveFeatures
from tuskml.partitioner.native import Ids

MAGIC, LIVE_MAGIC, WITHIN_MAGIC = b"TUSKIDX\x01", b"TUSKIDX\x02", b"TUSKIDX\x03"
HEADER = struct.Struct("<8sI")
LENGTHS = struct.Struct("<QBBB")
RANGE = struct.Struct("<BI")


def encode(
    features: Ids, partition: Ids, blocks: Blocks, live: LiveFeatures | None = None
) -> bytes:
    """features: rising, shape (K,); partition: shape (K,)."""
    gaps = np.diff(features, prepend=0).astype(np.uint64)
    gap, key = _width(gaps), _width(partition.astype(np.uint64))
    body = b"".join(
        (
            LENGTHS.pack(len(features), gap, key, len(blocks.sizes)),
            *map(RANGE.pack, blocks.widths, blocks.sizes),
            gaps.astype(f"<u{gap}").tobytes(),
            partition.astype(f"<u{key}").tobytes(),
            b"" if live is None else live.to_bytes(),
        )
    )
    return HEADER.pack(_magic_of(live), zlib.crc32(body)) + body


def _magic_of(live: LiveFeatures | None) -> bytes:
    """Version for the live features; an order of no features takes no bytes."""
    if live is None:
        return MAGIC
    within = None if live.order is None else live.order.within
    return LIVE_MAGIC if within is None or len(within) == 0 else WITHIN_MAGIC


def decode(data: bytes) -> tuple[Ids, Ids, Blocks, LiveFeatures | None]:
    """Decodes the result of `encode`. Raises DataError for anything else."""
    magic = data[: len(MAGIC)]
    if not magic.startswith(MAGIC[:-1]):
        raise DataError("these bytes are no index map")
    if magic not in (MAGIC, LIVE_MAGIC, WITHIN_MAGIC):
        version = data[7:8].hex() or "none"
        raise DataError(f"the index map has version {version}, expected 01, 02 or 03")
    body = data[HEADER.size :]
    if len(body) < LENGTHS.size or zlib.crc32(body) != HEADER.unpack_from(data)[1]:
        raise DataError("the index map is damaged: its checksum is wrong")
    n, gap, key, n_ranges = LENGTHS.unpack_from(body)
    if gap not in WIDTHS or key not in WIDTHS:
        raise DataError(f"an index map has no numbers of {gap} and {key} bytes")
    ranges = LENGTHS.size + n_ranges * RANGE.size
    end = ranges + n * (gap + key)
    if len(body) < end or (len(body) > end and magic == MAGIC):
        raise DataError(f"the index map is damaged: {n} features do not fit {len(data)} bytes")
    widths, sizes = zip(*RANGE.iter_unpack(body[LENGTHS.size : ranges]), strict=True)
    gaps = np.frombuffer(body, f"<u{gap}", n, ranges)
    keys = np.frombuffer(body, f"<u{key}", n, ranges + n * gap)
    live = LiveFeatures.from_bytes(body[end:]) if magic != MAGIC else None
    if magic != _magic_of(live):  # the checksum covers all bytes after it
        raise DataError("the index map is damaged: its version does not fit its content")
    return np.cumsum(gaps, dtype=np.int64), keys.astype(np.int64), Blocks(widths, sizes), live


WIDTHS = (1, 2, 4, 8)


def _width(numbers: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> int:
    """Number of bytes that hold the largest number."""
    most = int(numbers.max()) if len(numbers) else 0
    return next(width for width in WIDTHS if most < 1 << 8 * width)
