"""Option `levels`: the same levels of a category, in the same order, in all groups."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tuskml

SIZES = ("small", "large", "huge")
"""In the order of an ENUM, which is not that of texts."""
ROWS = """
CREATE TABLE seen AS
SELECT i, i % 2 AS g, CAST((CASE WHEN i % 7 < 3 THEN 'small' WHEN i % 7 < 5 OR (i % 2 = 0 AND i % 7 < 6) THEN 'large' ELSE 'huge' END) AS sizes) AS s,
       i * i % 7 % 3 AS n, CAST(i * 37 % 23 AS DOUBLE PRECISION) AS a, CAST(i * 37 % 23 + i * i % 11 + i % 7 AS DOUBLE PRECISION) AS y
FROM {series} ORDER BY i
"""
SERIES = {"duck": "range(1, 151) AS t(i)", "post": "generate_series(1, 150) AS t(i)"}
OF_ENUM = {
    "duck": "{'levels': {'s': enum_range(NULL::sizes)}}",
    "post": "json_build_object('levels', json_build_object('s', enum_range(NULL::sizes)))::text",
}


@pytest.fixture
def rows(session: tuple[str, Any]) -> tuple[str, Any]:
    """The session with the table `seen`."""
    name, con = session
    if name == "duck" or not con.execute("SELECT to_regtype('sizes')").fetchone()[0]:
        con.execute(f"CREATE TYPE sizes AS ENUM {SIZES}")
    con.execute(ROWS.format(series=SERIES[name]))
    return session


def frame(g: int | None = None) -> pd.DataFrame:
    """The same rows, of one group or all; the category is R's factor."""
    i = np.arange(1, 151)
    large = (i % 7 < 5) | ((i % 2 == 0) & (i % 7 < 6))
    s = pd.Categorical(np.select([i % 7 < 3, large], SIZES[:2], SIZES[2]), SIZES)
    y = i * 37 % 23 + i * i % 11 + i % 7
    found = pd.DataFrame({"g": i % 2, "s": s, "n": i * i % 7 % 3, "a": i * 37 % 23, "y": y})
    return found if g is None else found[found.g == g]


def trained(rows: tuple[str, Any], task: str = "linear", **given: Any) -> Any:
    """A model for each group."""
    usual = {"source": "seen", "label": "y", "features": ("s", "a"), "group_by": "g"}
    return tuskml.train(rows[1], task, **usual | given)


def test_coefficients_are_those_of_a_factor(rows: tuple[str, Any]) -> None:
    """Treatment contrasts of R's formulas, by statsmodels, with the first level as reference."""
    formulas = pytest.importorskip("statsmodels.formula.api")
    query = f"SELECT g, train_model('linear', y, r, {OF_ENUM[rows[0]]}) AS m FROM seen AS s, LATERAL (SELECT s.s, s.a) AS r GROUP BY g"
    fields = (
        "SELECT g, m{0}.features, m{0}.coef, m{0}.std_err, m{0}.status FROM ("
        + query
        + ") AS t ORDER BY g"
    )
    found = rows[1].execute(fields.replace("m{0}", "(m)")).fetchall()
    for g, names, coef, errors, status in found:
        truth = formulas.ols("y ~ s + a", frame(g)).fit()
        assert names == ["s[large]", "s[huge]", "a"]
        assert status == "ok"
        np.testing.assert_allclose(coef, truth.params[["s[T.large]", "s[T.huge]", "a"]], rtol=1e-6)
        np.testing.assert_allclose(errors, truth.bse, rtol=1e-6)


def test_a_group_without_a_level_has_its_feature(rows: tuple[str, Any]) -> None:
    """It is constant there: 0, without a standard error."""
    source = "SELECT * FROM seen WHERE g = 0 OR s <> 'large'"
    both = trained(rows, source=source, levels={"s": SIZES})
    assert {model.feature_names for model in both.values()} == {("s[large]", "s[huge]", "a")}
    assert both[1].status == "constant feature"
    assert both[1].coef[0] == 0
    assert both[1].std_err[1] is None
    plain = trained(rows, source=source, reference={"s": "small"})[1]
    assert both[1].coef[1:] == pytest.approx(plain.coef, rel=1e-6)


@pytest.mark.parametrize("task", ["linear", "gbdt", "random_forest", "mlp", "fm"])
def test_other_levels_are_one(rows: tuple[str, Any], task: str) -> None:
    """Those beside the list are predicted as new ones, and as the level *other* of a column that
    has it for them.
    """
    whole = {"trees": 3, "l2": 0, "feature_fraction": 1, "row_fraction": 1}
    few = {"gbdt": whole, "random_forest": {"trees": 3}, "linear": {}}.get(task, {"max_iter": 3})
    given = {"group_by": (), **few}
    model = trained(rows, task, levels={"s": ["small"]}, **given)
    predicted = model.predict(pd.DataFrame({"s": ["large", "huge", "new", "small"], "a": 3.0}))
    assert predicted[0] == predicted[1] == predicted[2] != predicted[3]
    two = "SELECT y, a, CASE WHEN s = 'small' THEN 'small' ELSE 'rest' END AS s FROM seen"
    other = trained(rows, task, source=two, levels={"s": ["small", "rest"]}, **given)
    if task != "mlp":  # whose start depends on the number of levels
        again = other.predict(pd.DataFrame({"s": ["rest", "small"], "a": 3.0}))
        np.testing.assert_allclose(predicted[[0, 3]], again, rtol=1e-6)


