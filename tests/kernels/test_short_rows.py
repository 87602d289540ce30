"""Curvatures of sparse rows with few entries, and passes at weights of 0, by dense arithmetic."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block, rows_pass

pytestmark = pytest.mark.native
KINDS = ("sparse float32", "sparse float64")


def made_rows(rng, n, d, most, repeated, even):
    """Entries of n rows in any order of ids, and the matrix that they say.

    even: all rows have the most entries.
    """
    entries, whole = [], np.zeros((n, d))
    for i in range(n):
        size = most if even else int(rng.integers(0, most + 1))
        ids = rng.integers(0, d, size) if repeated else rng.permutation(d)[:size]
        values = rng.normal(size=size).astype(np.float32).astype(float)
        np.add.at(whole[i], ids, values)
        entries.append((ids, values))
    return entries, whole


def in_dense(x, y, weight, w, scale):
    """Loss, weight, gradient and lower triangle of the curvature of z; the loss is logistic."""
    m, sign = x @ w[:-1] + w[-1], np.where(y == 1, 1.0, -1.0)
    p = 1 / (1 + np.exp(-m))
    z = np.column_stack([x * scale, np.ones(len(x))])
    slope = weight * (p - (y == 1))
    curvature = (z * (weight * p * (1 - p))[:, None]).T @ z
    loss = np.sum(weight * np.logaddexp(0, -sign * m))
    gradient = np.append(x.T @ slope, slope.sum())
    return np.r_[loss, weight.sum(), gradient, curvature[np.tril_indices(len(w))]]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    d=st.integers(1, 150),
    most=st.integers(0, 20),
    repeated=st.booleans(),
    even=st.booleans(),
    kind=st.sampled_from(KINDS),
    segment_rows=st.sampled_from([1, 7, 64, 1000]),
)
def test_any_entries(seed, d, most, repeated, even, kind, segment_rows):
    """Short rows and long ones, with ids in any order, also repeated ones."""
    rng = np.random.default_rng(seed)
    n = 130
    entries, whole = made_rows(rng, n, d, most if repeated else min(most, d), repeated, even)
    y, weight = (rng.random(n) < 0.4).astype(float), rng.integers(0, 3, n).astype(float)
    w, scale = rng.normal(size=d + 1), rng.uniform(0.5, 2, d)
    groups = block(entries, y, kind, segment_rows, d, weight)
    rows = rows_pass(groups, "logistic")
    sums = rows.curvature(w[None], np.zeros((1, d)), scale[None], precise=True)[0]
    expected = in_dense(whole, y, weight, w, scale)
    np.testing.assert_allclose(sums, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("numbers", [0, 1, 3, 7, 9])
@pytest.mark.parametrize("categories", range(8))
def test_numbers_beside_categories(kind, numbers, categories):
    """Rows that begin with the same ids, and as many others each; some rows lack one."""
    rng = np.random.default_rng(numbers + 10 * categories)
    n, levels = 150, 5
    d = numbers + levels * categories + 1
    whole, entries = np.zeros((n, d)), []
    for i in range(n):
        own = numbers + levels * np.arange(categories) + rng.integers(0, levels, categories)
        ids = np.r_[np.arange(numbers), own].astype(int)[: -1 if i % 10 == 9 and i > 64 else None]
        values = rng.normal(size=len(ids)).astype(np.float32).astype(float)
        whole[i, ids] = values
        entries.append((ids, values))
    y, weight = (rng.random(n) < 0.4).astype(float), rng.integers(0, 3, n).astype(float)
    w, scale = rng.normal(size=d + 1), rng.uniform(0.5, 2, d)
    rows = rows_pass(block(entries, y, kind, 1000, d, weight), "logistic")
    sums = rows.curvature(w[None], np.zeros((1, d)), scale[None], precise=True)[0]
    np.testing.assert_allclose(sums, in_dense(whole, y, weight, w, scale), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["dense float64", *KINDS])
@pytest.mark.parametrize("stride", [2, 7])
def test_a_sample_is_of_the_same_rows_in_all_passes(kind, stride):
    """Otherwise a line search would compare objectives of different rows."""
    rng = np.random.default_rng(4)
    n, d = 40_000, 40
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.1)
    groups = block(x, (rng.random(n) < 0.5).astype(float), kind, 5000, d)
    rows = replace(rows_pass(groups, "logistic"), stride=stride)
    w = rng.normal(size=(1, d + 1))
    alone = rows.gradient(w)
    bent = rows.curvature(w, np.zeros((1, d)), np.ones((1, d)), precise=True)
    losses = replace(rows, loss_only=True).gradient(w)
    np.testing.assert_allclose(bent[:, : d + 3], alone, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(losses, alone[:, :2], rtol=1e-12)
    assert 0 < alone[0, 1] < 1.5 * n / stride


@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_nothing(kind):
    """Rows of a category each, of enough chunks for several threads."""
    rng = np.random.default_rng(3)
    n, d = 40_000, 60
    entries = [(np.array([i % 2, 2 + i % 58]), np.array([1.0, 0.5])) for i in range(n)]
    groups = block(entries, (rng.random(n) < 0.5).astype(float), kind, 5000, d)
    w = rng.normal(size=(1, d + 1))
    found = [
        rows_pass(groups, "logistic", threads=threads).curvature(
            w, np.zeros((1, d)), np.ones((1, d)), precise=True
        )
        for threads in (1, 3)
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", ["dense float32", "dense float64", *KINDS])
def test_weights_of_zero(kind):
    """Where all margins are the intercept: the same sums as by tiny weights."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(300, 9)) * (rng.random((300, 9)) < 0.5)
    rows = rows_pass(block(x, rng.poisson(1.0, 300).astype(float), kind), "poisson")
    at = np.zeros((1, 10))
    at[0, -1] = 0.3
    near = at.copy()
    near[0, 0] = 1e-300
    np.testing.assert_array_equal(rows.gradient(at), rows.gradient(near))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    filled=st.integers(0, 3),
    kind=st.sampled_from(KINDS),
    twice=st.booleans(),
    segment_rows=st.sampled_from([1, 7, 1000]),
)
def test_far_means(seed, filled, kind, twice, segment_rows):
    """They are of the features that occur once in every row, or in most, and vary by little."""
    rng, d, n = np.random.default_rng(seed), 9, 40
    far = rng.choice([0.0, 5.0, 1e3, -1e6], d)
    entries, whole = [], np.zeros((n, d))
    for i in range(n):
        ids = np.append(rng.permutation(np.arange(filled, d))[: rng.integers(0, 4)], range(filled))
        ids = rng.permutation(np.append(ids, [0] * (twice and i == n // 2))).astype(int)
        values = (far[ids] + rng.normal(size=len(ids)).round(3)).astype(np.float32).astype(float)
        np.add.at(whole[i], ids, values)
        entries.append((ids, values))
    rows = rows_pass(block(entries, np.zeros(n), kind, segment_rows, d), "squared")
    wanted = np.zeros(d + 1)
    for j in range(twice, filled):
        mean, deviation = whole[:, j].mean(), whole[:, j].std()
        wanted[j] = mean if abs(mean) > 10 * deviation else 0.0
    found, deviation = rows.far_means(10.0)
    assert found[0] == pytest.approx(wanted, rel=1e-9)
    count, _ = rows.feature_counts()
    found, deviation = rows.far_means(10.0, count / n)
    for j in range(d):
        there = whole[whole[:, j] != 0, j]
        usual = 2 * len(there) > n and not (twice and j == 0)
        far_away = usual and abs(there.mean()) > 10 * there.std()
        assert found[0, j] == pytest.approx(there.mean() if far_away else 0.0, rel=1e-9)
        assert deviation[0, j] == pytest.approx(there.std() if far_away else 0.0, rel=1e-6)
