"""`tuskml.evaluate` of more than two classes, and of labels that are text, in both databases."""

from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference

from tuskml import DataError, evaluate, predict, train

ROWS = """
    CREATE TABLE plants AS
    SELECT i, i % 3 AS field, x, z,
           CASE WHEN x + z > 12 THEN 2 WHEN x > 4 THEN 1 ELSE 0 END AS kind,
           CASE WHEN x + z > 12 THEN 'oak' WHEN x > 4 THEN 'it''s elm' ELSE 'ash' END AS tree,
           CASE WHEN x + 2 * sin(i) > 5 THEN 'yes' ELSE 'no' END AS tall
    FROM (SELECT i, i * 7919 % 97 / 10.0 AS x, i * 104729 % 89 / 10.0 AS z
          FROM generate_series(1, 300) AS s(i)) AS t"""
GIVEN: dict[str, Any] = {"source": "plants", "features": ["x", "z"], "l2": 0.01}


@pytest.fixture
def plants(con: Any) -> Any:
    con.execute(ROWS)
    return con


@pytest.fixture
def twin(cluster: Any) -> Any:
    """The same rows in PostgreSQL."""
    cluster.create_database("tusk_plants")
    with cluster.connect("tusk_plants") as session:
        session.execute(ROWS)
        yield session
    cluster.drop_database("tusk_plants")


