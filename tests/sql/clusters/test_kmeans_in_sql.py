"""The task `kmeans` in SQL of both databases: models, predictions, weights, gaps, errors."""

# ruff: noqa: E501, SQL is read better on one line

import re
from typing import Any

import pytest

ROWS = """
CREATE TABLE t AS
SELECT i, i % 3 AS g, 'k' || i % 2 AS k, CAST(i % 4 * 10 + sin(i) AS double precision) AS a,
       CAST(i % 4 % 3 * 25 + cos(7 * i) AS double precision) AS b, 1 + i % 2 AS w
FROM generate_series(1, 240) AS s(i)
"""
NAMED = {"duck": "{'a': a, 'k': k}", "post": "ROW(a, k)::named"}
CALL = "train_model('kmeans', NULL, {features}, '{options}'{more})"


class Rows:
    """A database with the rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS)
        if name == "post":
            session.execute(
                "DROP TYPE IF EXISTS named; CREATE TYPE named AS (a double precision, k text)"
            )

    def features(self, kind: str = "list") -> str:
        if kind == "named":
            return NAMED[self.name]
        lists = {
            "list": "ARRAY[a, b]",
            "float": "ARRAY[a, b]::real[]",
            "sparse": "sparse(ARRAY[1, 0], ARRAY[b, a])",
        }
        found = lists[kind]
        return found.replace("::real[]", "::FLOAT[]") if self.name == "duck" else found

    def call(self, kind: str = "list", options: str = '{"clusters": 3}', more: str = "") -> str:
        return CALL.format(features=self.features(kind), options=options, more=more)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self.session.execute(sql).fetchall()


@pytest.fixture
def rows(session: tuple[str, Any]) -> Rows:
    return Rows(*session)


def test_both_databases_have_the_same_bits(con: Any, post: Any) -> None:
    here, there = Rows("duck", con), Rows("post", post)
    for kind in ("list", "float", "sparse", "named"):
        for options in ('{"clusters": 3}', '{"clusters": 5, "standardize": true, "seed": 4}'):
            sql = "SELECT g, (m).coef, (m).loss, (m).status, (m).history FROM (SELECT g, {} AS m FROM t GROUP BY g) AS f ORDER BY g"
            found = [one.ask(sql.format(one.call(kind, options))) for one in (here, there)]
            assert found[0] == found[1], kind
            assert len(found[0]) == 3


def test_predictions_and_distances(rows: Rows) -> None:
    """The mean squared distance of the rows is the loss, in each group."""
    for kind in ("list", "sparse", "named"):
        x = rows.features(kind)
        found = rows.ask(
            f"SELECT t.g, avg((m).loss), avg(decision(m, {x})), min(predict(m, {x})), max(predict(m, {x})) "
            f"FROM t JOIN (SELECT g, {rows.call(kind)} AS m FROM t GROUP BY g) AS f ON t.g = f.g GROUP BY t.g ORDER BY 1"
        )
        assert len(found) == 3
        for _, loss, mean, low, high in found:
            assert mean == pytest.approx(loss, rel=1e-9)
            assert (low, high) == (1, 3)


def test_summary(rows: Rows) -> None:
    sql = f"SELECT s.feature, s.term, s.estimate FROM (SELECT {rows.call('named')} AS m FROM t) AS f, LATERAL model_summary(m) AS s"
    found = rows.ask(sql)
    terms = ["rows", "a", "k[k0]", "k[k1]"]
    assert [one[:2] for one in found] == [
        (j, f"{c}: {name}") for c in (1, 2, 3) for j, name in enumerate(terms)
    ]
    sizes = [value for _, term, value in found if term.endswith("rows")]
    assert sum(sizes) == 240
    assert sizes == sorted(sizes, reverse=True)
    shares = {term: value for _, term, value in found if "k[" in term}
    for c in (1, 2, 3):
        assert shares[f"{c}: k[k0]"] + shares[f"{c}: k[k1]"] == pytest.approx(1)
    standardized = rows.call("list", '{"clusters": 2, "standardize": true}')
    sql = f"SELECT count(*), max(s.feature), min(s.term) FROM (SELECT {standardized} AS m FROM t) AS f, LATERAL model_summary(m) AS s"
    assert rows.ask(sql) == [(6, 2, "1: rows")]


def test_weights_are_repetitions(rows: Rows) -> None:
    weighted = rows.ask(
        f"SELECT (m).coef, (m).loss FROM (SELECT {rows.call(more=', w')} AS m FROM t) AS f"
    )
    repeated = rows.ask(
        f"SELECT (m).coef, (m).loss FROM (SELECT {rows.call()} AS m FROM (SELECT * FROM t UNION ALL SELECT * FROM t WHERE w = 2) AS u) AS f"
    )
    assert weighted == repeated


def test_any_type_of_null_stands_for_a_label(rows: Rows) -> None:
    for kind in ("list", "named"):
        sql = "SELECT (m).coef FROM (SELECT {} AS m FROM t) AS f"
        plain = rows.ask(sql.format(rows.call(kind)))
        for label in ("text", "double precision", "boolean"):
            typed = rows.call(kind).replace("NULL", f"CAST(NULL AS {label})")
            assert rows.ask(sql.format(typed)) == plain, (kind, label)


def test_gaps_and_bad_rows(rows: Rows) -> None:
    null = "CASE WHEN i <= 5 THEN NULL ELSE a END"
    bad = "CASE WHEN i <= 5 THEN CAST('NaN' AS double precision) ELSE a END"
    call = "train_model('kmeans', NULL, ARRAY[{}, b], '{{\"clusters\": 2{}}}')"
    sql = "SELECT (m).status, (m).n_rows, (m).n_skipped FROM (SELECT {} AS m FROM t) AS f"
    assert rows.ask(sql.format(call.format(null, ""))) == [("ok", 235, 5)]
    assert rows.ask(sql.format(call.format(bad, ', "invalid": "skip"'))) == [("ok", 235, 5)]
    assert rows.ask(sql.format(call.format(bad, "")))[0][0] == "invalid rows"
    asked = f"SELECT predict({call.format(bad, '')}, ARRAY[1.0, 2.0]), predict({rows.call()}, ARRAY[NULL, 2.0]) FROM t"
    assert rows.ask(asked) == [(None, None)]


REFUSED = {
    "SELECT predict_proba({call}, ARRAY[1.0, 2.0]) FROM t": "predict_proba: model is 'kmeans', which has no classes; predict() is the number of the nearest centre and decision() the squared distance to it",
    "SELECT predict_probas({call}, ARRAY[1.0, 2.0]) FROM t": "predict_probas: model is 'kmeans', which has no classes",
    "SELECT predict_class({call}, ARRAY[1.0, 2.0]) FROM t": "predict_class: model is 'kmeans', which has no classes",
    "SELECT * FROM explain_prediction((SELECT {call} FROM t), ARRAY[1.0, 2.0])": "explain_prediction: model is 'kmeans', which has no classes",
    "SELECT train_model('kmeans', b, ARRAY[a, b]) FROM t": "train_model: task 'kmeans' has no label, expected NULL in its place",
    "SELECT train_model('kmeans', NULL, ARRAY[a, b], '{{}}', 1, 2) FROM t": "train_model: offset is not available with task 'kmeans', expected (task, label, features, options, weight)",
    "SELECT train_model('kmeans', NULL, ARRAY[a, b], '{{\"algorithm\": \"lloyd\", \"batch_size\": 9}}') FROM t": "train_model: option 'batch_size' is for option 'algorithm': 'auto' or 'minibatch', which is 'lloyd': expected both, or neither; task 'kmeans'",
}  # fmt: skip


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_refused(rows: Rows, sql: str) -> None:
    expected = REFUSED[sql].removesuffix("; task 'kmeans'")
    with pytest.raises(Exception, match=re.escape(expected)):
        rows.ask(sql.format(call=rows.call()))


def test_a_row_of_another_width(rows: Rows) -> None:
    expected = "predict: the model has 2 features, row has 3"
    with pytest.raises(Exception, match=re.escape(expected)):
        rows.ask(f"SELECT predict({rows.call()}, ARRAY[1.0, 2.0, 3.0]) FROM t")


def test_groups_with_few_rows(rows: Rows) -> None:
    sql = f"SELECT (m).status, (m).loss, (m).converged, (m).coef FROM (SELECT {rows.call()} AS m FROM t WHERE i IN (1, 2)) AS f"
    ((status, loss, converged, coef),) = rows.ask(sql)
    assert (status, loss, converged, coef[:3]) == ("fewer centres", 0, True, [2, 2, 0])
    assert rows.ask(f"SELECT {rows.call()} FROM t WHERE i < 0") == [(None,)]


def test_explanation(rows: Rows) -> None:
    explained = rows.call().replace("train_model", "explain_training")
    text = rows.ask(f"SELECT {explained} FROM t")[0][0]
    assert text.startswith("kmeans: minimise mean min_j |x - c_j|^2\n  rows      240 x 2 features")
