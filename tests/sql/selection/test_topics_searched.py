"""Searches over the options of topics, judged by the perplexity of documents held out."""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest

sys.path.append(str(Path(__file__).parents[1] / "inference"))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(7)
PLANTED = 3
WORDS = 10
DOCUMENTS = [
    [f"w{topic * WORDS + word}" for word in RANDOM.integers(0, WORDS, 30)]
    for topic in np.arange(90) % PLANTED
]
"""Each of one of three topics, which have ten words that are equally likely."""


def rows(client: Client, documents: list[list[str]]) -> None:
    connection = client.connection
    connection.execute("DROP TABLE IF EXISTS docs")
    connection.execute("CREATE TABLE docs (i integer, w text[])")
    for i, words in enumerate(documents):
        listed = ", ".join(f"'{word}'" for word in words)
        connection.execute(f"INSERT INTO docs VALUES ({i}, ARRAY[{listed}])")


def trained(client: Client, tokens: str = "w", **options: Any) -> str:
    """The model of a training, in the table `kept`."""
    connection = client.connection
    connection.execute("DROP TABLE IF EXISTS kept")
    connection.execute(
        f"CREATE TABLE kept AS SELECT train_model('lda', NULL, {tokens}, '{json.dumps(options)}') AS m FROM docs"
    )
    return "(SELECT m FROM kept)"


def trials(client: Client, model: str) -> list[tuple[Any, ...]]:
    query = f"SELECT configuration, fold, metric, status, chosen FROM model_trials({model}) ORDER BY configuration, fold"
    found: list[tuple[Any, ...]] = client.connection.execute(query).fetchall()
    return found


@pytest.mark.parametrize("algorithm", ["gibbs", "online_vb"])
def test_it_finds_the_planted_topics(client: Client, algorithm: str) -> None:
    rows(client, DOCUMENTS)
    more = {} if algorithm == "gibbs" else {"batch_size": 10, "max_iter": 40}
    topics = [1, PLANTED]
    model = trained(client, topics=topics, folds=3, algorithm=algorithm, seed=1, **more)
    found = trials(client, model)
    assert [status for _, fold, _, status, _ in found if fold is not None] == ["ok"] * 6
    means = {
        json.loads(one)["topics"]: metric for one, fold, metric, _, _ in found if fold is None
    }
    assert means[1] == pytest.approx(PLANTED * WORDS, rel=0.1)
    best = WORDS if algorithm == "gibbs" else 1.4 * WORDS
    assert means[PLANTED] == pytest.approx(best, rel=0.15)
    ((chosen,),) = client.connection.execute("SELECT (m).options FROM kept").fetchall()
    assert json.loads(chosen)["topics"] == PLANTED


@pytest.mark.parametrize("tokens", ["w", "sparse(ARRAY[4, 0, 9], ARRAY[2, 1, 3])"])
def test_the_metric_is_that_of_sql(client: Client, tokens: str) -> None:
    """Documents are all alike, so that it does not matter which are held out."""
    rows(client, [["a", "b", "b", "c", "d"]] * 20)
    searched = trials(client, trained(client, tokens, topics=[2], alpha=[0.5], folds=2, seed=4))
    metrics = [metric for _, fold, metric, _, _ in searched if fold is not None]
    rows(client, [["a", "b", "b", "c", "d"]] * 10)
    model = trained(client, tokens, topics=2, alpha=0.5, seed=4)
    query = f"SELECT perplexity({model}, {tokens}) FROM docs"
    ((expected,),) = client.connection.execute(query).fetchall()
    assert metrics == [pytest.approx(expected, rel=1e-11)] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"min_count": [1, 2]}, "option 'min_count' has several values, by which candidates have different words"),
        ({"max_categories": [5, 9]}, "option 'max_categories' has several values"),
        ({"topics": [2, 3], "metric": "rmse"}, "option 'metric' is 'rmse', which is of labels, and task 'lda' has none: expected 'perplexity'"),
        ({"topics": [2, 3], "conformal": True}, "option 'conformal' is about predictions of labels, and the search judges documents"),
    ],
)  # fmt: skip
def test_what_is_refused(client: Client, options: dict[str, Any], said: str) -> None:
    rows(client, DOCUMENTS[:12])
    with pytest.raises((duckdb.Error, psycopg.Error)) as raised:
        trained(client, **options)
    assert said in str(raised.value)


def test_perplexity_is_of_documents(client: Client) -> None:
    rows(client, DOCUMENTS[:12])
    call = """SELECT train_model('linear', i, ARRAY[i], '{"l2": [1, 2], "metric": "perplexity"}') FROM docs"""
    with pytest.raises(
        (duckdb.Error, psycopg.Error),
        match="which is of documents, and task 'linear' predicts labels",
    ):
        client.connection.execute(call).fetchall()
