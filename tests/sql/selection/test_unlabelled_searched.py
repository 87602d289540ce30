"""Searches over options of clusters, by silhouettes, and of implicit feedback, by ranks of items."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from sklearn.metrics import ndcg_score

from tuskml.learners.factorization.ranked import mean_gain

sys.path.append(str(Path(__file__).parents[1] / "inference"))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

POINTS = """SELECT i, i % 2 AS f, CAST(i % 5 * 10 + sin(i * i) AS double precision) AS a,
    CAST(i % 5 % 3 * 20 + cos(7 * i) AS double precision) AS b FROM generate_series(1, 200) AS s(i)"""
CHOICES = """SELECT u, v, 1 + (u + v) % 3 AS times FROM generate_series(0, 59) AS s(u), generate_series(0, 39) AS t(v)
    WHERE u % 4 = v % 4 AND (u * 31 + v * 17) % 7 < 4"""
FEATURES = {"list": "ARRAY[a, b]", "sparse": "sparse(ARRAY[1, 0], ARRAY[b, a])"}


def search(client: Client, call: str, rows: str) -> tuple[str, dict[str, Any], dict[str, float]]:
    """The status, the options and the metric by configuration of a search."""
    connection = client.connection
    connection.execute("DROP TABLE IF EXISTS kept")
    connection.execute(f"CREATE TABLE kept AS SELECT {call} AS m FROM ({rows}) AS rows")
    ((status, options),) = connection.execute(
        "SELECT (m).status, (m).options FROM kept"
    ).fetchall()
    query = (
        "SELECT configuration, metric FROM model_trials((SELECT m FROM kept)) WHERE fold IS NULL"
    )
    return status, json.loads(options), dict(connection.execute(query).fetchall())


def silhouette(coef: list[float], rows: np.ndarray) -> float:
    """The mean of 1 - a / b with the distances to the nearest centre and the second one."""
    centres = np.reshape(coef[3:], (int(coef[1]), -1))[:, 1:]
    nearest = np.sort(np.linalg.norm(rows[:, None] - centres, axis=2), axis=1)
    return float(np.mean(1 - nearest[:, 0] / nearest[:, 1]))


@pytest.mark.parametrize("kind", FEATURES)
def test_it_finds_the_planted_clusters(client: Client, kind: str) -> None:
    options = json.dumps({"clusters": [1, 2, 5, 9], "folds": 3})
    call = f"train_model('kmeans', NULL, {FEATURES[kind]}, '{options}')"
    status, chosen, metrics = search(client, call, POINTS)
    assert (status, chosen["clusters"]) == ("ok", 5)
    by_clusters = {json.loads(one)["clusters"]: metric for one, metric in metrics.items()}
    assert by_clusters[1] is None  # it has no second centre
    assert 0.85 < by_clusters[5] < 1


def test_silhouettes_are_of_rows_held_out(client: Client) -> None:
    connection = client.connection
    connection.execute("DROP TABLE IF EXISTS points")
    connection.execute(f"CREATE TABLE points AS {POINTS}")
    options = '{"clusters": [4], "folds": 2, "fold_by": "f"}'
    connection.execute("DROP TABLE IF EXISTS kept")
    connection.execute(
        f"CREATE TABLE kept AS SELECT train_model('kmeans', NULL, x, '{options}') AS m FROM points, LATERAL (SELECT a, b, f) AS x"
    )
    query = "SELECT metric FROM model_trials((SELECT m FROM kept)) WHERE fold IS NOT NULL"
    found = sorted(metric for (metric,) in connection.execute(query).fetchall())
    expected = []
    for held in (0, 1):
        ((coef,),) = connection.execute(
            f"""SELECT (m).coef FROM (SELECT train_model('kmeans', NULL, ARRAY[a, b], '{{"clusters": 4}}') AS m FROM points WHERE f <> {held}) AS s"""
        ).fetchall()
        rows = connection.execute(f"SELECT a, b FROM points WHERE f = {held}").fetchall()
        expected.append(silhouette(coef, np.array(rows)))
    assert found == pytest.approx(sorted(expected), rel=1e-9)


@pytest.mark.parametrize("loss", ["squared", "bpr"])
def test_implicit_feedback_by_ranks(client: Client, loss: str) -> None:
    """Users choose items of one of four kinds: one factor cannot tell them apart."""
    options = json.dumps({"feedback": "implicit", "rank": [1, 4], "loss": loss, "folds": 4})
    call = f"train_model('matrix_factorization', times, ARRAY[u, v], '{options}')"
    status, chosen, metrics = search(client, call, CHOICES)
    assert (status, chosen["rank"]) == ("ok", 4)
    by_rank = {json.loads(one)["rank"]: metric for one, metric in metrics.items()}
    assert 0 < by_rank[1] < by_rank[4] <= 1


def test_both_databases_have_the_same_ranks(here: Client, there: Client) -> None:
    options = '{"feedback": "implicit", "rank": [2, 3], "alpha": [1, 40], "folds": 3}'
    call = f"train_model('matrix_factorization', times, ARRAY[u, v], '{options}')"
    found = [sorted(search(one, call, CHOICES)[2].values()) for one in (here, there)]
    assert found[0] == found[1]


@pytest.mark.parametrize("biases", [False, True])
def test_gains_are_those_of_scikit_learn(biases: bool) -> None:
    """Of users who have training rows, over the items that are not in these."""
    random = np.random.default_rng(5)
    users, items = random.normal(size=(30, 4)), random.normal(size=(25, 4))
    users[:, 0] *= not biases
    users[3], held_of_no_one = 0, 7
    train, held = random.random((30, 25)) < 0.3, random.random((30, 25)) < 0.2
    held[held_of_no_one] = False
    scores = users @ items.T + biases * items[:, 0]
    expected = []
    for u in range(30):
        left = ~train[u]
        if users[u].any() and train[u].any() and (held[u] & left).any():
            expected.append(ndcg_score([held[u, left]], [scores[u, left]], k=10))
    pairs = [np.argwhere(one).astype(np.int64) for one in (train, held)]
    found = mean_gain(users, items, *pairs, biases)
    assert found == pytest.approx(np.mean(expected), rel=1e-12)
    unknown = np.array([[0, 99]])  # an item without training rows is one that was missed
    assert mean_gain(users, items, pairs[0], unknown, biases) == 0
    assert np.isnan(mean_gain(users, items, pairs[0], np.array([[99, 1]]), biases))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("'kmeans', NULL, ARRAY[1, 2], '{\"standardize\": [true, false]}'", "option 'standardize' has several values, by which candidates measure different distances"),
        ("'kmeans', NULL, ARRAY[1, 2], '{\"clusters\": [2, 3], \"metric\": \"rmse\"}'", "option 'metric' is 'rmse', which is of labels, and task 'kmeans' has none: expected 'silhouette'"),
        ("'kmeans', NULL, ARRAY[1, 2], '{\"clusters\": [2, 3], \"conformal\": true}'", "option 'conformal' is about predictions of labels, and the search judges clusters"),
        ("'linear', 1, ARRAY[1, 2], '{\"l2\": [2, 3], \"metric\": \"silhouette\"}'", "which is of clusters, and task 'linear' predicts labels"),
        ("'matrix_factorization', 1, ARRAY[1, 2], '{\"feedback\": \"implicit\", \"rank\": [2, 3], \"metric\": \"rmse\"}'", "which is of labels, and task 'matrix_factorization' predicts items: expected 'ndcg'"),
        ("'matrix_factorization', 1, ARRAY[1, 2], '{\"feedback\": [\"explicit\", \"implicit\"]}'", "the tasks have the metrics ndcg, rmse"),
    ],
)  # fmt: skip
def test_what_is_refused(client: Client, call: str, said: str) -> None:
    with pytest.raises((duckdb.Error, psycopg.Error)) as raised:
        client.connection.execute(f"SELECT train_model({call})").fetchall()
    assert said in str(raised.value)
