"""`train(...)` with `pooled`: groups that learn from each other, in both databases."""

import re
from typing import Any

import pytest

import tuskml
from tuskml.databases import connection

ROWS = """CREATE TABLE t AS
SELECT i % 6 AS g, i % 2 = 0 AS odd, i % 7 + sin(i) AS y, i % 7 + 3 * sin(i) > 3 AS high,
       CASE WHEN i % 6 = 5 THEN NULL ELSE cos(i) END AS a,
       CASE WHEN i = 13 THEN NULL ELSE i % 7 END AS b, CAST(i % 5 AS varchar) AS word
FROM generate_series(0, 119) AS r(i)"""
FEATURES = ["a", "b"]
FIELDS = ("coef", "intercept", "plan", "trials", "n_rows", "n_skipped", "note", "features")


def statement(kind: str, task: str = "linear", label: str = "y", **given: Any) -> str:
    """The query of a training by group, in a database."""
    options = given.get("options", '{"pooled": true}')
    keys = given.get("keys", ["g"])
    listed = ", ".join(f"'{one}'" for one in given.get("features", FEATURES))
    more = given.get("more", "")
    if kind == "duck":
        by = ", ".join(f"'{key}'" for key in keys)
        features = listed if listed.startswith("'[") else f"[{listed}]"
        return (
            f"SELECT * FROM train('t', '{task}', '{label}', {features}, '{options}', "
            f"group_by := [{by}]{more})"
        )
    by, of = ", ".join(f"'{key}'" for key in keys), "int"
    columns = ", ".join([*(f"k{place} {of}" for place in range(len(keys))), "model tuskml_model"])
    groups = f"ARRAY[{by}], " if keys else ""
    call = f"tuskml.train('t', '{task}', '{label}', ARRAY[{listed}], {groups}'{options}'"
    shape = f" AS f({columns})" if keys else ""
    return f"SELECT * FROM {call}{more.replace(':=', '=>')}){shape}"


def models(session: tuple[str, Any], **given: Any) -> dict[Any, Any]:
    """The fields of each group's model, by key."""
    kind, con = session
    query = statement(kind, **given)
    parts = ", ".join(f"(model).{name}" for name in FIELDS)
    keys = "* EXCLUDE (model)" if kind == "duck" else "k0"
    found = con.execute(f"SELECT {keys}, model IS NULL, {parts} FROM ({query}) AS q").fetchall()
    return {
        key: None if none else dict(zip(FIELDS, row, strict=True)) for key, none, *row in found
    }


@pytest.fixture
def rows(session: tuple[str, Any]) -> tuple[str, Any]:
    session[1].execute(ROWS)
    return session


@pytest.mark.parametrize(("task", "label"), [("linear", "y"), ("logistic", "high")])
def test_models_are_those_of_python(rows: tuple[str, Any], task: str, label: str) -> None:
    """Which `front/training/test_pooling.py` compares with SciPy and scikit-learn."""
    with tuskml.connect() as con:
        con.execute(ROWS)
        given = {"source": "t", "label": label, "features": FEATURES, "group_by": "g"}
        truth = tuskml.train(con, task, **given, pooled=True, l2=0.01)
    found = models(rows, task=task, label=label, options='{"pooled": true, "l2": 0.01}')
    assert sorted(found) == sorted(truth) == list(range(6))
    assert found[5] is None
    assert truth[5] is None
    for g in range(5):
        one, other = found[g], truth[g]
        assert one["coef"] == pytest.approx(other.coef, abs=1e-6)
        assert one["intercept"] == pytest.approx(other.intercept, abs=1e-6)
        assert (one["n_rows"], one["n_skipped"]) == (other.n_rows, other.n_skipped)
        assert one["features"] == FEATURES
        assert re.search(r"^newton|(complete|partial) pooling of 5 groups", one["plan"])
    assert found[1]["note"] == "1 of 20 rows were skipped (5%): column 'b' is NULL in 1 (5%)"
    assert truth[1].note is not None
    assert found[0]["note"] is None


