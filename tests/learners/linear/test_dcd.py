"""Dual coordinate descent: the optimum of scikit-learn's SVMs, and a gap that is one."""

import json

import numpy as np
import pytest
from fitting import fit, objective, put
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block, rows_pass, together
from sklearn.svm import SVC, LinearSVC

from tuskml.kernels.hinge import Dual

pytestmark = pytest.mark.native

N = 400
SPARSE = "sparse([0, 1, 2, 3, 4], x)"


def overlapping(n=N, seed=0, scale=1.0, shift=0.0):
    """Two classes that overlap, of five features."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    y = (x @ [1.0, -1.0, 0.5, 0.0, 0.0] + rng.logistic(size=n) > 0.3).astype(float)
    return x * scale + shift, y


def libsvm(x, y, l2, class_weight=None):
    """The least objective, with the intercept free: 1/2 ||w||^2 + C sum(hinge), C = 1 / (n l2)."""
    weight = None if class_weight is None else {0: class_weight[0], 1: class_weight[1]}
    made = SVC(kernel="linear", C=1 / (len(y) * l2), tol=1e-9, class_weight=weight).fit(x, y)
    made.coef = made.coef_[0]
    made.intercept = made.intercept_[0]
    return made, objective("svm", x, y, made, l2=l2, class_weight=class_weight)


@pytest.mark.parametrize("storage", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("features", ["x", SPARSE])
@pytest.mark.parametrize("class_weight", [None, [0.5, 2.0]])
@pytest.mark.parametrize("l2", [0.5, 0.01])
def test_optimum_with_a_free_intercept(con, storage, features, class_weight, l2):
    x, y = overlapping()
    x = x.astype(np.float32) if storage == "FLOAT" else x
    put(con, x, y, storage=storage)
    options = {"l2": l2} if class_weight is None else {"l2": l2, "class_weight": class_weight}
    model = fit(con, "svm", features=features, algorithm="dcd", epsilon=1e-9, **options)
    reference, best = libsvm(x.astype(float), y, l2, class_weight)
    assert (model.status, model.converged) == ("ok", True)
    assert model.loss == pytest.approx(objective("svm", x, y, model, **options), rel=1e-12)
    assert best * (1 - 1e-8) <= model.loss + 1e-8
    assert model.loss <= best + 1e-9 / 2 + 1e-12
    np.testing.assert_allclose(model.coef, reference.coef, atol=1e-3)


@pytest.mark.parametrize("features", ["x", SPARSE])
def test_optimum_without_intercept(con, features):
    x, y = overlapping(shift=0.5)
    put(con, x, y)
    model = fit(con, "svm", features=features, algorithm="dcd", epsilon=1e-8, l2=0.01,
                fit_intercept=False)  # fmt: skip
    reference = LinearSVC(
        loss="hinge", C=1 / (N * 0.01), fit_intercept=False, tol=1e-10, max_iter=100_000
    ).fit(x, y)
    assert (model.status, model.intercept) == ("ok", 0)
    np.testing.assert_allclose(model.coef, reference.coef_[0], atol=1e-4)


@pytest.mark.parametrize("epsilon", [0.1, 0.01, 1e-4])
def test_ends_within_half_of_epsilon(con, epsilon):
    """And takes more iterations the smaller it is."""
    x, y = overlapping()
    put(con, x, y)
    _, best = libsvm(x, y, 0.002)
    model = fit(con, "svm", algorithm="dcd", epsilon=epsilon, l2=0.002)
    assert model.converged
    assert best * (1 - 1e-7) <= model.loss <= best + epsilon / 2
    more = fit(con, "svm", algorithm="dcd", epsilon=epsilon / 100, l2=0.002)
    assert more.iterations > model.iterations


def test_units_do_not_move_the_intercept_s_optimum(con):
    """Features a thousand away from zero: as far from it as a penalised intercept would feel."""
    near, y = overlapping()
    put(con, near, y)
    here = fit(con, "svm", algorithm="dcd", epsilon=1e-9, l2=0.01)
    put(con, near + 1000.0, y)
    there = fit(con, "svm", algorithm="dcd", epsilon=1e-9, l2=0.01)
    np.testing.assert_allclose(there.coef, here.coef, atol=1e-4)
    assert there.loss == pytest.approx(here.loss, rel=1e-8)


def test_constant_features_and_rows_of_zeros(con):
    x, y = overlapping()
    x[:, 3], x[:40] = 7.0, 7.0
    put(con, x, y)
    model = fit(con, "svm", algorithm="dcd", epsilon=1e-7, l2=0.01)
    _, best = libsvm(x, y, 0.01)
    assert model.status == "constant feature"
    assert model.coef[3] == 0
    assert best * (1 - 1e-7) <= model.loss <= best + 1e-7  # libsvm ends a little above


def test_groups_train_as_each_alone(con):
    x, y = overlapping(1200)
    put(con, x, y, g=np.arange(1200) % 5)
    asked = json.dumps({"algorithm": "dcd", "l2": 0.01, "epsilon": 1e-6, "threads": 1})
    sql = f"SELECT g, train_model('svm', y, x, '{asked}') FROM t GROUP BY g ORDER BY g"
    for group, model in con.execute(sql).fetchall():
        alone = f"SELECT train_model('svm', y, x, '{asked}') FROM t WHERE g = {group}"
        other = con.execute(alone).fetchone()[0]
        assert model["coef"] == other["coef"]
        assert (model["status"], model["iterations"]) == ("ok", other["iterations"])


def test_seed_and_threads(con):
    """One thread gives the same bits; another seed another way to the same optimum."""
    x, y = overlapping()
    put(con, x, y)
    options = {"algorithm": "dcd", "l2": 0.01, "epsilon": 1e-6, "threads": 1}
    one, same, other = (fit(con, "svm", seed=seed, **options) for seed in (3, 3, 4))
    assert list(one.coef) == list(same.coef)
    assert list(one.coef) != list(other.coef)
    assert one.loss == pytest.approx(other.loss, abs=1e-6)


def test_history_and_early_stopping(con):
    """The best so far never rises; held-out rows can end it."""
    x, y = overlapping()
    put(con, x, y)
    model = fit(con, "svm", algorithm="dcd", l2=1e-4, epsilon=1e-6)
    assert all(np.diff(model.history) <= 0)
    stopped = fit(con, "svm", algorithm="dcd", l2=1e-4, epsilon=1e-9, validation=0.3)
    assert stopped.status in ("ok", "early stop")
    assert stopped.n_rows == N


def test_repeated_ids_of_sparse_rows_add_up(con):
    x, y = overlapping()
    put(con, x, y)
    halves = "sparse([0, 1, 2, 3, 4, 0, 1, 2, 3, 4], list_concat(x, x))"
    options = {"algorithm": "dcd", "l2": 0.04, "epsilon": 1e-8}
    twice = fit(con, "svm", features=halves, **options)
    put(con, 2 * x, y)
    once = fit(con, "svm", features=SPARSE, **options)
    assert twice.status == "ok"
    np.testing.assert_allclose(twice.coef, once.coef, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 60),
    st.integers(1, 9),
    st.floats(1e-4, 10.0),
    st.integers(0, 2**31),
    st.booleans(),
    st.sampled_from([None, (0.3, 2.5)]),
)
def test_bound_is_below_every_objective(n, d, l2, seed, wide, class_weight):
    """Weak duality, at any moment: no weights have an objective below the bound."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), (rng.random(n) < 0.4).astype(float)
    kind = "sparse float64" if wide else "dense float64"
    rows = rows_pass(block(x, y, kind, segment_rows=25), "svm", class_weight)
    cost = np.ones(n) if class_weight is None else np.where(y == 1, *class_weight[::-1])
    sign = np.where(y == 1, 1.0, -1.0)
    shift = np.zeros((1, d)) if wide else x.mean(axis=0)[None, :]
    dual = Dual.of_rows(rows, shift, l2, 0.0, seed, np.zeros(1))
    v = np.zeros((1, d + 1))
    for _ in range(4):
        dual.epoch(rows, v)
        dual.check(rows, v)
        state = dual.groups[0]
        w, b = v[0, :d], state["intercept"]
        margins = (x - shift) @ w + b
        hinge = (cost * np.maximum(0, 1 - sign * margins)).mean() + l2 / 2 * w @ w
        assert state["objective"] == pytest.approx(hinge, rel=1e-10, abs=1e-12)
        assert state["bound"] <= state["objective"] * (1 + 1e-12) + 1e-12
        assert (dual.alpha >= 0).all()
        assert (dual.alpha <= cost + 1e-15).all()
        near = b + rng.normal(size=50) * 0.3
        others = [(cost * np.maximum(0, 1 - sign * (margins - b + c))).mean() for c in near]
        assert min(others) + l2 / 2 * w @ w >= hinge - 1e-10  # no intercept is better


