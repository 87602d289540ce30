"""Stored models are the optimum of their objective, and what they say of themselves is true."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re

import duckdb
import numpy as np
import pytest
from fitting import objective
from fitting import put as put_dense
from sklearn.linear_model import ElasticNet, LogisticRegression
from stored_fits import put, rows_of, train, with_weights

import tuskml
from tuskml.kvstore import StoreRoot

pytestmark = pytest.mark.native

D = 150
PENALTIES = {
    "none": {},
    "l2": {"l2": 0.01},
    "l1": {"l1": 0.005},
    "both": {"l1": 0.002, "l2": 0.02},
    "weighted": {"l2": 0.01, "class_weight": [1, 3]},
    "balanced": {"l2": 0.01, "class_weight": "balanced"},
}
CASES = [
    (task, penalty)
    for task in ("linear", "logistic", "svm")
    for penalty in PENALTIES
    if task != "linear" or "class_weight" not in PENALTIES[penalty]
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def con(root):
    """Tables of rows for each task; one root, whose costs are measured once."""
    with tuskml.connect(store_root=root, threads=2) as connection:
        for task in ("linear", "logistic", "svm"):
            put(connection, *rows_of(task), task)
            put_dense(connection, *rows_of(task), f"{task}_dense")
        yield connection


@pytest.fixture(scope="module")
def optimum(con):
    """The least objective: scikit-learn's, or where it has none the engine's in memory."""
    known = {}

    def of(task, penalty):
        if (task, penalty) not in known:
            known[task, penalty] = least(con, task, PENALTIES[penalty])
        return known[task, penalty]

    return of


def least(con, task, options):
    x, y = rows_of(task)
    l1, l2 = options.get("l1", 0.0), options.get("l2", 0.0)
    weight = options.get("class_weight")
    if task == "svm":
        given = json.dumps(options | {"max_iter": 500})  # with l1 2e-5 above the least
        query = f"SELECT train_model('svm', y, x, '{given}') FROM svm_dense"
        return con.execute(query).fetchone()[0]["loss"]
    if task == "linear":
        strength = max(l1 + l2, 1e-12)
        found = ElasticNet(alpha=strength, l1_ratio=l1 / strength, tol=1e-10, max_iter=10**6)
    else:
        total = max(l1 + l2, 1e-9)
        found = LogisticRegression(
            C=1 / (total * len(y)), l1_ratio=l1 / total, solver="saga" if l1 else "lbfgs",
            class_weight=weight if weight in (None, "balanced") else dict(enumerate(weight)),
            tol=1e-7, max_iter=10_000,
        )  # fmt: skip
    found.fit(x, y)
    found.coef = np.ravel(found.coef_)
    found.intercept = np.ravel(found.intercept_)[0]
    return objective(task, x, y, found, l1, l2, weight)


def slow(task: str, penalty: str) -> bool:
    """Whether steps come to the optimum only after thousands of epochs."""
    return task == "svm" or penalty == "none"


RUNS = [
    (task, penalty, partition, threads)
    for task, penalty in CASES
    for partition, threads in ((0, 1), (0, 4), (40, 1), (40, 4))
    if not slow(task, penalty) or (partition == 0) == (threads == 4)
]
"""All pairs of a case with a partition and with threads, and of most cases with both."""


@pytest.mark.sample(3)
@pytest.mark.parametrize(("task", "penalty", "partition", "threads"), RUNS)
def test_the_optimum(con, root, optimum, task, penalty, partition, threads) -> None:
    options = PENALTIES[penalty]
    epochs = 2000 if slow(task, penalty) else 300
    model = train(
        con,
        task,
        task,
        partition=partition,
        threads=threads,
        max_iter=epochs,
        epsilon=0,
        **options,
    )
    x, y = rows_of(task)
    least = optimum(task, penalty)
    noise = 0.02 if task == "svm" and threads > 1 else 0.01  # of a kink that workers meet at
    assert model.loss == pytest.approx(least, rel=noise)
    told = objective(task, x, y, with_weights(root, model, D), **options)
    assert model.loss == pytest.approx(told, rel=1e-5), "of the weights that were sealed"
    assert ("KV-VP: 40 features" if partition else "KV: features in a key each") in model.plan


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("partition", [0, 40])
def test_predictions_are_those_of_the_sealed_weights(con, root, task, partition) -> None:
    text = json.dumps({"store": task, "partition": partition, "max_iter": 5, "l2": 0.01})
    con.execute(
        f"CREATE OR REPLACE TABLE m AS SELECT train_model('{task}', y, sparse(ids, vals), '{text}') m FROM {task}"
    )
    names = ["decision", "predict"] + ["predict_proba"] * (task == "logistic")
    calls = ", ".join(f"{name}(m, sparse(ids, vals))" for name in names)
    found = np.array(con.execute(f"SELECT {calls} FROM {task}, m ORDER BY i").fetchall()).T
    value = con.execute("SELECT m FROM m").fetchone()[0]
    with StoreRoot(root).open(value["store"]) as sealed:
        w = sealed.weights(np.arange(D)).astype(float)
        assert sealed.metadata["intercept"] == value["intercept"]
        assert sealed.metadata["loss"] == value["loss"]
    margins = rows_of(task)[0] @ w + value["intercept"]
    expected = [margins, margins if task == "linear" else (margins > 0) * 1.0]
    if task == "logistic":
        expected.append(1 / (1 + np.exp(-margins)))
    assert found == pytest.approx(np.array(expected), rel=1e-9, abs=1e-9)


def test_the_model_value(con) -> None:
    model = train(con, "logistic", "logistic", store="value", max_iter=250, epsilon=0)
    assert model.coef.item() is None
    assert model.std_err is None
    assert model.store.startswith("value@1:")
    assert (model.n_rows, model.n_skipped, model.n_features) == (1200, 0, D)
    assert (model.classes, model.iterations) == ([0, 1], 250)
    assert (model.status, model.converged, len(model.history)) == ("ok", False, 200)
    after_two_epochs = model.history[
        1
    ]  # the first step may be long: it overshoots, then comes back
    assert model.history[-1] < after_two_epochs < np.log(2)
    options = model.options
    assert (options["store"], options["method"]) == (model.store, "routes")
    assert (options["algorithm"], options["converge"], options["epsilon"]) == (
        "hogbatch",
        "loss",
        0,
    )
    assert options["step"] > 0
    assert options["cache"] == 256 << 20
    early = train(con, "logistic", "logistic", store="value")
    assert early.options["epsilon"] == 1e-4
    assert early.store.startswith("value@2:")
    assert early.converged == (early.status == "ok")


@pytest.mark.parametrize("algorithm", ["sgd", "mgd", "hogwild", "hogbatch"])
def test_algorithms(con, optimum, algorithm) -> None:
    model = train(
        con, "logistic", "logistic", algorithm=algorithm, l2=0.01, max_iter=300, epsilon=0
    )
    assert model.loss == pytest.approx(optimum("logistic", "l2"), rel=0.01)
    assert model.plan.startswith(algorithm)


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_without_an_intercept(con, root, task) -> None:
    x, y = rows_of(task)
    model = train(con, task, task, fit_intercept=False, l2=0.01, max_iter=300, epsilon=0)
    assert model.intercept == 0
    told = objective(task, x, y, with_weights(root, model, D), l2=0.01)
    dense = con.execute(
        f"""SELECT train_model('{task}', y, x, '{{"fit_intercept": false, "l2": 0.01}}') FROM {task}_dense"""
    ).fetchone()[0]
    assert told == pytest.approx(model.loss, rel=1e-5)
    assert told == pytest.approx(dense["loss"], rel=0.01)


def test_explanations_are_of_the_stored_training(con):
    """Not of one in memory; what a training refuses, an explanation does too."""
    query = "SELECT explain_training('logistic', y, sparse(ids, vals), $1) FROM logistic"
    options = json.dumps({"store": "explained", "l2": 0.01})
    text = con.execute(query, [options]).fetchall()[0][0]
    assert "  plan      hogbatch" in text
    assert re.search(
        r"because   option 'store' is given; about [\d,]+ requests to the store", text
    )
    wrong = json.dumps({"store": "explained", "converge": "gradient"})
    with pytest.raises(duckdb.Error, match="expected 'loss' with option 'store'"):
        con.execute(query, [wrong])


def test_labels_in_small_units_take_the_same_epochs(con, root):
    """The loss settles relative to what it was at first, not to a number without a unit."""
    x, y = rows_of("linear")
    found, coefs = [], []
    units = (1.0, 2.0**-30, 2.0**30)
    for place, unit in enumerate(units):
        put(con, x, unit * y, f"units{place}")
    for place, unit in enumerate(units):
        options = {"epsilon": 1e-4, "max_iter": 60, "step": 0.05, "threads": 1}
        model = train(con, "linear", f"units{place}", store="units", **options)
        found.append((model.iterations, model.status, model.loss / unit**2))
        coefs.append(with_weights(root, model, D).coef / unit)
        np.testing.assert_allclose(coefs[-1], coefs[0], atol=0.05)  # rows are in another order
    for iterations, status, loss in found[1:]:
        assert status == found[0][1]
        assert abs(iterations - found[0][0]) <= found[0][0] / 2
        assert loss == pytest.approx(found[0][2], rel=0.02)
    assert found[0][0] > 5
