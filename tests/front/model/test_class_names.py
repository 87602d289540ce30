"""Classes by their own names wherever Python, the command and exports show or predict them."""

from typing import Any

import numpy as np
import pytest

import tuskml
from tuskml.commands.cli import main
from tuskml.errors import DataError
from tuskml.estimators import TuskClassifier

OPTIONS: dict[str, dict[str, Any]] = {
    "logistic": {"l2": 0.01},
    "svm": {"l2": 0.01},
    "gbdt": {"trees": 4},
    "random_forest": {"trees": 4},
    "mlp": {"max_iter": 20},
    "fm": {"max_iter": 20},
}
LABELS = {
    "text": ("CASE WHEN a > 4 THEN 'warm' ELSE 'cold' END", ["cold", "warm"], True),
    "digits": ("CASE WHEN a > 4 THEN '9' ELSE '20' END", ["20", "9"], False),
    "boolean": ("a > 4", ["false", "true"], False),
}


@pytest.fixture
def rows(con: Any) -> Any:
    con.execute(
        "CREATE TABLE t AS SELECT i, i % 2 AS g, (i * 37 % 101) / 10.0 AS a, "
        "(i * 53 % 101) / 10.0 AS b FROM range(120) s(i)"
    )
    return con


def fitted(con: Any, task: str, kind: str, **more: Any) -> Any:
    label = LABELS[kind][0]
    given = {"source": "t", "label": label, "features": ["a", "b"]}
    return tuskml.train(con, task, **given, **OPTIONS[task], **more)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("task", OPTIONS)
def test_predictions_are_classes(rows: Any, task: str, kind: str) -> None:
    """A text is predicted by its name, by arrays and in the database; others as numbers."""
    _, names, are_text = LABELS[kind]
    model = fitted(rows, task, kind)
    X = np.array(rows.execute("SELECT a, b FROM t ORDER BY i").fetchall())
    shown = model.predict_class(X)
    assert set(shown) <= set(names)
    expected = shown
    if not are_text:
        expected = [float(one == "true") if kind == "boolean" else float(one) for one in shown]
    assert model.predict(X).tolist() == expected
    assert tuskml.predict(rows, model, source="t")["prediction"].tolist() == expected
    explained = model.explain(X[:2]).classes if task != "mlp" else (names[1],)
    assert explained == (names[1],)
    if task in ("logistic", "svm"):
        assert f"classes     {names[0]}, {names[1]}" in str(model.summary())
    if task != "mlp":
        rows.execute("CREATE TABLE f AS SELECT train_model($1, " + LABELS[kind][0] + ", [a, b], "
                     "$2) AS m FROM t", [task, str(OPTIONS[task]).replace("'", '"')])  # fmt: skip
        found = "SELECT DISTINCT class FROM f, LATERAL explain_prediction(m, [1.0, 2.0])"
        assert rows.execute(found).fetchall() == [(names[1],)]


@pytest.mark.parametrize("where", ["mapping", "table"])
def test_groups_are_predicted_by_name(rows: Any, where: str) -> None:
    models = fitted(rows, "logistic", "text", group_by="g")
    if where == "table":
        fitted(rows, "logistic", "text", group_by="g", into="f")
        models = "f"
    found = tuskml.predict(rows, models, source="t", features=["a", "b"], group_by="g")
    assert set(found["prediction"]) == {"cold", "warm"}


def test_the_command_predicts_by_name(rows: Any, tmp_path: Any, capsys: Any) -> None:
    file = str(tmp_path / "rows.duckdb")
    with tuskml.connect(file) as con:
        con.execute("CREATE TABLE t AS SELECT i, i / 9.0 AS a, i % 7 AS b FROM range(80) s(i)")
        fitted(con, "logistic", "text", into="f")
    given = ["predict", file, "--models", "f", "--source", "t", "--features", "a,b", "--json"]
    assert main(given) == 0
    shown = capsys.readouterr().out
    assert '"prediction": "warm"' in shown
    assert '"prediction": "cold"' in shown


def test_a_missing_feature_has_no_class(rows: Any) -> None:
    model = fitted(rows, "logistic", "text")
    assert model.predict([[np.nan, 1.0], [9.0, 1.0]]).tolist() == [None, "warm"]


