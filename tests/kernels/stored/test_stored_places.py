"""Whatever the chunks, the pages and the index map are, each entry finds its own weight."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block, rows_pass
from test_stored_weights import D, Setup

from tuskml.kernels.stored.chunks import Chunks, Few
from tuskml.kernels.stored.training import Model
from tuskml.partitioner.index_map import Blocks, IndexMap

IDS = st.lists(st.integers(0, D - 1), max_size=12)


@st.composite
def index_maps(draw):
    features = np.array(sorted(draw(st.sets(st.integers(0, D - 1), max_size=40))), np.int64)
    count = draw(st.integers(1, max(1, len(features))))
    order = np.array(draw(st.permutations(range(len(features)))), np.int64)
    sizes = draw(st.lists(st.integers(1, 70), min_size=2, max_size=2))
    return IndexMap(features, order % count, Blocks((0, 5), tuple(sizes)))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(IDS, min_size=1, max_size=40),
    index=index_maps(),
    shift=st.integers(-1, 6),
    rows_per_chunk=st.integers(1, 50),
    segment_rows=st.integers(1, 20),
    weight_size=st.sampled_from([4, 8]),
    threads=st.integers(1, 3),
)
def test_losses_are_those_of_each_features_weight(rows, index, weight_size, **how):
    rng = np.random.default_rng(5)
    values = [rng.integers(-3, 4, len(ids)).astype(float) for ids in rows]
    weights = rng.integers(-9, 10, D).astype(float)
    y = rng.integers(-9, 10, len(rows)).astype(float)
    setup = Setup(list(zip(rows, values, strict=True)), y, index, weight_size=weight_size, **how)
    keys, slots = index.locate(np.arange(D))
    for i, key in enumerate(setup.keys):
        mine = keys == key
        setup.frames.weights(i)[slots[mine]] = weights[mine]
    margins = np.array([weights[ids] @ v for ids, v in zip(rows, values, strict=True)]) + 0.5
    found = setup.training().loss(Model(intercept=0.5))
    assert found.loss == np.sum((margins - y) ** 2) / 2
    assert found.rows == len(rows)
    widths = np.concatenate([chunk.widths for chunk in setup.chunks])
    assert found.keys == len(widths)
    used = {int(key) for chunk in setup.chunks for key in chunk.keys}
    assert setup.keys.tolist() == sorted(used)
    np.testing.assert_array_equal(setup.widths, index.sizes(setup.keys.astype(np.int64)))
    for chunk in setup.chunks:
        assert (np.diff(chunk.keys.astype(np.int64)) > 0).all()
        np.testing.assert_array_equal(chunk.widths, index.sizes(chunk.keys.astype(np.int64)))


@pytest.mark.parametrize(("memory", "at_once"), [(1 << 20, 4), (32 * 2 * 60, 2), (1, 1)])
def test_memory_says_how_many_chunks_are_mapped_at_once(memory, at_once):
    """Six chunks of 60 entries whose features no other chunk has."""
    rows = [(np.arange(6) + 6 * k, np.ones(6)) for k in range(60)]
    groups, asked = block(rows, np.ones(60), "sparse float32", 7, 360), []

    def locate(ids):
        asked.append(len(ids))
        return ids, np.zeros(len(ids), np.int32)

    widths = lambda keys: np.ones(len(keys), np.int64)  # noqa: E731
    data = rows_pass(groups, threads=2)
    few = Few.within(memory, locate, data, 10)
    with Chunks.map(data, few, widths, 10, 1 << 30) as chunks:
        assert [chunk.features for chunk in chunks] == [60] * 6
    assert max(asked) == 60 * at_once
    assert sum(asked) == 360
