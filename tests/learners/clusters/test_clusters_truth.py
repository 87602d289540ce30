"""Centres against scikit-learn and all partitions of tiny groups, and properties of them."""

import json
from itertools import product
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine, make_blobs

import tuskml
from tuskml.learners.clusters.learner import centres_in
from tuskml.model.model import Model

Numbers = np.ndarray[Any, np.dtype[np.float64]]
STORAGES = ("dense", "float", "sparse", "named")


@pytest.fixture(scope="module")
def base() -> Any:
    with tuskml.connect(threads=2) as con:
        yield con


def features_of(d: int, storage: str) -> str:
    names = [f"x{j}" for j in range(d)]
    if storage == "named":
        return "{" + ", ".join(f"'{name}': {name}" for name in names) + "}"
    if storage == "sparse":  # with zeros left out, and ids in another order
        ids = ", ".join(str(j) for j in reversed(range(d)))
        return f"sparse([{ids}], [{', '.join(reversed(names))}])"
    kind = "::FLOAT" if storage == "float" else "::DOUBLE"
    return "[" + ", ".join(name + kind for name in names) + "]"


def fitted(
    con: duckdb.DuckDBPyConnection,
    x: Numbers,
    weight: Numbers | None = None,
    storage: str = "dense",
    **options: Any,
) -> Model:
    """The model of rows x (n, d)."""
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])])
    frame["weight"] = 1.0 if weight is None else weight
    con.register("given", frame)
    more = "" if weight is None else ", weight"
    features = features_of(x.shape[1], storage)
    sql = f"SELECT train_model('kmeans', NULL, {features}, ?{more}) FROM given"
    ((value,),) = con.execute(sql, [json.dumps(options)]).fetchall()
    return Model.of(value)


def centres(model: Model) -> tuple[Numbers, Numbers]:
    """The weights of the centres' rows (k,), and the centres (k, d)."""
    _, table = centres_in(np.asarray(model.coef))
    return table[:, 0], table[:, 1:]


def squares(x: Numbers, centre: Numbers) -> Numbers:
    """Squared distances (n, k)."""
    return np.square(x[:, None] - centre).sum(axis=2)


def is_fixed(x: Numbers, weight: Numbers, model: Model) -> bool:
    """Whether centres are the means of the rows that are nearest, and all numbers fit them."""
    sizes, centre = centres(model)
    found = squares(x, centre)
    near = found.argmin(axis=1)
    scale = 1e-9 * (1 + np.abs(x).max())
    for k in range(len(centre)):
        mine = near == k
        assert abs(weight[mine].sum() - sizes[k]) <= 1e-9 * weight.sum()
        assert np.allclose(
            np.average(x[mine], axis=0, weights=weight[mine]), centre[k], atol=scale
        )
    assert model.loss == pytest.approx(np.average(found.min(axis=1), weights=weight), rel=1e-9)
    assert (np.diff(sizes) <= 0).all()
    return model.status == "ok"


