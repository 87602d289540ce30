"""`model_to_sql` in both databases: the expression is Python's, and gives the model's numbers where it is run."""

# ruff: noqa: E501, SQL is read better on one line

from typing import Any

import pytest

from tuskml import Model, model_to_sql

ROWS = """SELECT i, CAST((i * 7919) % 101 AS DOUBLE PRECISION) / 10 AS x, CAST((i * 31) % 17 AS DOUBLE PRECISION) / 3 AS z,
    CASE i % 3 WHEN 0 THEN 'it''s' WHEN 1 THEN 'b' ELSE 'c' END AS k FROM generate_series(1, 200) AS r(i)"""
CASES = [
    ("linear", "2 * t.x - t.z", "{}", "predict"),
    ("gbdt", "t.x * t.z", '{"trees": 3, "num_leaves": 4}', "predict"),
    ("logistic", "t.x > t.z", '{"l2": 0.01}', "predict_proba"),
    ("logistic", "t.k || t.i % 2", '{"l2": 0.01}', "predict_class"),
    ("poisson", "CAST(t.z AS INTEGER)", "{}", "decision"),
]


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    """Answers of a database to SQL, with a table of rows."""
    name, connection = session
    connection.execute(f"CREATE {'TEMP ' if name == 'post' else ''}TABLE t AS {ROWS}")
    return lambda sql: connection.execute(sql).fetchall()


@pytest.mark.parametrize(("task", "label", "options", "answer"), CASES)
def test_the_expression_is_python_s_and_gives_the_model_s_numbers(
    session: tuple[str, Any], ask: Any, task: str, label: str, options: str, answer: str
) -> None:
    model = f"(SELECT train_model('{task}', {label}, r, '{options}') AS m FROM t, LATERAL (SELECT t.x, t.z, t.k) AS r) AS n"
    named = ":=" if session[0] == "duck" else "=>"
    ((sql, value),) = ask(
        f"SELECT model_to_sql(m, answer {named} '{answer}'), {'m' if session[0] == 'duck' else 'to_jsonb(m)'} FROM {model}"
    )
    assert sql == model_to_sql(Model.of(value), answer)
    answers = f"SELECT t.x, t.z, t.k, {answer}(m, r) AS answer FROM {model}, t, LATERAL (SELECT t.x, t.z, t.k) AS r"
    equal = f"abs(answer - ({sql})) <= 1e-9 * (1 + abs(answer))"
    if answer == "predict_class":
        equal = f"answer = ({sql})"
    assert ask(f"SELECT count(*) FROM ({answers}) AS a WHERE {equal}") == [(200,)]


def test_a_class_a_null_and_what_sql_cannot_say(session: tuple[str, Any], ask: Any) -> None:
    named = ":=" if session[0] == "duck" else "=>"
    model = (
        "(SELECT train_model('logistic', t.k, ARRAY[t.x, t.z], '{\"l2\": 0.1}') AS m FROM t) AS n"
    )
    of_class = f"model_to_sql(m, answer {named} 'predict_proba', class {named} 'b')"
    ((sql, value),) = ask(
        f"SELECT {of_class}, {'m' if session[0] == 'duck' else 'to_jsonb(m)'} FROM {model}"
    )
    assert sql == model_to_sql(Model.of(value), "predict_proba", "b")
    assert ask(f"SELECT model_to_sql(m) FROM {model} WHERE 1 = 0") == []
    assert ask(f"SELECT model_to_sql(CASE WHEN 1 = 0 THEN m END) FROM {model}") == [(None,)]
    with pytest.raises(
        Exception, match=r"model_to_sql: answer is 'predicts', expected .*did you mean 'predict'"
    ):
        ask(f"SELECT model_to_sql(m, answer {named} 'predicts') FROM {model}")
    kmeans = (
        "(SELECT train_model('kmeans', NULL, ARRAY[t.x], '{\"clusters\": 2}') AS m FROM t) AS n"
    )
    with pytest.raises(
        Exception, match="model_to_sql: the model is 'kmeans', which plain SQL cannot say"
    ):
        ask(f"SELECT model_to_sql(m) FROM {kmeans}")