def test_a_column_of_text_that_is_shuffled(rows: Any) -> None:
    """The importance of features for texts is the rise of the share of errors, or of a loss."""
    frame = rows.execute(f"SELECT a, b, {LABELS['text'][0]} AS y FROM t").df()
    for task in ("svm", "logistic"):
        found = fitted(rows, task, "text").permutation_importance(frame[["a", "b"]], frame["y"])
        assert found.mean[0] > max(found.mean[1], 0.05)


def test_estimators_of_booleans_and_texts_are_evaluated(rows: Any) -> None:
    frame = rows.execute("SELECT a, b FROM t ORDER BY i").df()
    truth = (frame["a"] > 4).to_numpy()
    for y, label in ((truth, "a > 4"), (np.where(truth, "warm", "cold"), LABELS["text"][0])):
        one = TuskClassifier(l2=0.01).fit(frame, y)
        found = tuskml.evaluate(rows, one, source="t", label=label, features=["a", "b"])
        assert found["accuracy"] == np.mean(one.predict(frame) == y)


@pytest.mark.parametrize(
    "feature",
    ["y", '"y"', "t.y", "(y)", "y::float", "CAST(y AS DECIMAL(9, 2))", "y + 0", "2 * y - 1", "-y"],
)
def test_a_label_is_no_feature_however_it_is_written(con: Any, feature: str) -> None:
    con.execute("CREATE TABLE t AS SELECT i AS y, i % 7 AS a, i % 3 AS b FROM range(40) s(i)")
    for label in ("y", '"y"', "t.y"):
        with pytest.raises(DataError, match="features has the label"):
            tuskml.train(con, "linear", source="t", label=label, features=["a", feature])
    for other in ("y + a", "ln(y + 1)", "y % 5", "1 / (y + 1)", "y * y"):
        tuskml.train(con, "linear", source="t", label="y", features=["a", other])


def test_pooled_and_streamed_models_have_the_status(con: Any, tmp_path: Any) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT i % 3 AS g, (i * 37 % 1009)::DOUBLE AS y, (i % 11)::DOUBLE AS a "
        "FROM range(400000) s(i)"
    )
    file = str(tmp_path / "t.parquet")
    con.execute(f"COPY t TO '{file}' (ROW_GROUP_SIZE 20480)")
    few = "SELECT * FROM t LIMIT 900"
    drawn = {"sampler": "shuffled-partition", "epsilon": 0.05, "max_iter": 5}
    for features, leaks in ((["a", "abs(y)"], True), (["a", "sqrt(y)"], False)):
        given = {"label": "y", "features": features}
        models = tuskml.train(con, "linear", source=few, group_by="g", pooled=True, **given)
        assert {one.status == "label among features" for one in models.values()} == {leaks}
        one = tuskml.train(con, "linear", source=file, **given, **drawn)
        assert "row groups" in one.plan
        assert (one.status == "label among features") == leaks


def test_booleans_have_names_wherever_they_are_trained(con: Any, tmp_path: Any) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT i % 3 AS g, (i * 37 % 1009) > 300 AS y, (i % 11)::DOUBLE AS a, "
        "(i * 7 % 13)::DOUBLE AS b FROM range(400000) s(i)"
    )
    file = str(tmp_path / "t.parquet")
    con.execute(f"COPY t TO '{file}' (ROW_GROUP_SIZE 20480)")
    given = {"label": "y", "features": ["a", "b"]}
    few = given | {"source": "SELECT * FROM t LIMIT 3000"}
    drawn = {"sampler": "shuffled-partition", "epsilon": 0.05, "max_iter": 5}
    by_parts = {"executor": "threads", "placement": "gap", "trees": 2}
    found = [
        *tuskml.train(con, "logistic", group_by="g", pooled=True, **few).values(),
        tuskml.train(con, "logistic", source=file, **given, **drawn),
        *tuskml.train(con, "gbdt", source=file, group_by="g", **given, **by_parts).values(),
        tuskml.train(con, "logistic", l2=[0.1, 1.0], folds=2, **few),
        tuskml.train(con, "logistic", class_weight={"false": 1, "true": 2}, **few),
        tuskml.train(con, "logistic", classes=["false", "true"], **few),
    ]
    assert [one.class_names for one in found] == [["false", "true"]] * len(found)
