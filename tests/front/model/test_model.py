"""`tuskml.Model`: JSON to the bit, coefficients by name, summaries, and predictions as SQL's."""

import json
import math
import struct
from dataclasses import fields, replace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

import tuskml
from tuskml import DataError, Model, train
from tuskml.model.file import digest

mpl.use("Agg")
ROWS = """
CREATE TABLE trips AS
SELECT i % 3 AS city, hash(i) % 100 / 10.0 AS delay, hash(i + 1) % 7 AS hour,
       hash(i + 3) % 10 + hash(i) % 100 / 10.0 > 8 AS late,
       3 * (hash(i) % 100) / 10.0 - hash(i + 1) % 7 + hash(i + 5) % 13 AS fare
FROM range(400) t(i)
"""
GIVEN: dict[str, Any] = {"source": "trips", "features": ["delay", "hour"]}


@pytest.fixture
def trips(con):
    con.execute(ROWS)
    return con


@pytest.fixture
def late(trips) -> Model:
    return train(trips, "logistic", label="late", **GIVEN)


def bits(value: Any) -> Any:
    """A value with its doubles as bits, so that equal means the same."""
    if isinstance(value, float):
        return struct.pack("d", math.nan if math.isnan(value) else value)
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    return [bits(item) for item in value] if isinstance(value, list | tuple) else value