@pytest.mark.parametrize("class_weight", [None, (0.3, 2.5)])
@pytest.mark.parametrize("order", ["mixed", "sorted", "equal"])
def test_best_intercept_of_many_rows(class_weight, order):
    """Bracketed by a sample, of rows in any order: no place where a loss bends does better."""
    rng = np.random.default_rng(11)
    n = 9000
    x = rng.normal(size=(n, 2))
    y = (x[:, 0] + rng.logistic(size=n) > 0.5).astype(float)
    if order == "sorted":
        at = np.argsort(x[:, 0] + 3 * y)
        x, y = x[at], y[at]
    if order == "equal":
        x = np.sign(x)
    rows = rows_pass(block(x, y), "svm", class_weight)
    dual = Dual.of_rows(rows, np.zeros((1, 2)), 0.01, 0.0, 0, np.zeros(1))
    v = np.zeros((1, 3))
    dual.epoch(rows, v)
    dual.check(rows, v)
    cost = np.ones(n) if class_weight is None else np.where(y == 1, *class_weight[::-1])
    sign, margins = np.where(y == 1, 1.0, -1.0), x @ v[0, :2]

    def loss(b):
        return (cost * np.maximum(0, 1 - sign * (margins + b))).mean()

    bends = np.unique(sign - margins)
    least = min(loss(b) for b in bends[:: max(1, len(bends) // 300)])
    found = loss(dual.groups["intercept"][0])
    assert found <= least + 1e-12
    assert found <= min(loss(dual.groups["intercept"][0] + d) for d in (-1e-3, 1e-3)) + 1e-12


def test_some_of_the_groups_move_alone():
    x, y = overlapping(90)
    blocks = [block(x[:30], y[:30]), block(x[30:], y[30:])]
    rows, shift = rows_pass(together(blocks), "svm"), np.zeros((2, 5))
    dual = Dual.of_rows(rows, shift, 0.1, 0.0, 0, np.zeros(2))
    second = np.array([1])
    v, some = np.zeros((1, 6)), dual.of(second)
    some.epoch(rows.of(second), v)
    assert (dual.alpha[:30] == 0).all()
    assert dual.alpha[30:].any()
    expected = (dual.alpha[30:] * np.where(y[30:] == 1, 1, -1)) @ x[30:] / (0.1 * 60)
    np.testing.assert_allclose(v[0, :5], expected, rtol=1e-12)


def looks(monkeypatch):
    """Counts looks at the gap."""
    count, inner = [0], Dual.check

    def counted(self, *args):
        count[0] += 1
        return inner(self, *args)

    monkeypatch.setattr(Dual, "check", counted)
    return count


def test_gap_is_looked_at_where_it_may_be_small(con, monkeypatch):
    """Fewer looks than epochs, and what is promised of the end holds all the same."""
    x, y = overlapping(3000)
    put(con, x, y)
    count = looks(monkeypatch)
    options = {"l2": 1e-4, "algorithm": "dcd"}
    model = fit(con, "svm", epsilon=1e-6, **options)
    assert model.converged
    assert model.iterations > 10
    assert count[0] < 0.7 * model.iterations
    _, best = libsvm(x, y, 1e-4)
    assert model.loss <= best + 1e-6 / 2 + 1e-9


@pytest.mark.parametrize("max_iter", [1, 3, 7])
def test_the_last_iteration_is_looked_at(con, max_iter):
    """Where it ends by their number, there is a model all the same, and its loss is its own."""
    x, y = overlapping(3000)
    put(con, x, y)
    options = {"l2": 1e-4, "algorithm": "dcd", "epsilon": 1e-9}
    model = fit(con, "svm", max_iter=max_iter, **options)
    assert model.loss == pytest.approx(objective("svm", x, y, model, l2=1e-4), rel=1e-9)
    assert model.loss < 0.99  # of no weights: 1
