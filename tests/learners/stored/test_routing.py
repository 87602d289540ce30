"""Weights that travel between chunks of rows: the plan, what it costs, and what is trained."""

import os
import sys
import tracemalloc
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block, rows_pass
from stored_reference import Reference, dense, sparse_rows

from tuskml.errors import StoreError
from tuskml.kernels.segments import sparse_segments
from tuskml.kernels.stored.training import Model, Training
from tuskml.kvstore import routes as kvstore_routes
from tuskml.kvstore.arrays import give_back
from tuskml.kvstore.routes import Range, Routes, gather_size
from tuskml.learners.stored.routing import PART_WEIGHTS, Others, Routing, TooWide

pytestmark = pytest.mark.native

D = 120


def nothing() -> None:
    """Nobody interrupts."""


def planned(rows, tmp_path, memory=1 << 16, fewest=7, dimension=D):
    """The plan for rows as (ids, values), and their group."""
    groups = block(rows, np.ones(len(rows)), "sparse float32", 23, dimension)
    return Routing(rows_pass(groups), memory, tmp_path, fewest, nothing), groups


def features_of(rows, size):
    """The distinct ids of each so many rows."""
    return [
        np.unique(np.concatenate([np.asarray(ids, np.int64) for ids, _ in rows[at : at + size]]))
        for at in range(0, len(rows), size)
    ]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 40), st.sampled_from([100, 300_000]))
