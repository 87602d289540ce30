"""Which prediction functions answer for which kind of model: alike in both databases."""

# ruff: noqa: E501, SQL is read better on one line

import itertools
import json
from typing import Any

import duckdb
import psycopg
import pytest

ROWS = """
CREATE {temp} TABLE t AS
SELECT i, CAST(i % 10 AS DOUBLE PRECISION) / 10 AS a, CAST(i * 7 % 11 AS DOUBLE PRECISION) / 11 AS b,
       CASE WHEN i % 4 = 0 THEN 'x' ELSE 'y' END AS c, i % 5 + 1 AS u, i % 7 + 1 AS v,
       CAST(i % 10 + i * 7 % 11 AS DOUBLE PRECISION) AS amount, i % 10 AS times, i % 10 + i * 7 % 11 > 9 AS late, true AS yes,
       CASE WHEN i % 10 + i * 7 % 11 < 7 THEN 'low' WHEN i % 10 > 5 THEN 'high' ELSE 'middle' END AS size
FROM generate_series(1, 120) AS s(i)
"""
FEW, TREES, NET = {"max_iter": 20}, {"trees": 5}, {"max_iter": 3, "layers": [4]}
CLASSES = {"objective": "logistic"}
SAME_BITS = {"threads": 1}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "linear": ("linear", "amount", {}),
    "two classes": ("logistic", "late", {**FEW, "l2": 0.01}),
    "three classes": ("logistic", "size", {**FEW, "l2": 0.01}),
    "one class": ("logistic", "yes", FEW),
    "hinge": ("svm", "late", FEW),
    "counts": ("poisson", "times", FEW),
    "lasso": ("lasso", "amount", FEW),
    "trees": ("gbdt", "amount", TREES),
    "trees of counts": ("gbdt", "times", {**TREES, "objective": "poisson"}),
    "trees of amounts": ("gbdt", "times + 1", {**TREES, "objective": "gamma"}),
    "trees of two classes": ("gbdt", "late", TREES | CLASSES),
    "trees of three classes": ("gbdt", "size", TREES | CLASSES),
    "trees of one class": ("gbdt", "yes", TREES | CLASSES),
    "forest": ("random_forest", "amount", TREES),
    "forest of two classes": ("random_forest", "late", {**TREES, "objective": "gini"}),
    "forest of three classes": ("random_forest", "size", {**TREES, "objective": "gini"}),
    "net": ("mlp", "amount", NET),
    "net of two classes": ("mlp", "late", NET | CLASSES),
    "net of three classes": ("mlp", "size", NET | CLASSES),
    "ratings": ("matrix_factorization", "amount", {"max_iter": 3, "rank": 2}),
}
FEATURES = {
    "list": {"duck": "[a, b]", "post": "ARRAY[a, b]"},
    "row": {"duck": "{'a': a, 'b': b, 'c': c}", "post": "(SELECT r FROM (SELECT a, b, c) AS r)"},
}
ANSWERS = {
    "predict": "predict({m}, {x})",
    "predict_class": "predict_class({m}, {x})",
    "predict_proba": "predict_proba({m}, {x})",
    "predict_proba of a class": "predict_proba({m}, {x}, {c})",
    "predict_probas": "predict_probas({m}, {x})",
    "decision": "decision({m}, {x})",
}


def features_of(kind: str, form: str, database: str) -> str:
    if kind == "ratings":
        return {"duck": "[u, v]", "post": "ARRAY[u, v]"}[database]
    return FEATURES[form][database]


def trained(database: str, session: Any, form: str) -> None:
    """A table of models by kind; of one thread, so that both databases train the same bits."""
    temp = "TEMP" if database == "post" else ""
    session.execute(ROWS.format(temp=temp))
    kinds = [
        f"SELECT '{kind}' AS kind, train_model('{task}', {label}, {features_of(kind, form, database)}, '{json.dumps(options | SAME_BITS)}') AS m FROM t"
        for kind, (task, label, options) in MODELS.items()
    ]
    session.execute(f"CREATE {temp} TABLE models AS {' UNION ALL '.join(kinds)}")


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: round(share, 6) for name, share in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def sentence(error: Exception) -> str:
    """Without what either database puts around it."""
    return str(error).split("\n")[0].removeprefix("Invalid Input Error: ")


def answers(session: Any, sql: str) -> list[Any] | str:
    try:
        return [rounded(value) for (value,) in session.execute(sql).fetchall()]
    except (duckdb.Error, psycopg.Error) as error:
        return sentence(error)


@pytest.fixture(params=FEATURES)
def asked(
    request: pytest.FixtureRequest, con: duckdb.DuckDBPyConnection, post: Any
) -> tuple[str, dict[str, Any]]:
    """The form of the features, and both databases with models that were trained on them."""
    sessions = {"duck": con, "post": post}
    for database, session in sessions.items():
        trained(database, session, request.param)
    return request.param, sessions


def refused(kind: str, answer: str) -> bool:
    """Whether such a model has no such answer (docs/sql/prediction.md)."""
    of_numbers = not any(word in kind for word in ("class", "hinge"))
    if "three" in kind:
        return answer in ("predict", "predict_proba", "decision")  # labels are texts
    if kind == "hinge":
        return answer.startswith("predict_proba")
    return of_numbers and answer not in ("predict", "decision")


def asking(kind: str, answer: str, x: str) -> tuple[str, str]:
    """The model of rows: once joined with them, once alone, which a database may put in early."""
    of_kind = f"WHERE kind = '{kind}'"
    c = "'low'" if "three" in kind else "'1'"
    joined = ANSWERS[answer].format(m="m", x=x, c=c)
    alone = ANSWERS[answer].format(m=f"(SELECT m FROM models {of_kind})", x=x, c=c)
    return (
        f"SELECT {joined} FROM t, models {of_kind} ORDER BY i",
        f"SELECT {alone} FROM t ORDER BY i",
    )


def test_both_databases_answer_alike(asked: tuple[str, dict[str, Any]]) -> None:
    form, sessions = asked
    for kind, answer in itertools.product(MODELS, ANSWERS):
        found = [
            answers(session, sql)
            for database, session in sessions.items()
            for sql in asking(kind, answer, features_of(kind, form, database))
        ]
        assert found == found[:1] * 4, (kind, answer)
        assert isinstance(found[0], str) == refused(kind, answer), (kind, answer, found[0])
        assert isinstance(found[0], str) or None not in found[0]