@pytest.mark.parametrize("unseen", ["error", "null"])
def test_groups_with_other_levels_are_refused(rows: tuple[str, Any], unseen: str) -> None:
    source = "SELECT * FROM seen WHERE g = 0 OR s <> 'huge'"
    given = {"source": source, "levels": {"s": ["large", "small"]}, "unseen": unseen}
    models = trained(rows, **given)
    assert models[1].status == "ok"
    assert models[1].feature_names == ("s[small]", "a")
    assert models[0].status == "invalid rows"
    sentence = "column 's' has 'huge' in the rows of a group, which option 'levels' does not have"
    assert sentence in models[0].plan
    with pytest.raises(Exception, match=sentence):
        trained(rows, **given, invalid="error")


def test_numbers_and_parts_of_dates(con: Any) -> None:
    con.execute(
        "CREATE TABLE days AS SELECT DATE '2024-01-06' + i::INT AS d, i % 3 AS n, i % 5 AS y FROM range(50) AS t(i)"
    )
    given = {"source": "days", "label": "y", "features": ("d", "n"), "dates": "parts", "l2": 0.1}
    levels = {"d.month": [3, "2.0", 1], "n": [2, 1.0, 0]}
    model = tuskml.train(con, "linear", **given, categories=["n"], levels=levels)
    found = [name for name in model.feature_names if "month" in name or name.startswith("n[")]
    assert found == ["d.month[3]", "d.month[2]", "d.month[1]", "n[2]", "n[1]", "n[0]"]
    assert json.loads(model.preparation)["columns"][1]["levels"] == ["3", "2", "1"]


def test_rare_and_missing_levels(con: Any) -> None:
    """Listed levels stay however rare; the most frequent one fills gaps."""
    con.execute(
        "CREATE TABLE gaps AS SELECT CASE WHEN i % 4 > 0 THEN ['b', 'b', 'b', 'a'][1 + i % 4] END AS k, 'u' || (i % 2) AS u, i % 5 AS y FROM range(60) AS t(i)"
    )
    given = {"source": "gaps", "label": "y", "features": ("k", "u"), "min_count": 20}
    model = tuskml.train(
        con, "linear", **given, levels={"k": ["z", "a", "b", "c"]}, missing="impute"
    )
    assert model.feature_names[:4] == ("k[a]", "k[b]", "k[c]", "k[missing]")
    assert json.loads(model.preparation)["columns"][0]["fill"] == "b"
    trees = tuskml.train(
        con, "gbdt", **given, levels={"k": ["z", "c", "b"]}, missing="impute", trees=2
    )
    assert json.loads(trees.preparation)["columns"][0]["fill"] == "b"


def test_a_reference_among_them(con: Any) -> None:
    con.execute(
        "CREATE TABLE few AS SELECT ['b', 'c', 'a'][1 + i % 3] AS k, i % 5 AS y FROM range(60) AS t(i)"
    )
    given = {"source": "few", "label": "y", "features": ("k",), "levels": {"k": ["c", "b", "a"]}}
    assert tuskml.train(con, "linear", **given).feature_names == ("k[b]", "k[a]")
    named = tuskml.train(con, "linear", **given, reference={"k": "b"})
    assert named.feature_names == ("k[c]", "k[a]")


def test_trees_go_on_with_new_levels(con: Any) -> None:
    """The numbers of levels of the trees before stay."""
    con.execute(
        "CREATE TABLE few AS SELECT ['b', 'c', 'a'][1 + i % 3] AS k, i % 3 + i % 5 AS y FROM range(60) AS t(i)"
    )
    given = {"source": "few", "label": "y", "features": ("k",), "trees": 2, "min_child_rows": 1}
    before = tuskml.train(con, "gbdt", **given)
    after = tuskml.train(con, "gbdt", **given, warm_start=before, levels={"k": ["z", "a"]})
    old = json.loads(before.preparation)["columns"][0]["levels"]
    assert json.loads(after.preparation)["columns"][0]["levels"] == [*old, "z"]
    assert after.loss < before.loss


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        ({"a": ["x"]}, "option 'levels' names 'a', expected a category: s, n"),
        ({"n": ["x"]}, "option 'levels' has 'x' for column 'n', expected numbers below 2"),
        ({"n": [1, "1.0"]}, "option 'levels' has '1' for column 'n', expected each level once"),
        ({"s": []}, "expected an object with a list of levels"),
        ({"s": ["a", "a"]}, "expected an object with a list of levels"),
        ({"s": [None]}, "expected an object with a list of levels"),
        ({}, "expected an object with a list of levels"),
    ],
)
def test_what_is_refused(con: Any, levels: Any, sentence: str) -> None:
    con.execute(
        "CREATE TABLE few AS SELECT 'k' || i % 3 AS s, i % 2 AS n, i AS a, i % 5 AS y FROM range(60) AS t(i)"
    )
    given = {"source": "few", "label": "y", "features": ("s", "n", "a"), "categories": ["n"]}
    with pytest.raises(tuskml.TuskError, match=sentence):
        tuskml.train(con, "linear", **given, levels=levels)
