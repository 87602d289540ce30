"""Trials predict and no more: what describes a model is computed of the winner, on all rows."""

import json
from typing import Any

import duckdb
import numpy as np
import pytest

from tuskml.learners.linear import training
from tuskml.learners.linear.inference import determined, ratios

N = 240
RANDOM = np.random.default_rng(7)
A, C, U = RANDOM.normal(size=N), np.arange(N) % 12, RANDOM.uniform(size=N)
ROWS = list(zip(range(N), A.tolist(), C.tolist(), U.tolist(), strict=True))
DESCRIBED: dict[str, dict[str, Any]] = {
    "terms": {"fit": True, "likelihood_ratio": True},
    "robust": {"fit": True, "covariance": "HC3"},
    "cluster": {"cluster": "c"},
}
FIELDS = "coef, intercept, std_err"
SEARCH = {"epsilon": [1e-9, 1e-10], "folds": 3}
"""Two candidates without a penalty, which leaves coefficients without standard errors."""


def table(session: Any) -> None:
    session.execute("DROP TABLE IF EXISTS t")
    session.execute("CREATE TABLE t (i integer, a float8, c integer, u float8)")
    session.execute(f"INSERT INTO t VALUES {', '.join(map(str, ROWS))}")


def call(name: str, options: dict[str, Any]) -> tuple[str, str]:
    """A training, and the table of its rows."""
    x = "{'a': t.a, 'b': i % 7, 'c': t.c}" if name == "duck" else "x"
    source = "t" if name == "duck" else "t, LATERAL (SELECT t.a, i % 7 AS b, t.c) AS x"
    label = "u < 1 / (1 + exp(-t.a))"
    return f"train_model('logistic', {label}, {x}, '{json.dumps(options)}')", source


def found(name: str, session: Any, options: dict[str, Any], fields: str) -> Any:
    """Fields of the model."""
    chosen = ", ".join(f"(m).{field.strip()}" for field in fields.split(","))
    training, source = call(name, options)
    sql = f"SELECT {chosen} FROM (SELECT {training} AS m FROM {source} OFFSET 0) AS f"
    (row,) = session.execute(sql).fetchall()
    return row


@pytest.mark.parametrize("kind", list(DESCRIBED))
def test_the_winner_is_described_as_without_a_search(session: tuple[str, Any], kind: str) -> None:
    name, connection = session
    table(connection)
    *searched, text = found(name, connection, SEARCH | DESCRIBED[kind], f"{FIELDS}, trials")
    best = json.loads(text)["trials"][json.loads(text)["chosen"]]["configuration"]
    alone = found(name, connection, best | DESCRIBED[kind], FIELDS)
    for ours, theirs in zip(searched, alone, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    plain = found(name, connection, best, FIELDS)
    assert (alone[2] == plain[2]) == (kind == "terms")
    if kind == "terms":
        ours, theirs = (terms(name, connection, one | DESCRIBED[kind]) for one in (SEARCH, best))
        assert [row[2] for row in ours] == ["chi2"] * 3 + ["LR"] * 3
        assert [row[:3] for row in ours] == [row[:3] for row in theirs]
        assert [row[3] for row in ours] == pytest.approx([row[3] for row in theirs], rel=1e-9)


def terms(name: str, session: Any, options: dict[str, Any]) -> Any:
    """The rows of model_terms."""
    training, source = call(name, options)
    return session.execute(
        f"SELECT * FROM model_terms((SELECT {training} FROM {source}))"
    ).fetchall()


@pytest.mark.parametrize("kind", ["terms", "robust"])
def test_descriptions_change_no_metric(session: tuple[str, Any], kind: str) -> None:
    name, connection = session
    table(connection)
    both = [
        json.loads(found(name, connection, SEARCH | more, "trials")[0])["trials"]
        for more in ({}, DESCRIBED[kind])
    ]
    plain, described = (
        [fold["metric"] for one in found for fold in one["folds"]] for found in both
    )
    assert described == pytest.approx(plain, rel=1e-12)


def test_terms_and_sandwiches_are_computed_once(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"statistics": 0, "sandwich": 0, "covariances": 0}

    def counted(module: Any, called: str) -> None:
        before = getattr(module, called)

        def count(*given: Any) -> Any:
            counts[called] += 1
            return before(*given)

        monkeypatch.setattr(module, called, count)

    counted(ratios, "statistics")
    counted(training, "covariances")
    counted(determined, "sandwich")
    table(con)
    found("duck", con, SEARCH | DESCRIBED["terms"], "status")
    assert counts == {"statistics": 3, "sandwich": 0, "covariances": 1}
    found("duck", con, SEARCH | {"covariance": "HC3"}, "status")
    assert counts["sandwich"] == 1


def test_what_a_task_has_not_is_refused_before_trials(session: tuple[str, Any]) -> None:
    name, connection = session
    table(connection)
    x = "[a]" if name == "duck" else "ARRAY[a]"
    options = json.dumps({"l2": [1, 2], "covariance": "HC1"})
    with pytest.raises(Exception, match="option 'covariance' is not available with task 'svm'"):
        connection.execute(f"SELECT train_model('svm', a > 0, {x}, '{options}') FROM t")
