"""Rows dealt to folds: each row once, evenly, whatever the order of the input."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import account, block, together

from tuskml.kernels.passes import Pass
from tuskml.kernels.rows.cells import BY_ORDER, BY_VALUE, deal
from tuskml.kernels.segments import chunks, labels_of
from tuskml.kernels.structures import FOLDS

KINDS = ["dense float32", "dense float64", "sparse float64"]


def numbers_in(group):
    """The rows of a group by their first feature, which is their number."""
    found = []
    for _, x, _ in chunks(group):
        if isinstance(x, tuple):
            starts, _, values = x
            found += values[starts[:-1]].tolist()
        else:
            found += x[:, 0].tolist()
    return sorted(int(one) for one in found)


def rows(n, seed=0, classes=3):
    random = np.random.default_rng(seed)
    x = np.column_stack([np.arange(1, n + 1), random.normal(size=(n, 2))])
    return x, random.integers(0, classes, n).astype(float)


@settings(max_examples=30)
@given(
    n=st.integers(1, 200),
    folds=st.integers(2, 7),
    slices=st.integers(1, 4),
    by_label=st.booleans(),
    kind=st.sampled_from(KINDS),
    segment_rows=st.sampled_from([1, 7, 1000]),
)
def test_every_row_is_in_one_fold(n, folds, slices, by_label, kind, segment_rows):
    x, y = rows(n)
    group = block(x, y, kind, segment_rows)
    with deal(group, folds, memory=account(), slices=slices, by_label=by_label) as cells:
        sizes = []
        for fold in range(folds):
            held = numbers_in(cells.link([fold])[0])
            kept = numbers_in(cells.link([f for f in range(folds) if f != fold])[0])
            assert sorted(held + kept) == list(range(1, n + 1))
            sizes.append(len(held))
        assert max(sizes) - min(sizes) <= 1
        whole = cells.link(range(folds))
        assert whole["n_rows"][0] == n
        before: set[int] = set()
        for first in range(1, slices + 1):
            some = set(numbers_in(cells.link(range(folds), first)[0]))
            assert before <= some
            before = some
        assert before == set(range(1, n + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_dealt_evenly(kind):
    x, y = rows(103)
    with deal(block(x, y, kind), 5, memory=account(), by_label=True) as cells:
        for fold in range(5):
            held = np.array(numbers_in(cells.link([fold])[0])) - 1
            for label in (0, 1, 2):
                assert abs((y[held] == label).sum() - (y == label).sum() / 5) <= 1


def test_slices_double():
    x, y = rows(3200)
    with deal(block(x, y), 5, memory=account(), slices=4) as cells:
        sizes = [int(cells.link([0], first)["n_rows"][0]) for first in range(1, 5)]
    assert sizes == [80, 160, 320, 640]


def test_folds_do_not_depend_on_the_order_of_rows():
    x, y = rows(150)
    other = np.random.default_rng(1).permutation(150)
    with deal(block(x, y), 4, memory=account(), by_label=True, seed=3) as one:
        first = [numbers_in(one.link([fold])[0]) for fold in range(4)]
    with deal(
        block(x[other], y[other], segment_rows=11), 4, memory=account(), by_label=True, seed=3
    ) as two:
        assert first == [numbers_in(two.link([fold])[0]) for fold in range(4)]
    with deal(block(x, y), 4, memory=account(), by_label=True, seed=4) as three:
        assert first != [numbers_in(three.link([fold])[0]) for fold in range(4)]


def test_groups_are_dealt_each_by_itself():
    sizes = [1, 40, 3, 17]
    blocks = [block(*rows(n, seed)) for seed, n in enumerate(sizes)]
    with deal(together(blocks), 3, memory=account(), threads=2) as cells:
        for g, n in enumerate(sizes):
            found = [numbers_in(cells.link([fold])[g]) for fold in range(3)]
            assert sorted(found[0] + found[1] + found[2]) == list(range(1, n + 1))


def test_weights_go_with_their_rows():
    x, y = rows(60)
    weight = np.arange(1.0, 61.0)
    with deal(block(x, y, weight=weight), 3, memory=account()) as cells:
        held = cells.link([1])[0]
        order = [int(one) for _, part, _ in chunks(held) for one in part[:, 0]]
        found = np.concatenate([np.array(w) for _, w in labels_of(held)])
    assert found.tolist() == [float(one) for one in order]


@pytest.mark.parametrize("by", [BY_VALUE, BY_ORDER])
@settings(max_examples=50)
@given(
    n=st.integers(1, 60),
    folds=st.integers(2, 7),
    values=st.integers(1, 40),
    slices=st.integers(1, 3),
    by_label=st.booleans(),
)
def test_rows_of_equal_marks_are_in_one_fold(by, n, folds, values, slices, by_label):
    """By value no fold exceeds the mean by more than the largest mark (Graham's bound); in order
    no fold has a mark below that of an earlier one."""
    x, y = rows(n)
    mark = np.random.default_rng(values).integers(0, values, n).astype(float)
    group = block(x, y, weight=mark)
    group["extras"] = FOLDS  # one extra is laid out as another
    how = {"slices": slices, "by_label": by_label, "by": by}
    with deal(group, folds, memory=account(), **how) as cells:
        assert not cells.link([0])["extras"].any()
        found = [numbers_in(cells.link([fold])[0]) for fold in range(folds)]
    assert sorted(itertools.chain(*found)) == list(range(1, n + 1))
    own = [mark[np.array(one, int) - 1] for one in found if one]
    for before, after in itertools.combinations(own, 2):
        assert not set(before) & set(after)
        assert by == BY_VALUE or before.max() < after.min()
    if by == BY_VALUE:
        assert max(map(len, own)) <= n / folds + np.unique(mark, return_counts=True)[1].max()


@settings(max_examples=30)
@given(
    n=st.integers(1, 120),
    folds=st.integers(2, 7),
    slices=st.integers(1, 3),
    some=st.integers(1, 3),
    kind=st.sampled_from(KINDS[:2]),
)
def test_sets_in_common_have_the_rows_of_linked_ones(n, folds, slices, some, kind):
    some = min(some, slices)
    blocks = together([block(*rows(n), kind), block(*rows(2 * n, 1), kind, 7)])
    sets = [[f for f in range(folds) if f != out] for out in range(folds)]
    with deal(blocks, folds, memory=account(), slices=slices) as cells:
        apart = []
        for one in sets:
            apart.append([numbers_in(group) for group in cells.link(one, some)])
        found = cells.in_common(sets, some)
        assert found.shape == (2, folds)
        for s in range(folds):
            assert [numbers_in(group) for group in found[:, s]] == apart[s]
            assert [found[g, s]["n_rows"] for g in (0, 1)] == [len(one) for one in apart[s]]
        again = cells.link([0])  # the ring is open again
        assert len(numbers_in(again[0])) == again["n_rows"][0]


def test_sets_in_common_follow_each_other():
    with deal(block(*rows(40)), 5, memory=account()) as cells:
        assert cells.in_common([[0, 2], [1, 2]]) is None
        assert cells.in_common([[0, 1], [0, 1, 2]]).shape == (1, 2)


@settings(max_examples=20)
@given(
    n=st.integers(20, 300),
    folds=st.integers(3, 6),
    which=st.sets(st.integers(0, 11), min_size=1),
    kind=st.sampled_from(KINDS[:2]),
    loss_only=st.booleans(),
)
def test_gradients_of_rows_in_common_are_those_of_each_set(n, folds, which, kind, loss_only):
    """The same sums, of whichever sets are asked for, to rounding; bit by bit among themselves."""
    blocks = together([block(*rows(n, 0, 2), kind), block(*rows(2 * n, 1, 2), kind, 7)])
    sets = [[f for f in range(folds) if f != out] for out in range(folds)]
    with deal(blocks, folds, memory=account()) as cells:
        groups = cells.in_common(sets).ravel()
        weights = np.random.default_rng(2).normal(size=(len(groups), 4)) / n
        asked = Pass(groups, 1, np.ones(len(groups)), None, True, 2, loss_only=loss_only)
        apart = asked.gradient(weights)
        common = replace(asked, common=True)
        assert common.gradient(weights) == pytest.approx(apart, rel=1e-12, abs=1e-9)
        some = np.array(sorted({one % len(groups) for one in which}))
        assert (common.of(some).gradient(weights[some]) == common.gradient(weights)[some]).all()