@pytest.fixture(params=["plants", "twin"])
def session(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def rows_of(session: Any, columns: str, where: str = "true") -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = session.execute(
        f"SELECT {columns} FROM plants WHERE {where} ORDER BY i"
    ).fetchall()
    return found


@pytest.mark.parametrize("label", ["kind", "tree"])
def test_more_than_two_classes(session: Any, label: str) -> None:
    model = train(session, "logistic", label=label, **GIVEN)
    found = evaluate(session, model, source="plants", curves=True)
    given = rows_of(session, f"x::float8, z::float8, {label}")
    X, y = np.array([row[:2] for row in given]), [str(row[2]) for row in given]
    shares, names = model.predict_probas(X), model.class_names
    predicted = [names[k] for k in shares.argmax(axis=1)]
    assert found["n_rows"] == 300
    assert found["log_loss"] == pytest.approx(reference.log_loss(y, shares, labels=names))
    assert found["accuracy"] == pytest.approx(reference.accuracy_score(y, predicted))
    macro = reference.f1_score(y, predicted, average="macro")
    assert found["f1_macro"] == pytest.approx(macro)
    counts = reference.confusion_matrix(y, predicted, labels=sorted(names))
    cells = {(cell["label"], cell["predicted"]): cell["n"] for cell in found["confusion"]}
    expected = {
        (a, b): int(counts[i, j])
        for i, a in enumerate(sorted(names))
        for j, b in enumerate(sorted(names))
        if counts[i, j]
    }
    assert cells == expected


def test_two_classes_that_are_text(session: Any) -> None:
    """As if the label were whether it is the second of the names."""
    model = train(session, "logistic", label="tall", **GIVEN)
    found = evaluate(session, model, source="plants", curves=True)
    coded = train(session, "logistic", label="tall = 'yes'", **GIVEN)
    assert found == evaluate(session, coded, source="plants", curves=True)
    with pytest.raises(DataError, match="the label of 300 rows is neither of the model's two"):
        evaluate(session, model, source="plants", label="'perhaps'")


def test_models_by_group_and_in_a_table(session: Any) -> None:
    by = {**GIVEN, "group_by": "field", "label": "tree"}
    models = train(session, "logistic", **by)
    found = evaluate(session, models, source="plants")
    assert list(found) == [0, 1, 2]
    for field, metrics in found.items():
        alone = f"SELECT * FROM plants WHERE field = {field}"
        expected = evaluate(session, models[field], source=alone)
        assert metrics == pytest.approx(expected, rel=1e-12)
    train(session, "logistic", into="kept", **by)
    kept = evaluate(session, "kept", source="plants", label="tree", features=["x", "z"],
                    group_by="field")  # fmt: skip
    assert {k: pytest.approx(v, rel=1e-12) for k, v in kept.items()} == found


def test_labels_that_no_class_is_called(session: Any) -> None:
    model = train(session, "logistic", label="tree", **GIVEN)
    given = "SELECT *, CASE WHEN x > {} THEN 'yew' ELSE tree END AS other FROM plants"
    with pytest.raises(DataError, match="the label of 300 rows is none of the model's classes"):
        evaluate(session, model, source=given.format(-1e9), label="other")
    some = evaluate(session, model, source=given.format(1), label="other")
    wrong = evaluate(session, model, source="SELECT * FROM plants WHERE x > 1")["n_rows"]
    right = evaluate(session, model, source="SELECT * FROM plants WHERE NOT x > 1")
    assert 0 < wrong < 300
    assert some["accuracy"] == pytest.approx(right["accuracy"] * (1 - wrong / 300), rel=1e-9)
    loss = right["log_loss"] * (1 - wrong / 300) - np.log(np.finfo(float).eps) * wrong / 300
    assert some["log_loss"] == pytest.approx(loss, rel=1e-9)
    linear = train(session, "linear", label="kind", **GIVEN)
    with pytest.raises(DataError, match="expected a number or a boolean"):
        evaluate(session, linear, source="plants", label="tree")


def test_predictions_by_name(session: Any) -> None:
    model = train(session, "logistic", label="tree", **GIVEN)
    found = predict(session, model, source="plants", kind="predict_class", columns="i",
                    returns="numpy")  # fmt: skip
    X = np.array(rows_of(session, "x::float8, z::float8"))
    order = np.argsort(found["i"])
    assert [str(one) for one in found["class"][order]] == model.predict_class(X)


def test_an_estimator_of_many_classes(plants: Any) -> None:
    estimators = pytest.importorskip("tuskml.estimators")
    frame = plants.execute("SELECT x, z, tree FROM plants").df()
    fitted = estimators.TuskClassifier(l2=0.01).fit(frame[["x", "z"]], frame["tree"])
    found = evaluate(plants, fitted, source="plants", label="tree")
    y, p = frame["tree"], fitted.predict_proba(frame[["x", "z"]])
    assert found["log_loss"] == pytest.approx(reference.log_loss(y, p, labels=fitted.classes_))
    assert found["accuracy"] == pytest.approx(fitted.score(frame[["x", "z"]], y))


def test_a_group_with_one_class_among_others(session: Any) -> None:
    """It has the probability of that class, and other labels share the rest."""
    some = "(SELECT * FROM plants WHERE field > 0 OR tree = 'ash') AS t"
    given = {**GIVEN, "source": f"SELECT * FROM {some}", "group_by": "field"}
    models = train(session, "logistic", label="tree", **given)
    assert models[0].status == "one class"
    found = evaluate(session, models, source="plants", label="tree")
    rows = rows_of(session, "x::float8, z::float8, tree", "field = 0")
    p = np.array([models[0].predict_probas([row[:2]])[0][0] for row in rows])
    ash = np.array([row[2] == "ash" for row in rows])
    assert 0 < ash.sum() < len(ash)
    assert (p == 1).all()
    assert found[0]["log_loss"] == pytest.approx(
        -np.log(np.clip(np.where(ash, p, 1 - p), np.finfo(float).eps, 1)).mean()
    )
    assert found[1]["log_loss"] < found[0]["log_loss"]


@pytest.mark.parametrize("label", ["tall", "tree"])
def test_weights(session: Any, label: str) -> None:
    """Metrics and curves are those of rows that count so often; weight 0 is no row."""
    model = train(session, "logistic", label=label, **GIVEN)
    weight, columns = "CASE WHEN i > 5 THEN i % 4 END", "x::float8, z::float8"
    found = evaluate(session, model, source="plants", weight=weight, curves=True)
    rows = rows_of(session, f"{columns}, {label}, i % 4", "i > 5 AND i % 4 > 0")
    X, w = np.array([row[:2] for row in rows]), [row[3] for row in rows]
    y, shares = [row[2] for row in rows], model.predict_probas(np.array([row[:2] for row in rows]))
    names = model.class_names
    predicted = [names[k] for k in shares.argmax(axis=1)]
    assert found["n_rows"] == len(X)
    assert found["accuracy"] == pytest.approx(
        reference.accuracy_score(y, predicted, sample_weight=w)
    )
    assert found["log_loss"] == pytest.approx(
        reference.log_loss(y, shares, labels=names, sample_weight=w)
    )
    if label == "tree":
        assert sum(row["weight"] for row in found["confusion"]) == pytest.approx(sum(w))
        return
    high = [one == names[1] for one in y]
    assert found["auc"] == pytest.approx(
        reference.roc_auc_score(high, shares[:, 1], sample_weight=w)
    )
    fpr, tpr, _ = reference.roc_curve(high, shares[:, 1], sample_weight=w, drop_intermediate=False)
    assert [row["tpr"] for row in found["roc_curve"]] == pytest.approx(tpr)
    assert [row["fpr"] for row in found["roc_curve"]] == pytest.approx(fpr)
    assert sum(row["n"] for row in found["calibration"]) == len(X)


def test_offsets(session: Any) -> None:
    """Counts are compared with what is predicted for their exposure."""
    given = {"source": "plants", "features": ["x", "z"], "offset": "ln(1 + i % 3)"}
    model = train(session, "poisson", label="kind", **given)
    found = evaluate(session, model, source="plants", offset="ln(1 + i % 3)", weight="1 + i % 2")
    rows = np.array(
        rows_of(
            session, "x::float8, z::float8, kind::float8, (1 + i % 3)::float8, (1 + i % 2)::float8"
        )
    )
    expected = model.predict(rows[:, :2]) * rows[:, 3]
    error = reference.mean_squared_error(rows[:, 2], expected, sample_weight=rows[:, 4])
    assert found["rmse"] == pytest.approx(error**0.5)
    assert evaluate(session, model, source="plants")["rmse"] != pytest.approx(found["rmse"])
    answers = [
        predict(session, model, source="plants", kind=kind, offset="ln(1 + i % 3)", columns="i")
        for kind in ("predict", "decision")
    ]
    shown = [one.sort_values("i").iloc[:, -1].dropna().to_numpy() for one in answers]
    assert shown[0] == pytest.approx(np.exp(shown[1]))


def test_offsets_of_classes(session: Any) -> None:
    """The probability of the margin plus the offset, in predictions and in all metrics."""
    model = train(session, "logistic", label="tall", offset="z / 3", **GIVEN)
    asked = {"source": "plants", "offset": "z / 3", "returns": "numpy"}
    found = predict(session, model, kind="predict_proba", columns="tall", **asked)
    known = np.isfinite(found["probability"])
    tall, p = found["tall"][known] == "yes", found["probability"][known].astype(float)
    metrics = evaluate(session, model, source="plants", offset="z / 3")
    assert metrics["log_loss"] == pytest.approx(reference.log_loss(tall, p))
    assert metrics["auc"] == pytest.approx(reference.roc_auc_score(tall, p))
    assert metrics["accuracy"] == pytest.approx(np.mean(tall == (p > 0.5)))
    plain = evaluate(session, model, source="plants")
    assert metrics["log_loss"] < plain["log_loss"]


def test_models_without_offsets_say_so(session: Any) -> None:
    tall = train(session, "svm", label="tall", **GIVEN)
    with pytest.raises(DataError, match="offset is given for a model of task 'svm', expected"):
        evaluate(session, tall, source="plants", offset="x")
    with pytest.raises(DataError, match="offset is given for a model of task 'svm', expected"):
        predict(session, tall, source="plants", offset="x")
    with pytest.raises(DataError, match="offset is given with kind 'predict_probas', expected"):
        predict(session, tall, source="plants", kind="predict_probas", offset="x")
