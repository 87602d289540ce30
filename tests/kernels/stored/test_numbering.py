"""Features of chunks, numbered by rising id in place."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block, rows_pass

from tuskml.kernels.segments import sparse_segments
from tuskml.kernels.stored.chunks import Chunks

pytestmark = pytest.mark.native
MOST = 2**31 - 2


def entries_of(groups):
    return np.concatenate([ids.copy() for _, ids in sparse_segments(groups[0])])


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.sampled_from([1, 90, 70_000, MOST + 1]),
    st.integers(1, 30),
    st.integers(1, 5),
)
def test_ranks_stand_for_the_ids_of_their_chunk(seed, n_rows, dimension, each, threads):
    """As np.unique has them, whatever segments and threads there are; tables bring ids back."""
    rng = np.random.default_rng(seed)
    rows = [(rng.integers(0, dimension, rng.integers(0, 12)), 0) for _ in range(n_rows)]
    rows = [(ids, np.ones(len(ids))) for ids, _ in rows]
    groups = block(rows, np.ones(n_rows), "sparse float32", 7, dimension)
    before = entries_of(groups)
    passed = replace(rows_pass(groups), threads=threads)
    lengths = np.array([len(ids) for ids, _ in rows])
    with Chunks.of_rows(passed, each) as chunks:
        assert [chunk.rows for chunk in chunks] == [
            min(each, n_rows - at) for at in range(0, n_rows, each)
        ]
        found, at = [ids.copy() for ids in chunks.number_ids()], 0
        ranks = entries_of(groups)
        for chunk, ids in zip(chunks, found, strict=True):
            n = int(lengths[chunk.row : chunk.row + chunk.rows].sum())
            expected, places = np.unique(before[at : at + n], return_inverse=True)
            assert (ids == expected).all()
            assert (ranks[at : at + n] == places).all()
            assert chunk.features == len(expected)
            at += n
        for number, ids in enumerate(found):
            chunks.replace(number, ids)
    assert (entries_of(groups) == before).all()
