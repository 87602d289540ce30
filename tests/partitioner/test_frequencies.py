"""Sketched frequencies: bounds that hold, on data where counters run out and where they do not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partitioner_rows import zipf

from tuskml.errors import DataError, OptionError
from tuskml.partitioner import Frequencies, feature_frequencies

DIM = 10**9


@pytest.fixture(scope="module")
def stream() -> np.ndarray:
    """Three batches and a bit of ids by Zipf's law with coefficient 1, as the paper's skewed."""
    return zipf(3_500_000, DIM, 7)


def counts_of(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    distinct, counts = np.unique(ids, return_counts=True)
    at = np.searchsorted(distinct, wanted)
    return np.where(distinct[np.minimum(at, len(distinct) - 1)] == wanted, counts[at], 0)


def test_bounds_hold_on_zipf_data(stream: np.ndarray) -> None:
    counted = Frequencies(1_000)
    for part in np.array_split(stream, 35):
        counted.update(part)
    top = counted.top(1_000)
    exact = counts_of(stream, top.ids)
    assert len(top) == 1_000
    assert (top.lower <= exact).all()
    assert (exact <= top.upper).all()
    assert (top.upper - top.lower).max() <= counted.error
    # 3.5 / 2^14 of the total for a table of 2^14 (Anderson et al., IMC 2017), and an eighth more.
    assert 0 < counted.error <= len(stream) * 3.5 / 2**14 * 1.125
    assert counted.total == len(stream)


def test_no_frequent_feature_is_missed(stream: np.ndarray) -> None:
    counted = Frequencies(1_000)
    counted.update(stream)
    ids, exact = np.unique(stream, return_counts=True)
    frequent = ids[exact > counted.error]
    assert len(frequent) > 100
    assert set(frequent.tolist()) <= set(counted.top(10_000).ids.tolist())


def test_merged_sketches_keep_their_bounds(stream: np.ndarray) -> None:
    workers = [Frequencies(1_000) for _ in range(3)]
    for worker, part in zip(workers, np.array_split(stream, 3), strict=True):
        worker.update(part)
    first, *others = workers
    for other in others:
        first.merge(Frequencies.from_bytes(other.to_bytes()))
    top = first.top(1_000)
    exact = counts_of(stream, top.ids)
    assert ((top.lower <= exact) & (exact <= top.upper)).all()
    assert first.total == len(stream)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(0, 30))))
def test_small_models_are_counted_exactly(chunks: list[list[int]]) -> None:
    counted = Frequencies(5)
    for chunk in chunks:
        counted.update(np.array(chunk, np.int64))
    exact = np.bincount(np.array([i for chunk in chunks for i in chunk], np.int64), minlength=31)
    expected = sorted(((-n, k) for k, n in enumerate(exact.tolist()) if n))[:5]
    top = counted.top(5)
    assert top.ids.tolist() == [k for _, k in expected]
    assert top.lower.tolist() == top.upper.tolist() == [-n for n, _ in expected]
    assert counted.error == 0


@pytest.mark.parametrize("times", [1, 7])
def test_flat_frequencies_have_a_top(times: int) -> None:
    """Where no feature is more frequent than the sketch's error, as many as wanted are known."""
    ids = np.random.default_rng(0).permutation(np.repeat(np.arange(320_000), times))
    workers = [Frequencies(5), Frequencies(5)]
    for worker, part in zip(workers, np.array_split(ids, 2), strict=True):
        worker.update(part)
    workers[0].merge(Frequencies.from_bytes(workers[1].to_bytes()))
    top = workers[0].top(5)
    assert len(np.unique(top.ids)) == 5
    assert (top.lower <= times).all()
    assert (times <= top.upper).all()


def test_the_same_stream_gives_the_same_result(stream: np.ndarray) -> None:
    one, other = (feature_frequencies(stream, 500) for _ in range(2))
    assert one.ids.tolist() == other.ids.tolist()
    assert one.estimate.tolist() == other.estimate.tolist()


def test_chunks_may_be_written_over() -> None:
    counted, chunk = Frequencies(3), np.array([4, 4, 9])
    counted.update(chunk)
    chunk[:] = 1
    assert counted.top(3).ids.tolist() == [4, 9]


def test_large_ids_survive_bytes() -> None:
    counted = Frequencies(10)
    counted.update(np.array([2**62 - 1, 2**62 - 1, 5]))
    again = Frequencies.from_bytes(counted.to_bytes())
    assert again.top(10).ids.tolist() == [2**62 - 1, 5]
    assert again.total == 3


def test_damaged_bytes_are_refused() -> None:
    counted = Frequencies(10)
    counted.update(np.arange(100))
    data = counted.to_bytes()
    for place in range(len(data)):
        flipped = data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :]
        with pytest.raises(DataError):
            Frequencies.from_bytes(flipped)
    for length in range(0, len(data), 7):
        with pytest.raises(DataError):
            Frequencies.from_bytes(data[:length])


@pytest.mark.parametrize("ids", [[-1], [2**62], [0.5], [[1]], np.array([2**63], np.uint64)])
def test_what_is_no_id(ids: list) -> None:
    with pytest.raises(DataError):
        Frequencies(1).update(ids)


def test_top_has_a_limit() -> None:
    with pytest.raises(OptionError, match="top must be from 0 to"):
        Frequencies(-1)
