"""plyvel's own interface opens what we write, verifies LevelDB's checksums, and reads it."""

import struct
from pathlib import Path

import numpy as np
import plyvel
import pytest

from tuskml.errors import StoreError
from tuskml.kvstore import LEAST_FRAME_MEMORY, ModelStore, native
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.native

WIDTH = 40


def decoded(key: bytes, payload: bytes) -> np.ndarray:
    """The weights of a payload, by the description in payload.hpp, its checksum verified."""
    head, crc = struct.unpack_from("<II", payload)
    assert head & 0xF == 1, "the format"
    number = struct.unpack(">Q", key)[0]
    checked = struct.pack("<QI", number, head) + payload[8:]
    assert native.crc32c(checked) == crc
    dtype = np.dtype(np.float64 if head & 16 else np.float32)
    width = head >> 8
    if not head & 32:
        return np.frombuffer(payload, dtype, width, 8)
    n = (len(payload) - 8) // (dtype.itemsize + 2)
    weights = np.zeros(width, dtype)
    slots = np.frombuffer(payload, "<u2", n, 8 + n * dtype.itemsize)
    weights[slots] = np.frombuffer(payload, dtype, n, 8)
    return weights


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("by", ["put", "frames"])
def test_plyvel_reads_what_we_wrote(tmp_path: Path, dtype: str, by: str) -> None:
    random = np.random.default_rng(0)
    keys = np.sort(random.choice(10_000, 500, replace=False))
    values = random.standard_normal((500, WIDTH)).astype(dtype)
    values[::3, 5:] = 0  # written as pairs
    with ModelStore.create(tmp_path / "s", IndexMap.by_rule(WIDTH), dtype) as store:
        if by == "put":
            store.put(keys, values)
        else:
            with store.frames(LEAST_FRAME_MEMORY) as frames:
                held = frames.acquire(keys, WIDTH)
                for weights, row in zip(held.weights, values, strict=True):
                    weights[:] = row
                frames.release(held, changed=True)
    opened = plyvel.DB(str(tmp_path / "s" / "database"), paranoid_checks=True)
    try:
        with opened.iterator(verify_checksums=True) as pairs:
            found = {struct.unpack(">Q", key)[0]: decoded(key, value) for key, value in pairs}
        assert sorted(found) == keys.tolist()
        assert (np.stack([found[key] for key in keys.tolist()]) == values).all()
    finally:
        opened.close()


def test_without_leveldb_a_store_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where plyvel has no wheel: the module loads, and a store is refused in one sentence."""
    monkeypatch.setattr(native, "_leveldb_libraries", list)
    monkeypatch.setattr(native, "with_leveldb", native.with_leveldb.__wrapped__)
    with pytest.raises(StoreError, match="need LevelDB, which was not found: install plyvel"):
        ModelStore.create(tmp_path / "s", IndexMap.by_rule(1))
