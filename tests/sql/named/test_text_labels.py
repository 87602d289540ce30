"""Labels that are text, and rows with names, wherever a table is trained on or scored."""

# ruff: noqa: E501, SQL is read better on one line

import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score

import tuskml

sys.path.append(str(Path(__file__).parents[1] / "inference"))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]


@pytest.fixture
def table(client: Client) -> Iterator[Client]:
    """Names of classes whose quotes and letters are not plain; some labels are NULL."""
    rng = np.random.default_rng(2)
    delay = rng.integers(0, 30, 300)
    origin = rng.choice(["EWR", "JFK", "LGA"], 300)
    late = delay + 4 * (origin == "JFK") + rng.normal(0, 5, 300) > 15
    label = np.where(late, "it''s läte", "in time")
    texts = ["NULL" if i % 50 == 0 else f"'{one}'" for i, one in enumerate(label)]
    listed = zip(delay, origin, texts, strict=True)
    rows = ", ".join(f"({d}, '{o}', {d % 2}, {text})" for d, o, text in listed)
    run = client.connection.execute
    run("DROP TABLE IF EXISTS arrivals")
    run("CREATE TABLE arrivals (delay integer, origin varchar, g integer, arrival varchar)")
    run(f"INSERT INTO arrivals VALUES {rows}")
    yield client
    run("DROP TABLE arrivals")


@pytest.mark.parametrize("features", [["delay", "origin"], ["delay"]])
def test_evaluate_takes_a_label_of_text(table: Client, features: list[str]) -> None:
    """The metrics are those of scikit-learn."""
    con = table.connection
    given = {"source": "arrivals", "label": "arrival", "features": features, "l2": 0.01}
    model = tuskml.train(con, "logistic", **given)
    assert model.class_names == ["in time", "it's läte"]
    found = tuskml.evaluate(con, model, source="arrivals")
    rows = con.execute("SELECT delay, origin, arrival FROM arrivals").fetchall()
    truth = np.array([row[2] for row in rows], object)
    asked = pd.DataFrame({"delay": [row[0] for row in rows], "origin": [row[1] for row in rows]})
    known = np.array([one is not None for one in truth])
    p = model.predict_proba(asked[features])[known]
    high = truth[known] == "it's läte"
    assert found["n_rows"] == 294
    assert found["auc"] == pytest.approx(roc_auc_score(high, p))
    assert found["log_loss"] == pytest.approx(log_loss(high, p))
    assert found["accuracy"] == pytest.approx(accuracy_score(high, p >= 0.5))


def test_metrics_by_group_of_models_by_group(table: Client) -> None:
    con = table.connection
    given = {"source": "arrivals", "label": "arrival", "features": ["delay", "origin"], "l2": 0.01}
    models = tuskml.train(con, "logistic", group_by="g", **given)
    found = tuskml.evaluate(con, models, source="arrivals")
    assert set(found) == {0, 1}
    assert all(metrics["auc"] > 0.8 for metrics in found.values())


def test_a_label_of_another_class_is_refused(table: Client) -> None:
    con = table.connection
    given = {"source": "arrivals", "label": "arrival", "features": ["delay"], "l2": 0.01}
    model = tuskml.train(con, "logistic", **given)
    with pytest.raises(tuskml.DataError, match="neither of the model's two classes"):
        tuskml.evaluate(con, model, source="arrivals", label="origin")
    number = tuskml.train(con, "linear", source="arrivals", label="delay", features=["origin"])
    with pytest.raises(tuskml.DataError, match=r"label 'origin' is of type .*, expected a number"):
        tuskml.evaluate(con, number, source="arrivals", label="origin")


def test_the_table_form_takes_names_and_text(here: Client) -> None:
    con: duckdb.DuckDBPyConnection = here.connection
    con.execute(
        "CREATE TABLE t AS SELECT i % 30 AS delay, ['a', 'B'][1 + i % 2] AS origin, "
        "CASE WHEN i % 30 + 5 * (i % 2) + i % 7 > 18 THEN 'late' ELSE 'in time' END AS arrival "
        "FROM range(400) AS r(i)"
    )
    options = '{"l2": 0.01}'
    names = """{'delay': 'delay', 'of it''s "o"': 'lower(origin)'}"""
    by_name = con.execute(
        f"SELECT features, class_names, coef FROM train('t', 'logistic', 'arrival', {names}, '{options}')"
    ).fetchall()
    row = """{'delay': delay, 'of it''s "o"': lower(origin)}"""
    (same,) = con.execute(
        f"SELECT train_model('logistic', arrival, {row}, '{options}') AS m FROM t"
    ).fetchall()[0]
    ((features, classes, coef),) = by_name
    assert (features, classes) == (same["features"], same["class_names"])
    assert coef == pytest.approx(same["coef"])
    assert features[1] == 'of it\'s "o"[a]'
    assert same["class_names"] == ["in time", "late"]