SETS = {
    "iris": load_iris().data,
    "wine": load_wine().data,
    "blobs": make_blobs(400, n_features=5, centers=6, random_state=1)[0],
    "noise": np.random.default_rng(3).normal(size=(300, 3)),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("clusters", [1, 2, 3, 5, 8])
def test_no_higher_loss_than_scikit_learn(base: Any, name: str, clusters: int) -> None:
    x = SETS[name]
    theirs = KMeans(clusters, n_init=10, tol=0, random_state=0).fit(x)
    model = fitted(base, x, clusters=clusters, starts=40)
    assert model.loss * len(x) <= theirs.inertia_ * (1 + 1e-9)
    assert is_fixed(x, np.ones(len(x)), model)
    again = KMeans(clusters, init=centres(model)[1], n_init=1, tol=0).fit(x)
    assert again.inertia_ == pytest.approx(model.loss * len(x), rel=1e-9)
    assert (model.predict(x) == 1 + squares(x, centres(model)[1]).argmin(axis=1)).all()


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_standardized_features(base: Any, name: str) -> None:
    """The same as of features that are standardized before, with centres in their own units."""
    x = SETS[name]
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    model = fitted(base, x, clusters=3, standardize=True)
    before = fitted(base, (x - mean) / deviation, clusters=3)
    assert model.loss == pytest.approx(before.loss, rel=1e-9)
    assert np.allclose(centres(model)[1], centres(before)[1] * deviation + mean)
    assert (model.predict(x) == before.predict((x - mean) / deviation)).all()
    assert np.mean(model.decision(x)) == pytest.approx(model.loss, rel=1e-9)
    same = fitted(base, np.column_stack([x, np.full(len(x), 7.1)]), clusters=3, standardize=True)
    assert same.loss == pytest.approx(model.loss, rel=1e-9)


def optimum(x: Numbers, weight: Numbers, k: int) -> float:
    """The least loss over all ways to deal rows to k clusters."""
    best = np.inf
    for parts in product(range(k), repeat=len(x)):
        near, loss = np.array(parts), 0.0
        for one in set(parts):
            mine = near == one
            mean = np.average(x[mine], axis=0, weights=weight[mine])
            loss += weight[mine] @ np.square(x[mine] - mean).sum(axis=1)
        best = min(best, loss)
    return best / weight.sum()


def test_the_optimum_of_tiny_groups(base: Any) -> None:
    """Never below all partitions, and equal to the best of them but in rare cases."""
    draws, equal = np.random.default_rng(5), 0
    for number in range(20):
        n, k, d = int(draws.integers(4, 8)), int(draws.integers(2, 4)), int(draws.integers(1, 3))
        x, weight = draws.normal(size=(n, d)), draws.integers(1, 4, n).astype(float)
        model = fitted(base, x, weight, clusters=k, starts=50, seed=number)
        best = optimum(x, weight, k)
        assert model.loss >= best - 1e-12
        assert is_fixed(x, weight, model)
        equal += model.loss <= best + 1e-12
    assert equal >= 19


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 5), d=st.integers(1, 12), n=st.integers(1, 60))
def test_all_storages_orders_and_threads_agree(
    base: Any, seed: int, k: int, d: int, n: int
) -> None:
    draws = np.random.default_rng(seed)
    x = draws.integers(-4, 5, (n, d)).astype(float)
    one = fitted(base, x, clusters=k)
    for storage in STORAGES[1:]:
        other = fitted(base, x, storage=storage, clusters=k)
        assert (other.coef, other.loss, other.status) == (one.coef, one.loss, one.status)
    for same in (x[::-1], x[draws.permutation(n)]):
        other = fitted(base, same, clusters=k, threads=1)
        assert (other.coef, other.history) == (one.coef, one.history)
    times = draws.integers(1, 4, n)
    repeated = fitted(base, np.repeat(x, times, axis=0), clusters=k)
    weighted = fitted(base, x, times.astype(float), clusters=k)
    assert (weighted.coef, weighted.loss) == (repeated.coef, repeated.loss)
    distinct = len(np.unique(x, axis=0))
    assert (one.status == "fewer centres") == (distinct < k)
    if distinct <= k:
        assert one.loss == 0
        assert sorted(map(tuple, centres(one)[1])) == sorted(map(tuple, np.unique(x, axis=0)))
    else:
        assert is_fixed(x, np.ones(n), one)


BLOBS = make_blobs(600, n_features=3, centers=5, cluster_std=0.5, random_state=4)[0]


MOVES = [(0.0, 1e-30), (0.0, 1e30), (1e9, 1.0), (-3.0, 7.0)]
MOVED = [(storage, *move) for storage in STORAGES for move in MOVES]


@pytest.mark.parametrize(
    ("storage", "shift", "scale"), [one for one in MOVED if one[:2] != ("float", 1e9)]
)
def test_shifted_and_scaled_features(base: Any, storage: str, shift: float, scale: float) -> None:
    """Far from 0 doubles keep their digits; floats have lost theirs before a training."""
    one = fitted(base, BLOBS, clusters=5)
    other = fitted(base, BLOBS * scale + shift, storage=storage, clusters=5)
    close = 1e-5 if storage == "float" or shift == 1e9 else 1e-9
    assert other.status == "ok"
    assert other.loss == pytest.approx(one.loss * scale**2, rel=close)
    expected = centres(one)[1] * scale + shift
    assert np.allclose(centres(other)[1], expected, rtol=close, atol=1e-9 * scale)


def sparse_rows(n: int, d: int, seed: int) -> tuple[list[list[int]], list[list[float]], Numbers]:
    """Ids and values of wide rows, in all of which feature 0 is far from 0; and all numbers."""
    draws = np.random.default_rng(seed)
    x = np.zeros((n, d))
    for i in range(n):
        x[i, draws.choice(np.arange(1, d), 4, replace=False)] = draws.normal(size=4)
        x[i, 1 + i % 3] += 20
    x[:, 0] = 1e6 + draws.normal(size=n)
    x[0, d - 1] = 1.0  # the last feature occurs
    ids = [np.flatnonzero(row).tolist() for row in x]
    return ids, [row[found].tolist() for row, found in zip(x, ids, strict=True)], x


@pytest.mark.parametrize("standardize", [False, True])
def test_wide_sparse_rows_are_not_written_out(base: Any, standardize: bool) -> None:
    """Their centres are those of the same dense rows; so are predictions, of unsorted ids too."""
    ids, values, x = sparse_rows(90, 300, 2)
    dense = fitted(base, x, clusters=3, standardize=standardize)
    base.register("entries", pd.DataFrame({"ids": ids, "vals": values}))
    options = json.dumps({"clusters": 3, "standardize": standardize})
    call = f"train_model('kmeans', NULL, sparse(ids, vals), '{options}')"
    sql = f"SELECT {call} AS m FROM entries"
    ((value,),) = base.execute(sql).fetchall()
    model = Model.of(value)
    assert model.loss == pytest.approx(dense.loss, rel=1e-9)
    assert np.allclose(centres(model)[1], centres(dense)[1], rtol=1e-9, atol=1e-9)
    asked = f"""SELECT predict(m, sparse(list_reverse(ids), list_reverse(vals))),
        decision(m, sparse(ids || [999], vals || [2.0])) FROM ({sql}) AS f, entries"""
    found = np.array(base.execute(asked).fetchall())
    assert (found[:, 0] == dense.predict(x)).all()
    if not standardize:
        assert np.allclose(found[:, 1], dense.decision(x) + 4, rtol=1e-6)


