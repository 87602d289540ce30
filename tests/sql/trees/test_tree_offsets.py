"""The task `gbdt` with offsets of rows, in both databases."""

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
import statsmodels.api as sm

sys.path.append(str(Path(__file__).parents[1] / "inference"))

from databases import Client, client, here, there

import tuskml

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(23)
N = 600
X = RANDOM.integers(0, 20, (N, 2)) * 1.0
OFFSET = RANDOM.normal(size=N) * 0.7
MARGIN = np.sin(X[:, 0] / 4) + X[:, 1] / 20 + OFFSET
WEIGHT = RANDOM.integers(1, 9, N) / 4
PAID = RANDOM.gamma(2.0, np.exp(MARGIN) / 2)
LABELS = {
    "squared": MARGIN + RANDOM.normal(scale=0.3, size=N),
    "logistic": (MARGIN + RANDOM.logistic(size=N) > 0.5) * 1.0,
    "poisson": RANDOM.poisson(np.exp(MARGIN)) * 1.0,
    "gamma": PAID,
    "tweedie": PAID * (RANDOM.random(N) < 0.5),
    "quantile": MARGIN + RANDOM.normal(scale=0.3, size=N),
    "huber": MARGIN + RANDOM.standard_t(2, size=N),
}
LOG = sm.families.links.Log()
FAMILIES = {
    "squared": sm.families.Gaussian(),
    "logistic": sm.families.Binomial(),
    "poisson": sm.families.Poisson(),
    "gamma": sm.families.Gamma(LOG),
    "tweedie": sm.families.Tweedie(LOG, var_power=1.5),
}
HOW = {"trees": 3, "num_leaves": 7, "min_child_rows": 1, "min_child_hessian": 4.1, "threads": 1}
BOTH = {"w": WEIGHT, "o": OFFSET}


def grown(
    client: Client,
    y: Any,
    more: dict[str, Any],
    x: Any = X,
    storage: str = "dense",
    **options: Any,
) -> tuskml.Model:
    """The model of rows with weights, or with weights and offsets, which are `more`."""
    source, parameters = client.rows(x, y, **more)
    features = "ARRAY[c0, c1]" if storage == "dense" else "CAST(ARRAY[c0, c1] AS real[])"
    given = ", ".join([f"'{json.dumps(HOW | options)}'", *more])
    sql = f"SELECT train_model('gbdt', y, {features}, {given}) AS m FROM {source}"
    if client.mark != "?":
        sql = f"SELECT to_jsonb(m) FROM ({sql}) AS t"
    return tuskml.Model.of(client.connection.execute(sql, parameters).fetchall()[0][0])


def fitted(
    client: Client, name: str, more: dict[str, Any], storage: str = "dense"
) -> tuskml.Model:
    return grown(client, LABELS[name], more, storage=storage, objective=name)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_first_margin_is_that_of_a_glm(here: Client, name: str) -> None:
    model = fitted(here, name, BOTH)
    how = {"offset": OFFSET, "freq_weights": WEIGHT}
    truth = sm.GLM(LABELS[name], np.ones(N), FAMILIES[name], **how).fit(tol=1e-13)
    assert model.intercept == pytest.approx(truth.params[0], rel=1e-8, abs=1e-9)


PEERS = {
    "squared": "regression",
    "logistic": "binary",
    "poisson": "poisson",
    "gamma": "gamma",
    "tweedie": "tweedie",
}


@pytest.mark.parametrize("storage", ["dense", "float"])
@pytest.mark.parametrize("name", PEERS)
def test_the_trees_are_those_of_lightgbm(client: Client, name: str, storage: str) -> None:
    """Whose margins start at `init_score`."""
    lightgbm = pytest.importorskip("lightgbm")
    model = fitted(client, name, BOTH, storage)
    exact: dict[str, Any] = {"min_data_in_bin": 1, "feature_pre_filter": False, "verbose": -1}
    told = exact | {
        "objective": PEERS[name], "min_data_in_leaf": 0, "min_sum_hessian_in_leaf": 4.1,
        "num_leaves": 7, "num_threads": 1, "deterministic": True, "tweedie_variance_power": 1.5,
    }  # fmt: skip
    start = OFFSET + model.intercept
    rows = lightgbm.Dataset(X, LABELS[name], weight=WEIGHT, init_score=start, params=exact)
    trees = lightgbm.train(told, rows, 3).predict(X, raw_score=True)
    assert model.iterations == 3
    assert model.decision(X) - model.intercept == pytest.approx(trees, abs=1e-5)
    plain = fitted(client, name, {"w": WEIGHT}, storage)
    assert abs(plain.decision(X) - model.decision(X)).max() > 0.05


