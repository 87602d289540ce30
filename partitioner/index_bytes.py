"""The index map as bytes.

Little-endian, without padding:

    0   8 bytes   "TUSKIDX" and the version, 1
    8   uint32    CRC-32 of all bytes from 12 on
    12  uint64    K, the number of frequent features
    20  uint8     bytes of a gap: 1, 2, 4 or 8
    21  uint8     bytes of a key: 1, 2, 4 or 8
    22  uint8     R, the number of ranges of blocks
    23  ranges    R times: uint8, the bits of the range's first feature; uint32, features a block
        gaps      K of them: the first feature, then what each is above the one before
        keys      K of them: the partition of each

Slots follow from these: a feature's rank by id within its partition.
"""

import struct
import zlib

import numpy as np

from tuskml.errors import DataError
from tuskml.partitioner.blocks import Blocks
from tuskml.partitioner.native import Ids

MAGIC = b"TUSKIDX\x01"
HEADER = struct.Struct("<8sI")
LENGTHS = struct.Struct("<QBBB")
RANGE = struct.Struct("<BI")


def encode(features: Ids, partition: Ids, blocks: Blocks) -> bytes:
    """features: rising, shape (K,); partition: shape (K,)."""
    gaps = np.diff(features, prepend=0).astype(np.uint64)
    gap, key = _width(gaps), _width(partition.astype(np.uint64))
    body = b"".join(
        (
            LENGTHS.pack(len(features), gap, key, len(blocks.sizes)),
            *map(RANGE.pack, blocks.widths, blocks.sizes),
            gaps.astype(f"<u{gap}").tobytes(),
            partition.astype(f"<u{key}").tobytes(),
        )
    )
    return HEADER.pack(MAGIC, zlib.crc32(body)) + body


def decode(data: bytes) -> tuple[Ids, Ids, Blocks]:
    """Features, partition and blocks that `encode` was given; DataError for anything else."""
    if not data.startswith(MAGIC[:-1]):
        raise DataError("these bytes are no index map")
    if data[: len(MAGIC)] != MAGIC:
        raise DataError(f"the index map has version {data[7:8].hex() or 'none'}, expected 01")
    body = data[HEADER.size :]
    if len(body) < LENGTHS.size or zlib.crc32(body) != HEADER.unpack_from(data)[1]:
        raise DataError("the index map is damaged: its checksum is wrong")
    n, gap, key, n_ranges = LENGTHS.unpack_from(body)
    if gap not in WIDTHS or key not in WIDTHS:
        raise DataError(f"an index map has no numbers of {gap} and {key} bytes")
    ranges = LENGTHS.size + n_ranges * RANGE.size
    if len(body) != ranges + n * (gap + key):
        raise DataError(f"the index map is damaged: {n} features do not fit {len(data)} bytes")
    widths, sizes = zip(*RANGE.iter_unpack(body[LENGTHS.size : ranges]), strict=True)
    gaps = np.frombuffer(body, f"<u{gap}", n, ranges)
    keys = np.frombuffer(body, f"<u{key}", n, ranges + n * gap)
    return np.cumsum(gaps, dtype=np.int64), keys.astype(np.int64), Blocks(widths, sizes)


WIDTHS = (1, 2, 4, 8)


def _width(numbers: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]) -> int:
    """Bytes that hold the largest."""
    most = int(numbers.max()) if len(numbers) else 0
    return next(width for width in WIDTHS if most < 1 << 8 * width)
