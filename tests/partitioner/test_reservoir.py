"""The sample of rows: uniform, the same for the same seed, whatever the chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partitioner_rows import lists, packed

from tuskml.errors import OptionError
from tuskml.partitioner import RowSample


def sampled(chunks: list[list[int]], size: int, seed: int) -> RowSample:
    """A sample of rows [number]."""
    sample = RowSample(size, seed)
    for chunk in chunks:
        sample.update(packed([[number] for number in chunk]))
    return sample


def numbers(sample: RowSample) -> list[int]:
    return [row[0] for row in lists(sample.rows())]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 60), max_size=6), st.integers(1, 20), st.integers(0, 100))
def test_chunks_do_not_matter(borders: list[int], size: int, seed: int) -> None:
    every = list(range(60))
    cuts = sorted(borders)
    parts = [every[a:b] for a, b in zip([0, *cuts], [*cuts, 60], strict=True)]
    whole, cut = sampled([every], size, seed), sampled(parts, size, seed)
    assert numbers(whole) == numbers(cut) == sorted(numbers(whole))
    assert len(numbers(whole)) == size
    assert whole.rows_seen == 60


def test_a_short_stream_is_kept_whole() -> None:
    sample = RowSample(10)
    sample.update(packed([[5, 6], [], [7]]))
    assert lists(sample.rows()) == [[5, 6], [], [7]]
    assert len(RowSample(3).rows()) == 0


def is_uniform(counts: np.ndarray, runs: int, share: float) -> bool:
    """Whether each count is within five standard deviations of the binomial law."""
    deviation = np.sqrt(runs * share * (1 - share))
    return bool((np.abs(counts - runs * share) < 5 * deviation).all())


def test_rows_are_equally_likely() -> None:
    runs, counts = 4_000, np.zeros(40)
    for seed in range(runs):
        counts[numbers(sampled([list(range(40))], 5, seed))] += 1
    assert is_uniform(counts, runs, 5 / 40)


@pytest.mark.nightly
def test_rows_of_merged_samples_are_equally_likely() -> None:
    """Streams of 10 and 30 rows are merged, and 20 more rows pass."""
    runs, counts = 4_000, np.zeros(60)
    for seed in range(runs):
        sample = sampled([list(range(10))], 5, 2 * seed)
        sample.merge(sampled([list(range(10, 40))], 5, 2 * seed + 1))
        sample.update(packed([[number] for number in range(40, 60)]))
        counts[numbers(sample)] += 1
    assert is_uniform(counts, runs, 5 / 60)


def test_merging_short_streams_keeps_all() -> None:
    sample = sampled([[0, 1]], 8, 0)
    sample.merge(sampled([[2, 3, 4]], 8, 1))
    sample.merge(sampled([], 8, 2))
    sample.update(packed([[5]]))
    assert numbers(sample) == [0, 1, 2, 3, 4, 5]
    sample.update(packed([[number] for number in range(6, 500)]))
    assert len(numbers(sample)) == 8
    assert sample.rows_seen == 500


def test_samples_of_two_sizes() -> None:
    with pytest.raises(OptionError, match="samples of 3 and 4 rows cannot be merged"):
        RowSample(3).merge(RowSample(4))
    with pytest.raises(OptionError, match="at least 1 row"):
        RowSample(0)
