"""Partitions come back from LevelDB as they went in, to the bit."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuskml.errors import StoreError
from tuskml.kvstore import LEAST_MEMORY, buffers_of, native
from tuskml.kvstore.database import Database, options

WIDTHS = (1, 2, 3, 16, 255, 1024, 65_536, 70_000)
DTYPES = (np.float32, np.float64)


@pytest.fixture(scope="module", params=DTYPES)
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("database") / "db"
    made = Database(path, np.dtype(request.param), LEAST_MEMORY, create=True)
    yield made
    made.close()


def starts_of(widths: list[int]) -> np.ndarray:
    return np.cumsum([0, *widths], dtype=np.int64)


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[int], list[int], int, float]:
    widths = draw(st.lists(st.sampled_from(WIDTHS[:6]), min_size=1, max_size=40))
    numbers = st.integers(0, 2**62)
    keys = draw(st.lists(numbers, min_size=len(widths), max_size=len(widths), unique=True))
    return keys, widths, draw(st.integers(0, 2**31)), draw(st.sampled_from([0, 0.02, 0.5, 1]))


@given(batch=batches())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip_of_any_widths_and_sparsity(database: Database, batch) -> None:
    keys, widths, seed, density = batch
    random, starts = np.random.default_rng(seed), starts_of(widths)
    values = random.standard_normal(starts[-1]) * (random.random(starts[-1]) < density)
    values = values.astype(database.dtype)
    values[random.random(len(values)) < 0.02] = random.choice([-0.0, np.nan, np.inf, 1e-45])
    names = np.array(keys, np.int64)
    database.put(names, starts, values)
    out, found = np.empty_like(values), np.zeros(len(keys), np.bool_)
    database.get(names, starts, out, found)
    assert same_bits(out, values)
    assert found.all()


@pytest.mark.parametrize("width", WIDTHS)
def test_wide_partitions_and_their_shortest_form(database: Database, width: int) -> None:
    key, starts = np.array([2**62 + width]), np.array([0, width])
    full = np.arange(1, width + 1, dtype=database.dtype)
    one = np.zeros(width, database.dtype)
    one[-1] = 7
    lengths = []
    for values in (full, one):
        before = database.counters.bytes_written
        database.put(key, starts, values)
        lengths.append(database.counters.bytes_written - before)
        out = np.empty_like(values)
        database.get(key, starts, out)
        assert same_bits(out, values)
    size = database.dtype.itemsize
    pair = size + (2 if width <= 65_536 else 4)
    assert lengths == [8 + width * size, 8 + min(width * size, pair)]


def test_scan_is_in_the_order_of_keys_from_any_on(tmp_path: Path) -> None:
    database = Database(tmp_path / "db", np.dtype(np.float32), LEAST_MEMORY, create=True)
    random = np.random.default_rng(0)
    keys = np.unique(random.integers(0, 2**62, 5000))
    widths = random.integers(1, 9, len(keys))
    starts = starts_of(widths.tolist())
    values = random.random(starts[-1], dtype=np.float32)
    order = random.permutation(len(keys))
    mixed = np.concatenate([values[starts[i] : starts[i + 1]] for i in order])
    database.put(keys[order], starts_of(widths[order].tolist()), mixed)
    for first in (0, 100):
        parts = list(database.scan(int(keys[first]), keys=700, values=999))
        assert np.array_equal(np.concatenate([part[0] for part in parts]), keys[first:])
        assert np.array_equal(np.concatenate([part[2] for part in parts]), values[starts[first] :])
        assert all(len(part[0]) <= 700 and len(part[2]) <= 999 for part in parts)
    with pytest.raises(StoreError, match="wider than"):
        list(database.scan(values=3))
    database.close()


@pytest.mark.parametrize("order", ["rising", "random", "repeated", "near"])
def test_get_in_any_order_among_missing_keys(tmp_path: Path, order: str) -> None:
    database = Database(tmp_path / "db", np.dtype(np.float64), LEAST_MEMORY, create=True)
    random, width = np.random.default_rng(1), 3
    present = np.arange(0, 30_000, 3)
    values = random.random((len(present), width))
    database.put(present, starts_of([width] * len(present)), values)
    asked = {
        "rising": np.arange(20_000),
        "random": random.permutation(30_000)[:9000],
        "repeated": np.repeat(random.integers(0, 30_000, 500), 4),
        "near": np.concatenate([s + np.arange(40) for s in random.integers(0, 29_000, 50)]),
    }[order]
    out, found = np.empty((len(asked), width)), np.zeros(len(asked), np.bool_)
    database.get(asked, starts_of([width] * len(asked)), out, found)
    there = asked % 3 == 0
    assert np.array_equal(found, there)
    assert np.array_equal(out[there], values[asked[there] // 3])
    assert not out[~there].any()
    database.close()


def test_a_payload_under_another_key_or_of_another_width_is_refused(tmp_path: Path) -> None:
    plyvel = pytest.importorskip("plyvel")

    path, starts = tmp_path / "db", np.array([0, 2])
    database = Database(path, np.dtype(np.float32), LEAST_MEMORY, create=True)
    database.put(np.array([1]), starts, np.ones(2, np.float32))
    out = np.empty(5, np.float32)
    with pytest.raises(StoreError, match="another number of weights"):
        database.get(np.array([1]), np.array([0, 5]), out)
    database.close()
    with plyvel.DB(str(path), compression=None) as raw:
        payload = raw.get((1).to_bytes(8, "big"))
        raw.put((2).to_bytes(8, "big"), payload)
        raw.put((3).to_bytes(8, "big"), payload[:5])
        raw.put((4).to_bytes(8, "big"), payload[:-1] + bytes([payload[-1] ^ 1]))
    database = Database(path, np.dtype(np.float32), LEAST_MEMORY, create=False)
    for key, reason in ((2, "wrong CRC"), (3, "too short"), (4, "wrong CRC")):
        with pytest.raises(StoreError, match=f"key {key} .*{reason}"):
            database.get(np.array([key]), starts, out)
    database.close()
    other = Database(path, np.dtype(np.float64), LEAST_MEMORY, create=False)
    with pytest.raises(StoreError, match="another type"):
        other.get(np.array([1]), starts, np.empty(2))
    other.close()


@pytest.mark.parametrize(
    ("data", "crc"),  # RFC 3720, section B.4
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
        (b"123456789", 0xE3069283),
    ],
)
def test_crc(data: bytes, crc: int) -> None:
    assert native.crc32c(data) == crc
    assert native.crc32c(data[5:], native.crc32c(data[:5])) == crc


@pytest.mark.parametrize("n", [0, 7, 3071, 3072, 3073, 6145, 9300])
def test_crc_of_many_bytes(n: int) -> None:
    """By the definition: the remainder of a division by the polynomial, bit by bit."""
    data = np.random.default_rng(3).bytes(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    assert native.crc32c(data) == crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("memory", [LEAST_MEMORY, 2 * LEAST_MEMORY, 1 << 30, 1 << 36])
def test_the_budget_bounds_what_leveldb_may_use(memory: int) -> None:
    made = options(memory, 4, create=False)
    mapped = (made.max_open_files - 10) * made.max_file_size
    assert mapped + 2 * made.write_buffer + made.block_cache <= memory


@pytest.mark.parametrize("cache", [1 << 20, 16_000_000, 256 << 20, 1 << 40])
def test_buffers_are_a_share_of_the_cache(cache: int) -> None:
    """Two memtables, each with a batch on top, and the block cache."""
    buffers = buffers_of(cache)
    made = options(LEAST_MEMORY, 4, create=False, buffers=buffers)
    assert 2 * (made.write_buffer + buffers // 8) + made.block_cache <= buffers <= cache // 8


def test_too_little_memory(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="memory must be at least 134217728 bytes, got 5"):
        Database(tmp_path / "db", np.dtype(np.float32), 5, create=True)


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """A closed database of one table, its keys and values."""
    keys, values = np.arange(3000), np.random.default_rng(0).random((3000, 4), np.float32)
    for create in (True, False):  # opening turns the log into a table
        database = Database(tmp_path / "db", np.dtype(np.float32), LEAST_MEMORY, create)
        if create:
            database.put(keys, starts_of([4] * len(keys)), values)
        database.close()
    return tmp_path / "db", keys, values


@pytest.mark.fault(family="damaged files")
def test_flipped_bytes_in_a_table_are_never_weights(tables) -> None:
    path, keys, values = tables
    (table,) = path.glob("*.ldb")
    whole = table.read_bytes()
    refused = 0
    for place in range(7, len(whole), 1013):
        spoiled = bytearray(whole)
        spoiled[place] ^= 0x55
        table.write_bytes(spoiled)
        out = np.empty_like(values)
        try:
            database = Database(path, np.dtype(np.float32), LEAST_MEMORY, create=False)
        except StoreError:
            refused += 1
            continue
        try:
            database.get(keys, starts_of([4] * len(keys)), out)
            assert np.array_equal(out, values)
        except StoreError:
            refused += 1
        database.close()
    assert refused > 0.9 * len(range(7, len(whole), 1013))