def test_each_weight_is_where_its_next_chunk_looks(tmp_path_factory, seed, n_rows, dimension):
    """Weights that are the ids of their features, moved by NumPy for three passes."""
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(0, dimension, rng.integers(0, 9)) for _ in range(n_rows)]
    if seed % 2:
        drawn[n_rows // 2 :] = [drawn[0][:0]] * (n_rows - n_rows // 2)  # chunks without features
    rows = [(ids, np.ones(len(ids))) for ids in drawn]
    folder = tmp_path_factory.mktemp("routes")
    with planned(rows, folder, dimension=dimension)[0] as routing:
        plan, chunks = routing.plan, features_of(rows, routing.rows)
        assert routing.n_features == len(np.unique(np.concatenate(chunks)))
        assert routing.n_chunks == len(chunks)
        regions = []
        for j, ids in enumerate(chunks):
            before = [last_before(chunks, j, feature) for feature in ids]
            assert (plan.takes(j)[0] == np.bincount(before, minlength=len(chunks))).all()
            regions.append(np.full(int(np.diff(plan.region)[j]) // 4, -1.0))
            resting = np.array(before, np.int64) >= j
            regions[j][routing.places(j)[resting]] = ids[resting]
        for _ in range(3):
            for j, ids in enumerate(chunks):
                assert (regions[j][routing.places(j)] == ids).all()
                move(routing, regions, j)


def last_before(chunks, j, feature):
    """The chunk that has the feature last before chunk j, in a circle."""
    n = len(chunks)
    return next((j - k) % n for k in range(1, n + 1) if feature in chunks[(j - k) % n])


def move(routing, regions, j):
    """What releasing a chunk does."""
    plan = routing.plan
    first = int(plan.first[j])
    going = regions[j][routing.moves.read(first, int(plan.first[j + 1]) - first)]
    at = 0
    for k, (n, start) in enumerate(zip(*(part.tolist() for part in plan.gives(j)), strict=True)):
        regions[k][start : start + n] = going[at : at + n]
        at += n


PENALTIES = {"none": {}, "l1": {"l1": 0.02}, "l2": {"l2": 0.1}, "both": {"l1": 0.01, "l2": 0.2}}


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("batch_size", [1, 32])
def test_same_updates_as_numpy(tmp_path, batch_size, penalty):
    rng = np.random.default_rng(7)
    rows, y = sparse_rows(rng, 300, D, task="logistic")
    groups = block(rows, y, "sparse float32", 23, D)
    rows = [(ids, np.float32(values).astype(float)) for ids, values in rows]
    passed = rows_pass(groups, "logistic")
    options = {"batch_size": batch_size, "step": 0.05} | PENALTIES[penalty]
    with Routing(passed, 1 << 16, tmp_path, 9, nothing) as routing:
        size = routing.rows
        lists = [
            (at, min(300, at + size), ids.tolist())
            for at, ids in zip(range(0, 300, size), features_of(rows, size), strict=True)
        ]
        reference = Reference("logistic", dense(rows, D), y, np.arange(D), lists, **options)
        plan = routing.plan
        with Routes(plan, routing.moves.file, tmp_path) as routes:
            training = Training(
                routing.chunks, routes.access, shuffle=False, together=True, **options
            )
            model = Model()
            for done in range(3):
                result = training.epoch(model, done)
                model = result.model
                assert result.loss == pytest.approx(reference.epoch(done), rel=1e-5)
            reference.settle(range(D))
            with routes.at_rest(fold=True):
                keys = plan.keys_at_rest()
                model, sums = training.settle(model, *keys, 1000, fold=True)
            assert sums.squares == pytest.approx(np.sum(reference.w**2), rel=1e-4)
            assert sums.absolute == pytest.approx(np.sum(np.abs(reference.w)), rel=1e-4)
            loss = training.loss(model).loss
            with routes.at_rest():
                ids, weights = (
                    np.concatenate(part) for part in zip(*routing.pairs(routes), strict=True)
                )
    found = np.zeros(D)
    found[ids] = weights
    np.testing.assert_allclose(found, reference.w, rtol=0, atol=1e-5 * np.abs(found).max())
    margins = dense(rows, D) @ reference.w + model.intercept
    assert loss == pytest.approx(np.sum(np.log1p(np.exp(-(2 * y - 1) * margins))), rel=1e-4)


@pytest.mark.nightly
def test_memory_is_bounded_by_construction(tmp_path):
    """A model of eight times the memory is planned in the memory, and trains in it."""
    memory, rng = 1 << 19, np.random.default_rng(3)
    rows = [(rng.integers(0, 10**9, 50), np.ones(50)) for _ in range(21_000)]
    groups = block(rows, np.ones(len(rows)), "sparse float32", 2000, 10**9)
    planned(rows[:500], tmp_path)[0].close()  # what is imported late is no part of it
    tracemalloc.start()
    try:
        with Routing(rows_pass(groups), memory, tmp_path, 2, nothing) as routing:
            peak = tracemalloc.get_traced_memory()[1]
            assert routing.n_features * 4 > 7.9 * memory
            assert routing.plan.nbytes <= memory
            assert peak < 1.1 * memory
    finally:
        tracemalloc.stop()


def test_weights_come_out_as_they_went_in_by_rising_id(tmp_path):
    """In parts that are cut between multiples of 2^12, so that no block of a store is in two."""
    rng, dimension = np.random.default_rng(8), 1 << 21
    rows = [(ids, np.ones(100)) for ids in rng.integers(0, dimension, (12_000, 100))]
    groups = block(rows, np.ones(len(rows)), "sparse float32", 2000, dimension)
    expected = np.unique(np.concatenate([ids for ids, _ in rows]))
    with (
        Routing(rows_pass(groups), 1 << 23, tmp_path, 5, nothing) as routing,
        Routes(routing.plan, routing.moves.file, tmp_path) as routes,
    ):
        routing.fill(routes, pairs_of(expected), pytest.fail)
        parts = list(routing.pairs(routes))
    assert (np.concatenate([ids for ids, _ in parts]) == expected).all()
    assert (np.concatenate([weights for _, weights in parts]) == expected + 1).all()
    ranges = [np.unique(ids >> 12) for ids, _ in parts if len(ids)]
    assert len(np.unique(np.concatenate(ranges))) == sum(map(len, ranges))
    assert max(len(ids) for ids, _ in parts) < 2 * PART_WEIGHTS
    assert len(parts) > 3


def pairs_of(ids):
    """Weights of ids, in parts that end anywhere: each its id and 1."""
    for some in np.array_split(ids, 7):
        yield some.astype(np.int64), (some + 1).astype(np.float32)


@pytest.mark.parametrize("penalties", [(0.0, 0.0), (0.5, 0.0), (0.0, 2.0), (0.5, 2.0)])
def test_weights_that_no_row_has_come_out_between_the_others(tmp_path, penalties):
    """After the penalties of the time that went by, whose differential equation is solved here."""
    rng, (l1, l2), seconds = np.random.default_rng(4), penalties, 0.25
    rows = [(2 * ids, np.ones(50)) for ids in rng.integers(500, 40_000, (3_000, 50))]
    groups = block(rows, np.ones(len(rows)), "sparse float32", 2000, 1 << 17)
    known = np.unique(np.concatenate([ids for ids, _ in rows]))
    apart = np.concatenate([np.arange(1, 100_000, 8), [1 << 21, 1 << 40]])
    both = np.union1d(known, apart)
    with (
        ExitStack() as stack,
        Routing(rows_pass(groups), 1 << 20, tmp_path, 5, nothing) as routing,
        Routes(routing.plan, routing.moves.file, tmp_path) as routes,
    ):
        others = Others(stack, tmp_path, l1, l2)
        routing.fill(routes, pairs_of(both), others.add)
        others.time = seconds
        ids, weights = map(np.concatenate, zip(*others.merge(routing.pairs(routes)), strict=True))
        squares, sizes = others.sums()
    assert (ids == both).all()
    is_apart = np.isin(ids, apart)
    assert (weights[~is_apart] == ids[~is_apart] + 1).all()
    w = (apart + 1).astype(np.float32).astype(float)
    for _ in range(1000):  # Euler's method
        w -= seconds / 1000 * (l2 * w + l1)
    np.testing.assert_allclose(weights[is_apart], np.maximum(w, 0), rtol=2e-3)
    assert squares == pytest.approx(np.square(weights[is_apart], dtype=float).sum())
    assert sizes == pytest.approx(weights[is_apart].astype(float).sum())


def resident():
    """Bytes of this process in memory, after what is free went back."""
    give_back()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_weights_at_rest_take_no_memory(tmp_path):
    """So that who seals them may take as much as planning did."""
    rng, memory, dimension = np.random.default_rng(9), 1 << 24, 1 << 20
    rows = [(ids, np.ones(200)) for ids in rng.integers(0, dimension, (7_500, 200))]
    groups = block(rows, np.arange(len(rows)) % 2.0, "sparse float32", 2000, dimension)
    with (
        Routing(rows_pass(groups), memory, tmp_path, 3, nothing) as routing,
        Routes(routing.plan, routing.moves.file, tmp_path) as routes,
    ):
        training = Training(routing.chunks, routes.access, step=0.01, together=True)
        model = training.epoch(Model()).model
        training_takes = resident()
        with routes.at_rest():
            assert training_takes - resident() > 3 * routing.plan.largest
        assert np.isfinite(training.loss(model).loss)


def moved():
    """Bytes that this process asked the system to read and to write, from the cache or not."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return np.array([int(lines["rchar"]), int(lines["wchar"])])


@pytest.mark.sample(1)
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("dimension", [400_000, 10**9], ids=["a table", "a sort"])
def test_planning_and_sealing_read_and_write_little(tmp_path, dimension):
    """Planning reads each pair twice and writes it three times, with the ids that rest; sealing
    reads each pair once, and each feature three times.
    """
    rng = np.random.default_rng(11)
    rows = [(ids, np.ones(50)) for ids in rng.integers(0, dimension, (12_000, 50))]
    groups = block(rows, np.ones(len(rows)), "sparse float32", 2000, dimension)
    planned(rows[:500], tmp_path)[0].close()  # what is imported late is no part of it
    before = moved()
    with Routing(rows_pass(groups), 1 << 20, tmp_path, 2, nothing) as routing:
        reads, writes = moved() - before
        pairs, features = int(routing.plan.first[-1]), routing.n_features
        assert 2 * pairs <= reads / 4 < 2.3 * pairs
        assert 3 * pairs + features <= writes / 4 < 3.3 * pairs + features
        with Routes(routing.plan, routing.moves.file, tmp_path) as routes:
            found = np.unique(np.concatenate([ids for ids, _ in rows]))
            routing.fill(routes, iter([(found, np.ones(len(found), np.float32))]), pytest.fail)
            before = moved()
            assert sum(len(ids) for ids, _ in routing.pairs(routes)) == features
        reads, writes = moved() - before
        assert pairs + 3 * features <= reads / 4 < 1.3 * pairs + 3 * features
        assert features <= writes / 4 < 1.1 * features


@pytest.mark.parametrize("memory", [1 << 20, 14_000_000, 1 << 30])
def test_what_is_gathered_is_whole_pages_that_fit(memory):
    """Beside four regions of an eighth; in the frames of 16 MB a page for each of 1,608 chunks."""
    largest = memory // 8
    most = (memory - 4 * largest) // (4096 + 256)
    assert most == 1608 or memory != 14_000_000
    assert [gather_size(n, memory, largest) for n in (most, most + 1)] == [4096, 0]
    for n in (1, most // 9, most // 3, most // 2, most):
        size = gather_size(n, memory, largest)
        assert size % 4096 == 0
        assert size > 0
        assert 4 * largest + n * (size + 256) <= memory
        assert size == 256 << 10 or 4 * largest + n * (size + 4096 + 256) > memory


@pytest.mark.nightly
def test_more_chunks_than_pairs_of_them_fit_into_memory(tmp_path):
    """Four bytes per pair of chunks alone would take a third of the memory."""
    memory, rng = 1 << 18, np.random.default_rng(4)
    rows = [(ids, np.ones(100)) for ids in rng.integers(0, 10**8, (18_000, 100))]
    groups = block(rows, np.ones(len(rows)), "sparse float32", 2000, 10**8)
    with Routing(rows_pass(groups), memory, tmp_path, 2, nothing) as routing:
        plan, n = routing.plan, routing.n_chunks
        assert routing.n_features * 4 > 26 * memory
        assert 4 * n**2 > memory / 3
        assert plan.nbytes <= memory
        takes = np.stack([plan.takes(j)[0] for j in range(n)])
        gives = np.stack([plan.gives(j)[0] for j in range(n)])
        assert (gives == takes.T).all()
        assert (takes.sum(axis=1) == np.diff(plan.first)).all()


@pytest.mark.parametrize(
    ("rows", "memory"),
    [([(np.arange(5000), np.ones(5000))] * 2, 1 << 15), ([([k], [1.0]) for k in range(999)], 0)],
    ids=["a row", "the chunks"],
)
def test_what_memory_cannot_hold_at_all(tmp_path, rows, memory):
    """The rows then are as they were, for a plan of another kind."""
    groups = block(rows, np.ones(len(rows)), "sparse float32", 23, 5000)
    with pytest.raises(TooWide):
        Routing(rows_pass(groups), memory, tmp_path, 900 if not memory else 2, nothing)
    left = np.concatenate([ids for _, ids in sparse_segments(groups[0])])
    assert (left == np.concatenate([ids for ids, _ in rows])).all()


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(0, 50), st.integers(1, 80))
def test_neighbours_by_a_table_and_by_a_sort_are_those_in_a_circle(seed, n_chunks, low, width):
    """And what rests with a chunk is what no chunk before it has."""
    rng = np.random.default_rng(seed)
    lists = [
        np.sort(rng.permutation(width)[: rng.integers(0, width + 1)]).astype(np.int32) + low
        for _ in range(n_chunks)
    ]
    pairs = [(j, feature) for j, ids in enumerate(lists) for feature in ids.tolist()]
    of = Range(np.concatenate(lists), np.array([len(ids) for ids in lists]), low, width)
    expected = [
        last_before(lists, j, feature) | next_after(lists, j, feature) << 16
        for j, feature in pairs
    ]
    by_table, by_sort = np.empty((2, len(pairs)), np.uint32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kvstore_routes, "LINKED_AT_ONCE", int(rng.integers(1, 99)))
        of.link_around(by_table)
    of.sort_around(by_sort, np.empty(len(pairs), np.uint64))
    assert by_table.tolist() == by_sort.tolist() == expected
    takes = np.zeros((n_chunks, n_chunks), np.uint32)
    of.tally(by_table, takes)
    for j, ids in enumerate(lists):
        before = [last_before(lists, j, feature) for feature in ids]
        assert (takes[j] == np.bincount(before, minlength=n_chunks)).all()
    found, counts = of.resting(by_table)
    firsts = [(j, f) for j, f in pairs if not any(f in ids for ids in lists[:j])]
    assert found.tolist() == [feature for _, feature in firsts]
    assert counts.tolist() == np.bincount([j for j, _ in firsts], minlength=n_chunks).tolist()


@given(
    st.integers(0, 2**32), st.integers(1, 9), st.sampled_from([1, 60, 5_000]), st.integers(0, 9)
)
def test_weights_of_a_range_by_rising_id(seed, n_chunks, n, bits):
    """Blocks of few ids and of many, those without weights, and weights that are 0."""
    rng, low, width = np.random.default_rng(seed), 1 << 12, n << bits
    ids = np.unique(rng.integers(low, low + width, n)).astype(np.int32)
    weights = rng.integers(0, 4, len(ids)).astype(np.float32)
    chunk = rng.integers(0, n_chunks, len(ids))
    order = np.argsort(chunk, kind="stable")
    of = Range(ids[order], np.bincount(chunk, minlength=n_chunks), low, width)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kvstore_routes, "LINKED_AT_ONCE", 1 << int(rng.integers(5, 12)))
        parts = list(of.by_id(weights[order], 100))
        assert all(len(part) <= 100 + kvstore_routes.LINKED_AT_ONCE for part, _ in parts)
    found = [np.concatenate([np.zeros(0), *each]) for each in zip(*parts, strict=True)]
    stored = weights != 0
    assert [x.tolist() for x in found] == [ids[stored].tolist(), weights[stored].tolist()] or (
        not parts and not stored.any()
    )


def next_after(chunks, j, feature):
    """The chunk that has the feature first after chunk j, in a circle."""
    n = len(chunks)
    return next((j + k) % n for k in range(1, n + 1) if feature in chunks[(j + k) % n])


@pytest.mark.parametrize("file", ["weights", "moves"])
def test_a_file_that_fails_ends_the_training(tmp_path, file):
    """Whether the thread reads or writes: the next call tells, and nobody waits for ever."""
    rng = np.random.default_rng(5)
    rows, y = sparse_rows(rng, 200, D)
    groups = block(rows, y, "sparse float32", 23, D)
    with (
        Routing(rows_pass(groups), 1 << 16, tmp_path, 6, nothing) as routing,
        Routes(routing.plan, routing.moves.file, tmp_path) as routes,
    ):
        training = Training(routing.chunks, routes.access, together=True)
        model = training.epoch(Model()).model
        spoilt = routes._file if file == "weights" else routing.moves.file
        os.ftruncate(spoilt.fileno(), 0)
        with pytest.raises(StoreError, match="reading the weights of a training failed"):
            training.epoch(training.epoch(model).model)
        with pytest.raises(StoreError, match="reading the weights"):
            routes._rest(True, False)