DRAWS: tuple[dict[str, Any], ...] = ({}, {"row_fraction": 0.6}, {"goss": True})


@pytest.mark.parametrize(
    ("name", "more"),
    [
        (name, more)
        for name in ("squared", "quantile", "huber")
        for more in DRAWS
        if "goss" not in more or name != "quantile"  # it is for means of gradients
    ],
)
def test_offsets_of_numbers_are_taken_off_the_labels(
    here: Client, name: str, more: dict[str, Any]
) -> None:
    """Labels less their offsets are exact. Rows are drawn alike if all have the same offset."""
    offset = np.full(N, 1.5) if more else np.round(OFFSET * 4) / 4
    y = np.round(LABELS[name] * 64) / 64
    how = {"objective": name, "learning_rate": 0.5, **more}
    model = grown(here, y, {"w": np.ones(N), "o": offset}, **how)
    plain = grown(here, y - offset, {"w": np.ones(N)}, **how)
    assert model.iterations == 3
    assert model.decision(X) == pytest.approx(plain.decision(X), abs=1e-6)
    assert model.loss == pytest.approx(plain.loss, rel=1e-6)


def test_the_order_of_rows_changes_no_bit(here: Client) -> None:
    """Rows that are equal but for their offsets are drawn alike too."""
    x, y = X[:200] // 10, np.zeros(200)
    offset = RANDOM.integers(-3, 4, 200) / 2
    how = {"objective": "poisson", "row_fraction": 0.5, "min_child_hessian": 0.5}
    order = RANDOM.permutation(200)
    y[::3] = 1
    one = grown(here, y, {"w": np.ones(200), "o": offset}, x, **how)
    more = {"w": np.ones(200), "o": offset[order]}
    other = grown(here, y[order], more, x[order], **how)
    assert one.iterations == 3
    assert (one.coef, one.intercept) == (other.coef, other.intercept)


RESPONSES = {"squared": lambda m: m, "poisson": np.exp, "gamma": np.exp, "tweedie": np.exp}


@pytest.mark.parametrize("name", [*RESPONSES, "logistic"])
def test_predictions_add_the_offset(client: Client, name: str) -> None:
    source, parameters = client.rows(X, LABELS[name], o=OFFSET)
    function = "predict_proba_with_offset" if name == "logistic" else "predict_with_offset"
    sql = (
        f"WITH r AS (SELECT * FROM {source}), t AS (SELECT train_model('gbdt', y, ARRAY[c0, c1], "
        f'\'{{"objective": "{name}", "trees": 5}}\', 1, o) AS m FROM r) '
        f"SELECT o, decision(m, ARRAY[c0, c1]), {function}(m, ARRAY[c0, c1], o) FROM r, t"
    )
    found = np.array(client.connection.execute(sql, parameters).fetchall(), float)
    respond = RESPONSES.get(name, lambda m: 1 / (1 + np.exp(-m)))
    assert found[:, 2] == pytest.approx(respond(found[:, 0] + found[:, 1]), rel=1e-12)


def test_held_out_rows_have_offsets(here: Client) -> None:
    """Labels that are their offsets, but for noise: no tree is worth its place."""
    far = 50 * OFFSET
    y = far + RANDOM.normal(size=N)
    model = grown(here, y, {"w": np.ones(N), "o": far}, validation=0.3, trees=60)
    assert model.loss < 0.6
    assert model.iterations < 60
    assert abs(model.decision(X)).max() < 1.5


REFUSED = [
    ("random_forest", "y", "{}", "offset is not available with task 'random_forest'"),
    (
        "gbdt",
        "CASE WHEN c0 > 12 THEN 2 WHEN c0 > 6 THEN 1 ELSE 0 END",
        '{"objective": "logistic"}',
        "with more than two classes",
    ),
]


@pytest.mark.parametrize(("task", "label", "options", "sentence"), REFUSED)
def test_where_there_are_no_offsets(
    client: Client, task: str, label: str, options: str, sentence: str
) -> None:
    source, parameters = client.rows(X, LABELS["squared"], o=OFFSET)
    sql = f"SELECT train_model('{task}', {label}, ARRAY[c0, c1], '{options}', 1, o) FROM {source}"
    with pytest.raises((duckdb.Error, psycopg.Error), match=sentence):
        client.connection.execute(sql, parameters).fetchall()