DOUBLES = st.floats(allow_nan=True, allow_infinity=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
COUNTS = st.integers(0, 2**63 - 1)
MODELS = st.builds(
    Model,
    task=st.sampled_from(["linear", "logistic", "svm"]),
    coef=st.none() | st.lists(DOUBLES, max_size=5),
    intercept=DOUBLES,
    std_err=st.none() | st.lists(st.none() | DOUBLES, max_size=5),
    classes=st.none() | st.lists(DOUBLES, max_size=2),
    n_rows=COUNTS,
    n_skipped=COUNTS,
    n_features=COUNTS,
    loss=DOUBLES,
    history=st.none() | st.lists(DOUBLES, max_size=4),
    iterations=COUNTS,
    converged=st.booleans(),
    status=st.text(max_size=9),
    plan=st.text(max_size=9),
    seconds=DOUBLES,
    options=st.dictionaries(st.text(max_size=4), JSON, max_size=3),
    store=st.none() | st.text(max_size=9),
    features=st.lists(st.text(max_size=9), max_size=3).map(tuple),
    label=st.none() | st.text(max_size=9),
)


@given(MODELS)
def test_json_keeps_every_bit(model: Model) -> None:
    again = Model.from_json(model.to_json())
    for field in fields(Model):
        assert bits(getattr(again, field.name)) == bits(getattr(model, field.name)), field.name
    assert Model.from_json(model.to_json().encode()).to_json() == model.to_json()


@pytest.mark.smoke
def test_json_may_be_laid_out_anew(late: Model) -> None:
    laid_out = json.dumps(json.loads(late.to_json()), indent=2, sort_keys=True)
    assert Model.from_json(laid_out) == late


@given(st.data())
def test_a_changed_character_is_never_another_model(data: st.DataObject) -> None:
    text = SAVED.to_json()
    place = data.draw(st.integers(0, len(text) - 1))
    changed = text[:place] + data.draw(st.characters(codec="ascii")) + text[place + 1 :]
    try:
        found = Model.from_json(changed)
    except DataError:
        return
    assert found == SAVED


SAVED = Model("logistic", [0.1, -2.5e-300], 1 / 3, [0.5, None, 2.0], [0.0, 1.0], 9, 0, 2, 0.5,
              [0.7, 0.5], 3, True, "ok", "newton", 0.01, {"tuskml": 1, "l2": 0.1}, None,
              ("a", "b > 1"), "y")  # fmt: skip


def rewritten(**change: Any) -> str:
    """The saved model with other content, under a checksum that fits."""
    whole = json.loads(SAVED.to_json())
    content = whole["model"] | change
    content = {name: value for name, value in content.items() if value != "drop"}
    return json.dumps(whole | {"model": content, "checksum": digest(content)})


def test_a_model_of_an_older_version_has_no_class_names() -> None:
    assert Model.from_json(rewritten(class_names="drop")) == SAVED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the model is not valid JSON"),
        (SAVED.to_json()[:-1], "the model is not valid JSON"),
        (SAVED.to_json().replace("-2.5e-300", "-2.5e300000"), "-2.5e300000 is larger than every"),
        ("[" * 100_000, "the model is not valid JSON"),
        ("[1]", "JSON but no model, expected the text that Model.to_json wrote"),
        (SAVED.to_json().replace("0.1,", "0.2,", 1), "damaged: its content has the checksum sha"),
        (
            SAVED.to_json().replace('"version": 1', '"version": 2'),
            "format version 2, written by tuskml .*reads version 1: install a newer tuskml",
        ),
        (SAVED.to_json().replace('"version": 1', '"version": true'), "version is True"),
        (rewritten(coef=["x"]), "field 'coef' is not of its kind"),
        (rewritten(n_rows=-1), "field 'n_rows' is not of its kind"),
        (rewritten(plan="drop"), "the model lacks 'plan'"),
        (rewritten(colour=1), "unknown field 'colour'"),
        (7, "the model is of type int"),
    ],
)
def test_text_that_is_no_whole_model_is_refused(text: Any, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        Model.from_json(text)
    assert "\n" not in str(caught.value)


def test_coefficients_have_names(late: Model, trips) -> None:
    assert list(late.coefficients) == ["delay", "hour"]
    assert pd.Series(late.coefficients)["hour"] == late.coef[1]
    array = train(trips, "linear", source="trips", label="fare", features="[delay, hour]")
    assert list(array.coefficients) == ["[delay, hour][1]", "[delay, hour][2]"]
    assert list(replace(late, features=()).coefficients) == ["x1", "x2"]
    with pytest.raises(DataError, match="two features are called 'a'"):
        _ = replace(late, features=("a", "a")).coefficients
    with pytest.raises(DataError, match="tuskml store export ads@1 FILE"):
        _ = replace(late, coef=None, store="ads@1").coefficients


@pytest.mark.parametrize(("task", "label"), [("linear", "fare"), ("logistic", "late::INT")])
def test_the_summary_is_statsmodels_s(trips, task: str, label: str) -> None:
    summary = train(trips, task, label=label, epsilon=1e-10, **GIVEN).summary()
    rows = trips.execute(f"SELECT delay, hour, {label} AS y FROM trips").df()
    X, y = sm.add_constant(rows[["delay", "hour"]].astype(float)), rows["y"].astype(float)
    peer = (sm.OLS(y, X) if task == "linear" else sm.Logit(y, X)).fit(disp=False)
    assert [term.name for term in summary.terms] == ["intercept", "delay", "hour"]
    assert [term.std_err for term in summary.terms] == pytest.approx(list(peer.bse), rel=1e-5)
    assert [term.statistic for term in summary.terms] == pytest.approx(
        list(peer.tvalues), rel=1e-5
    )
    assert [term.p for term in summary.terms] == pytest.approx(list(peer.pvalues), abs=1e-8)
    assert summary.test == ("t" if task == "linear" else "z")


def test_the_summary_is_a_table_in_text_and_in_html(late: Model, trips) -> None:
    text = str(late.summary())
    assert "status      ok" in text
    assert text.splitlines()[-3].split()[:2] == ["intercept", f"{late.intercept:#.6g}"]
    assert text.splitlines()[-4].split()[0].startswith("──")
    plain = train(trips, "svm", label="late", **GIVEN | {"features": "delay, hour < 3"}, l2=0.1)
    assert "std_err" not in str(plain.summary())
    html = plain._repr_html_()
    assert "hour &lt; 3" in html
    assert html.count("<tr>") == 5
    assert "no standard errors: &#x27;svm&#x27; models have none" in html
    assert str(plain.summary()).endswith("\n  no standard errors: 'svm' models have none")
    assert late.summary().note is None
    many = replace(late, coef=[1.0] * 150, std_err=None, features=())
    assert "and 51 more in coef" in str(many.summary())
    assert repr(late).startswith("<tuskml.Model logistic: ok, 400 rows, 2 features, loss ")


NOTES = {
    "svm": ("svm", {}, "'svm' models have none"),
    "lasso": ("lasso", {"lambda": 0.1}, "'lasso' models have none"),
    "l2": ("linear", {"l2": 1e-3}, "the model has a penalty, train it without l1 and l2"),
    "l1": ("logistic", {"l1": 1e-3}, "the model has a penalty, train it without l1 and l2"),
    "class weights": (
        "logistic", {"class_weight": [1, 2]}, "the model has class weights, train it without"
    ),
    "the iterations": (
        "logistic", {"max_iter": 1, "algorithm": "lbfgs", "epsilon": 1e-12},
        "the status is 'not converged'",
    ),
    "too few rows": ("linear", {"rows": 2}, ""),
}  # fmt: skip


@pytest.mark.parametrize("why", NOTES)
def test_why_there_are_no_p_values(trips, why: str) -> None:
    """In words, the same in SQL and in Python."""
    task, options, reason = NOTES[why]
    given = {name: value for name, value in options.items() if name != "rows"}
    source = f"(SELECT * FROM trips LIMIT {options.get('rows', 400)})"
    label = "delay" if task in ("linear", "lasso") else "late"
    features = ["hour"]
    model = train(trips, task, source=source, label=label, features=features, **given)
    call = f"train_model('{task}', {label}, [hour], '{json.dumps(given)}')"
    summary = f"model_summary((SELECT {call} FROM {source}))"
    query = f"SELECT DISTINCT note, p_value FROM {summary}"
    ((note, p),) = trips.execute(query).fetchall()
    assert note.startswith(f"no standard errors: {reason}")
    assert p is None
    assert model.summary().note == note
    assert str(model.summary()).endswith(note)


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("city", [0, 1])
def test_predictions_are_sql_s(trips, task: str, city: int) -> None:
    import polars as pl

    label = "CASE WHEN city > 0 THEN late::INT * 3 - 5 ELSE -2 END"  # in city 0 one class
    model = train(trips, task, label=label, group_by="city", l2=0.01, **GIVEN)[city]
    frame = trips.execute(f"SELECT hour, city, delay FROM trips WHERE city = {city}").df()
    kinds = ["predict", "decision", *(["predict_proba"] if task == "logistic" else [])]
    for kind in kinds:
        sql = tuskml.predict(trips, model, source=frame, kind=kind, name="p", returns="numpy")["p"]
        ours = getattr(model, kind)
        np.testing.assert_allclose(ours(frame), sql, rtol=1e-12, atol=1e-13)
        array = frame[["delay", "hour"]].to_numpy()
        for rows in (array, array.tolist(), pl.from_pandas(frame), scipy.sparse.csr_array(array)):
            np.testing.assert_allclose(ours(rows), sql, rtol=1e-12, atol=1e-13)


def test_predicted_ratings_are_sql_s(con) -> None:
    con.execute(
        "CREATE TABLE ratings AS SELECT i % 7 AS u, i % 5 AS f, hash(i) % 5 AS stars "
        "FROM range(300) t(i)"
    )
    for biases in (True, False):
        model = train(con, "matrix_factorization", source="ratings", label="stars",
                      features=["u", "f"], rank=3, biases=biases)  # fmt: skip
        seen = "SELECT u, f FROM range(9) a(u), range(7) b(f)"  # two of each never seen
        rows = tuskml.predict(con, model, source=seen, returns="numpy")
        X = np.stack([rows["u"], rows["f"]], axis=1)
        np.testing.assert_allclose(model.predict(X), rows["prediction"], rtol=1e-12)
    with pytest.raises(DataError, match=r"the user, is 0\.5, expected an integer id from 0 on"):
        model.predict([[0.5, 1]])
    with pytest.raises(DataError, match="the model has 2 features, X has 3 columns"):
        model.predict([[1, 1, 1]])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0]], "the model has 2 features, X has 1 columns"),
        ([1.0, 2.0], "X has 1 dimensions, expected two"),
        ([["a", "b"]], "X is no array of numbers"),
        (pd.DataFrame({"delay": [1.0]}), "X has no column 'hour'"),
    ],
)
def test_rows_that_do_not_fit_are_refused(late: Model, X: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        late.decision(X)


def test_probabilities_are_for_logistic_only(trips) -> None:
    model = train(trips, "linear", label="fare", **GIVEN)
    with pytest.raises(DataError, match="which gives no probabilities"):
        model.predict_proba([[1, 2]])


def test_extreme_margins_do_not_overflow() -> None:
    model = replace(SAVED, coef=[1.0, 0.0], intercept=0.0)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        low, half, high = model.predict_proba([[-700.0, 0], [0, 0], [1e300, 0]])
    assert (low, half, high) == (pytest.approx(math.exp(-700)), 0.5, 1.0)


def test_coefficients_are_drawn_with_their_intervals(late: Model) -> None:
    axes = late.plot_coefficients()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["delay", "hour"]
    ((points, _, (bars,)),) = [container.lines for container in axes.containers]
    assert list(points.get_xdata()) == late.coef
    ends = [segment[:, 0] for segment in bars.get_segments()]
    for (begin, end), coef, error in zip(ends, late.coef, late.std_err[1:], strict=True):
        assert (begin, end) == pytest.approx((coef - 1.96 * error, coef + 1.96 * error))


def test_the_largest_of_many_coefficients_are_drawn(late: Model) -> None:
    coef = [float((-1) ** k * k) for k in range(100)]
    model = replace(late, coef=coef, std_err=None, features=())
    axes = model.plot_coefficients(most=3, title="Weights")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["x98", "x99", "x100"]
    assert axes.get_title(loc="left") == "Weights, 3 of 100"


@pytest.mark.parametrize(
    ("given", "kind"), [({"task": "gbdt"}, "'gbdt'"), ({"classes": [1, 2, 3]}, "of more than two")]
)
def test_numbers_that_are_no_coefficients_are_not_drawn(
    late: Model, given: dict[str, Any], kind: str
) -> None:
    with pytest.raises(DataError, match=f"the model is {kind}.*, expected one with a coefficient"):
        replace(late, **given).plot_coefficients()


def test_convergence_is_drawn_from_models(late: Model, trips) -> None:
    _, given_axes = mpl.pyplot.subplots()
    assert late.plot_convergence(given_axes, title=None) is given_axes
    cities = train(trips, "logistic", label="late", group_by="city", algorithm="bgd", **GIVEN)
    axes = cities.plot_convergence()
    assert [line.get_label() for line in axes.lines] == [str(city) for city in cities]
    mpl.pyplot.close("all")