def test_losses_of_each_way_are_a_table(rows: tuple[str, Any]) -> None:
    kind, con = rows
    found = con.execute(
        f"SELECT configuration, metric, chosen FROM ({statement(kind)}) AS m, "
        "LATERAL (SELECT * FROM model_trials(model)) AS t ORDER BY 1, 2"
    ).fetchall()
    assert len(found) == 15
    assert sum(chosen for *_, chosen in found) == 5
    assert all(metric > 0 for _, metric, _ in found)
    assert {'"local"' in name for name, *_ in found} == {True, False}


def test_pooled_may_be_false_and_has_several_keys(rows: tuple[str, Any]) -> None:
    alone = models(rows, options='{"pooled": false}')
    assert "pooling" not in alone[0]["plan"]
    kind, con = rows
    query = statement(kind, keys=["g", "g % 2"])
    assert len(con.execute(query).fetchall()) == 6


def test_arrays_are_features(rows: tuple[str, Any]) -> None:
    array = "[a, b]" if rows[0] == "duck" else "ARRAY[a, b]"
    found, other = models(rows, features=[array]), models(rows)
    assert found[2]["coef"] == pytest.approx(other[2]["coef"])


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"keys": []}, "'pooled' is given without group_by"),
    ({"options": '{"pooled": 1}'}, "'pooled' is 1, expected true or false"),
    (
        {"options": '{"pooled": true, "l1": 0.1}'},
        "'l1' is not available with 'pooled', expected l2",
    ),
    ({"options": '{"pooled": true, "l2": [1, 2]}'}, "'pooled' is not available in a search"),
    ({"task": "poisson"}, "'pooled' is not available with task 'poisson', expected 'linear'"),
    ({"task": "gbdt"}, "'pooled' is not available with task 'gbdt'"),
    ({"more": ", weight := 'a'"}, "not available with weight or offset"),
    ({"features": ["a", "word"]}, "a row with names, as of text or dates"),
    ({"task": "logistic", "label": "word"}, "is text, and 'pooled' takes numbers or booleans"),
    ({"task": "logistic"}, "the labels have 99 classes, expected two"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED, ids=[one for _, one in REFUSED])
def test_what_cannot_be_pooled(rows: tuple[str, Any], given: Any, sentence: str) -> None:
    kind, con = rows
    with pytest.raises(Exception, match=sentence) as failure:
        con.execute(statement(kind, **given)).fetchall()
    if kind == "post":
        assert failure.value.sqlstate == "22023"


def test_the_aggregate_names_the_function_that_pools(rows: tuple[str, Any]) -> None:
    query = "SELECT train_model('linear', y, ARRAY[a, b], '{\"pooled\": true}') FROM t"
    with pytest.raises(Exception, match=r"'pooled'.* train\(\.\.\.\) with group_by"):
        rows[1].execute(query).fetchall()


def test_other_clients_have_the_same(con: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Python writes no statement, as in DuckDB's command line, the macro has it."""
    con.execute(ROWS)
    more = {"keys": ["g", "odd AS even"], "options": '{"l2": 0.01, "pooled": true}'}
    shown = "* EXCLUDE (model), model.coef, model.plan"
    query = f"SELECT {shown} FROM ({statement('duck', **more)}) ORDER BY 1"
    described = con.execute(f"DESCRIBE {query}").fetchall()
    truth = con.execute(query).fetchall()
    monkeypatch.setattr(connection, "lazy_function", lambda _: lambda *_: None)
    assert con.execute(f"DESCRIBE {query}").fetchall() == described
    for one, other in zip(con.execute(query).fetchall(), truth, strict=True):
        assert one[:2] + one[3:] == other[:2] + other[3:]
        assert one[2] == (other[2] and pytest.approx(other[2], abs=1e-9))
    for given, sentence in (REFUSED[0], REFUSED[2], REFUSED[6]):
        with pytest.raises(Exception, match=sentence):
            con.execute(statement("duck", **given)).fetchall()
