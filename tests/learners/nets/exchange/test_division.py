"""Pieces of batches, and the vectors that their rows ask for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuskml.learners.nets.exchange.rows import Division, pieces_of
from tuskml.learners.nets.exchange.worker import request_vectors

SIZES = st.integers(1, 3000), st.integers(1, 300)


@given(*SIZES)
def test_each_row_is_in_one_batch_of_an_epoch(n: int, batch: int) -> None:
    found = Division(n, batch, pieces_of(batch))
    assert found.sizes.sum() == n
    assert not found.until(0).any()
    assert (found.until(found.steps) == found.sizes).all()
    sizes = [found.until(step + 1) - found.until(step) for step in range(found.steps)]
    assert all((some >= 0).all() for some in sizes)
    assert sum(found.total(step) for step in range(found.steps)) == n


@given(*SIZES)
def test_batches_are_about_equal(n: int, batch: int) -> None:
    """None has more rows than were asked for, and one for each piece."""
    pieces = pieces_of(batch)
    found = Division(n, batch, pieces)
    assert found.steps == -(-n // batch)
    assert max(found.total(step) for step in range(found.steps)) <= batch + pieces


@given(st.integers(1, 65_536), st.sampled_from([1, 2, 4, 8, 16]))
def test_workers_have_pieces_one_behind_the_other(batch: int, workers: int) -> None:
    """A power of two, so that sums by pairs within workers and then between them are one tree."""
    pieces = pieces_of(batch)
    assert 1 <= pieces <= min(batch, 16)
    assert pieces & (pieces - 1) == 0
    if workers <= pieces:
        found = Division(1000, batch, pieces)
        each = [found.own(rank, workers) for rank in range(workers)]
        assert [piece for own in each for piece in own] == list(range(pieces))
        assert len({len(own) for own in each}) == 1


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]))
def test_rows_read_the_vectors_of_their_levels(seed: int, workers: int) -> None:
    """Each owner's table looked up by hand, beside the tables as they are on one machine."""
    draw = np.random.default_rng(seed)
    tables = [(2, 5, 3), (7, 11, 1), (18, 2, 20)]
    n, pieces = 30, 4
    levels = np.stack([draw.integers(-1, count, n) for _, count, _ in tables], axis=1)
    piece = np.sort(draw.integers(0, pieces, n))
    whole = [draw.standard_normal((count, size)).astype(np.float32) for _, count, size in tables]
    every = [vector for table in whole for vector in table]
    asked, own = request_vectors(levels.astype(np.float32), piece, tables, workers)
    flat = np.full(asked.floats, np.nan, np.float32)
    came = [
        np.concatenate([np.empty(0, np.float32), *(every[rank::workers][i] for i in ids)])
        for rank, ids in enumerate(asked.ids)
    ]
    asked.put(flat, came)
    begin, seen = 0, set()
    for t, (count, (_, _, size)) in enumerate(zip(asked.levels, tables, strict=True)):
        there = flat[begin : begin + count * size].reshape(count, size)
        begin += -(-count * size // 16) * 16
        for i in range(n):
            if levels[i, t] < 0:
                assert own[i, t] == -1
                continue
            assert (there[int(own[i, t])] == whole[t][levels[i, t]]).all()
            seen.add((t, int(own[i, t]), int(piece[i]), int(levels[i, t])))
    # of each piece and level one
    assert len({(t, place) for t, place, _, _ in seen}) == len(seen) == sum(asked.levels)
    back = asked.take_gradients(flat)
    assert [one.tolist() for one in back] == [one.tolist() for one in came]