def test_ids_that_do_not_occur_take_no_memory(base: Any) -> None:
    sql = """SELECT train_model('kmeans', NULL, sparse([0, 400000 + i % 2], [1.0, 5.0]),
        '{"clusters": 2}') AS m FROM range(20) AS t(i)"""
    ((value,),) = base.execute(sql).fetchall()
    model = Model.of(value)
    assert (model.loss, model.n_features, model.status) == (0.0, 400002, "ok")
    assert {tuple(np.flatnonzero(row)) for row in centres(model)[1]} == {(0, 400000), (0, 400001)}


@pytest.mark.nightly
def test_large_groups_train_by_batches(base: Any) -> None:
    x, _ = make_blobs(130_000, n_features=2, centers=6, cluster_std=2.0, random_state=2)
    lloyd = fitted(base, x, clusters=6, algorithm="lloyd", starts=2)
    model = fitted(base, x, clusters=6)
    assert model.plan.startswith("minibatch, mini-batches of 4096 rows, then Lloyd's iterations")
    assert (model.status, lloyd.status) == ("ok", "ok")
    assert model.loss == pytest.approx(lloyd.loss, rel=1e-4)
    assert fitted(base, x[::-1], clusters=6, threads=1).coef == model.coef


@pytest.mark.nightly
def test_limits_of_iterations_and_time(base: Any) -> None:
    x = np.random.default_rng(1).normal(size=(3000, 6))
    short = fitted(base, x, clusters=20, max_iter=2, starts=1)
    assert (short.status, short.iterations, short.converged) == ("not converged", 2, False)
    found = squares(x, centres(short)[1]).min(axis=1)
    assert short.loss == pytest.approx(found.mean(), rel=1e-9)
    loose = fitted(base, x, clusters=20, epsilon=0.01, starts=1)
    assert (loose.status, loose.converged) == ("ok", True)
    exact = fitted(base, x, clusters=20, starts=1)
    assert loose.iterations < exact.iterations
    assert (np.diff(exact.history) <= 0).all()
    wide = np.random.default_rng(1).normal(size=(20_000, 20))
    late = fitted(base, wide, clusters=50, time="0.001s")
    assert late.status == "time limit"
    assert late.loss == pytest.approx(squares(wide, centres(late)[1]).min(axis=1).mean(), rel=1e-9)


def test_numbers_that_have_no_squares(base: Any) -> None:
    for value in (1e200, 1e-200):
        model = fitted(base, np.array([[value], [2 * value], [5 * value]]), clusters=2)
        assert (model.status, model.coef) == ("out of range", None)
        assert np.isnan(model.predict(np.array([[1.0]]))).all()
    model = fitted(base, np.array([[1.0], [2.0], [9.0]]), clusters=2)
    assert np.isnan(model.predict(np.array([[1e200]]))).all()


def test_a_thousand_groups_are_each_trained_alone(base: Any) -> None:
    sql = """CREATE OR REPLACE TEMP TABLE many AS
        SELECT i % 1000 AS g, sin(i * 17) AS a, cos(i * i) AS b FROM range(20000) AS t(i)"""
    base.execute(sql)
    call = "train_model('kmeans', NULL, [a, b], '{\"clusters\": 3}')"
    together = dict(base.execute(f"SELECT g, ({call}).coef FROM many GROUP BY g").fetchall())
    for g in (0, 7, 999):
        ((alone,),) = base.execute(f"SELECT ({call}).coef FROM many WHERE g = {g}").fetchall()
        assert alone == together[g]
    assert len(together) == 1000


@pytest.mark.parametrize("unit", [1 / 3, 1e-9, 7.0])
def test_the_unit_of_weights_changes_no_bit(base: Any, unit: float) -> None:
    """Of few rows on a grid, of which many clusters weigh the same."""
    for seed in (13, 20, 24, 30, 31, 32):  # of these some had their centres in another order
        draws = np.random.default_rng(seed)
        x = np.round(draws.normal(size=(40, 3)) * 2) / 2
        weight = draws.integers(1, 5, size=40) / 4
        first, other = (fitted(base, x, w, seed=1) for w in (weight, unit * weight))
        (size, centre), (other_size, other_centre) = centres(first), centres(other)
        assert centre.tobytes() == other_centre.tobytes()
        np.testing.assert_allclose(other_size, unit * size, rtol=1e-14)
        assert other.loss == first.loss
