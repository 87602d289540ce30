"""Option `reference`, and `null` of option `unseen`."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import numpy as np
import pandas as pd
import psycopg
import pytest

import tuskml
from tuskml.learners.models import INVALID

ROWS = """
CREATE TABLE seen AS
SELECT i, i % 2 AS g, CAST(i * 37 % 23 AS DOUBLE PRECISION) AS a, 'k' || (i * i % 7 % 4) AS k, 10 + i * 5 % 3 AS n,
       i % 5 < 2 AS b, CAST(i * 37 % 23 + 3 * (i * i % 7 % 4) + i * i % 11 AS DOUBLE PRECISION) AS y, i * i % 11 > 4 AS two, i * i % 6 AS whole
FROM {series} ORDER BY i
"""
SERIES = {"duck": "range(1, 151) AS t(i)", "post": "generate_series(1, 150) AS t(i)"}
FEATURES = ("a", "k", "n", "b")
GIVEN = {"categories": ["n"], "epsilon": 1e-12, "deterministic": True}
LABELS = {"linear": "y", "logistic": "two", "poisson": "whole"}
LEVELS = {"k": "k2", "n": 11, "b": True}


def trained(session: tuple[str, Any], task: str, label: str, options: dict[str, Any]) -> Any:
    """A model of the rows in either database, by Python."""
    name, con = session
    con.execute(ROWS.format(series=SERIES[name]))
    return tuskml.train(con, task, source="seen", label=label, features=FEATURES, **options)


def frame() -> pd.DataFrame:
    """The same rows; categories are texts as models have them."""
    i = np.arange(1, 151)
    k = [f"k{one}" for one in i * i % 7 % 4]
    b = np.where(i % 5 < 2, "true", "false")
    y = i * 37 % 23 + 3 * (i * i % 7 % 4) + i * i % 11
    given = {"a": i * 37 % 23, "k": k, "n": [str(10 + one) for one in i * 5 % 3], "b": b, "y": y}
    return pd.DataFrame(given | {"two": (i * i % 11 > 4).astype(int), "whole": i * i % 6})


def expected(task: str, levels: dict[str, str]) -> dict[str, tuple[float, float]]:
    """The coefficients and standard errors of statsmodels, by our names."""
    formulas = pytest.importorskip("statsmodels.formula.api")
    terms = [f"C({one}, Treatment(reference={levels[one]!r}))" for one in ("k", "n", "b")]
    formula = f"{LABELS[task]} ~ a + {' + '.join(terms)}"
    if task == "linear":
        found = formulas.ols(formula, frame()).fit()
    else:
        families = pytest.importorskip("statsmodels.api").families
        family = families.Binomial() if task == "logistic" else families.Poisson()
        found = formulas.glm(formula, frame(), family=family).fit(
            tol=1e-12, tol_criterion="params"
        )
    names = [name.replace("Intercept", "intercept") for name in found.params.index]
    for one, term in zip(("k", "n", "b"), terms, strict=True):
        names = [name.replace(f"{term}[T.", f"{one}[") for name in names]
    return dict(zip(names, zip(found.params, found.bse, strict=True), strict=True))


@pytest.mark.parametrize("task", LABELS)
@pytest.mark.parametrize("reference", [LEVELS, "most frequent", None])
def test_coefficients_are_those_of_statsmodels(
    session: tuple[str, Any], task: str, reference: Any
) -> None:
    options = {} if reference is None else {"reference": reference}
    model = trained(session, task, LABELS[task], GIVEN | options)
    levels = {"k": "k0", "n": "10", "b": "false"}
    if reference == "most frequent":
        levels = {one: frame()[one].value_counts().sort_index().idxmax() for one in levels}
    elif reference is not None:
        levels = {"k": "k2", "n": "11", "b": "true"}
    terms = expected(task, levels)
    found = dict(
        zip(
            ("intercept", *model.feature_names),
            zip([model.intercept, *model.coef], model.std_err, strict=True),
            strict=True,
        )
    )
    assert found.keys() == terms.keys()
    for name, pair in terms.items():
        assert found[name] == pytest.approx(pair, rel=1e-6, abs=1e-6), name


def test_predictions_do_not_depend_on_it(session: tuple[str, Any]) -> None:
    """Of rows, gaps and new levels, since the model is the same but for its coefficients."""
    options = GIVEN | {"missing": "level", "interactions": [["k", "n"]]}
    plain = trained(session, "linear", "y", options)
    session[1].execute("DROP TABLE seen")
    other = trained(session, "linear", "y", options | {"reference": LEVELS})
    rows = frame().assign(n=lambda seen: seen.n.astype(float), b=lambda seen: seen.b == "true")
    assert other.coef != plain.coef
    np.testing.assert_allclose(other.predict(rows), plain.predict(rows), rtol=1e-8)


def test_a_group_without_the_level(session: tuple[str, Any]) -> None:
    """Others are trained; rare levels that are named stay."""
    name, con = session
    con.execute(ROWS.format(series=SERIES[name]))
    where = "SELECT * FROM seen WHERE g = 0 OR k <> 'k1'"
    given = {"source": where, "label": "y", "features": ("a", "k"), "group_by": "g"}
    given |= {"reference": {"k": "k1"}, "min_count": 70}
    models = tuskml.train(con, "linear", **given)
    assert models[0].status == "ok"
    assert models[0].feature_names == ("a", "k[other]")
    assert models[1].status == INVALID
    sentence = "option 'reference' has 'k1' for column 'k', which the rows of a group do not have, expected "
    assert sentence in models[1].plan
    with pytest.raises(Exception, match="'k1' for column 'k', which the rows of a group do not"):
        tuskml.train(con, "linear", **given, invalid="error")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"reference": {"a": "k1"}}, "option 'reference' names 'a', expected a category: k, b"),
        ({"reference": {"k": "k1"}, "l2": 0.1}, "option 'reference' is for option 'l2'"),
        ({"reference": {"k": None}}, "option 'reference'"),
        ({"reference": {}}, "option 'reference'"),
    ],
)
def test_what_is_refused(con: Any, options: dict[str, Any], sentence: str) -> None:
    con.execute(ROWS.format(series=SERIES["duck"]))
    with pytest.raises(tuskml.TuskError, match=sentence):
        tuskml.train(con, "linear", source="seen", label="y", features=FEATURES, **options)


def test_the_first_value_of_an_enum(con: Any) -> None:
    con.execute("CREATE TYPE sizes AS ENUM ('small', 'large', 'huge')")
    query = "SELECT train_model('linear', i, {'s': (['small', 'large', 'huge'][1 + i % 3])::sizes}, {'reference': {'s': enum_first(NULL::sizes)}}).features FROM range(9) AS t(i)"
    assert con.execute(query).fetchone() == (["s[huge]", "s[large]"],)


# --- new levels ---

NEW = "{'a': 1.0, 'k': 'new'}"
TASKS = {
    "linear": {},
    "logistic": {},
    "gbdt": {"trees": 3},
    "random_forest": {"trees": 3},
    "mlp": {"max_iter": 2},
    "fm": {"max_iter": 2},
    "lasso": {"path": {"length": 3}},
}


ENCODED = [(task, "native") for task in TASKS] + [
    ("gbdt", "one_hot"),
    ("random_forest", "one_hot"),
]
"""Tasks, and how they encode categories; only trees have a choice."""


@pytest.mark.parametrize(("task", "encoding"), ENCODED)
def test_new_levels_are_predicted_as_null(
    session: tuple[str, Any], task: str, encoding: str
) -> None:
    name, con = session
    con.execute(ROWS.format(series=SERIES[name]))
    options = TASKS[task] | {"unseen": "null"}
    options |= {"category_encoding": encoding} if encoding == "one_hot" else {}
    label = "two" if task == "logistic" else "y"
    train = f"SELECT train_model('{task}', {label}, r, '{json.dumps(options)}') AS m FROM seen AS s, LATERAL (SELECT s.a, s.k) AS r"
    con.execute(f"CREATE TABLE models AS {train}")
    for level, null in (("k1", False), ("new", True)):
        rows = f"(SELECT CAST(1 AS DOUBLE PRECISION) AS a, '{level}' AS k) AS r"
        for function in ("predict", "decision"):
            ((found,),) = con.execute(f"SELECT {function}(m, r) FROM models, {rows}").fetchall()
            assert (found is None) == null
    # of many rows at a time, which are predicted by tables of weights
    many = "(SELECT s.a, CASE WHEN s.i % 3 = 0 THEN 'new' || s.i ELSE s.k END AS k FROM seen AS s ORDER BY s.i) AS r"
    found = con.execute(f"SELECT r.k, predict(m, r) FROM models, {many}").fetchall()
    assert all((p is None) == k.startswith("new") for k, p in found)
    assert sum(p is None for _, p in found) == 50


def test_rare_levels_take_new_ones(con: Any) -> None:
    con.execute(ROWS.format(series=SERIES["duck"]))
    options = {"unseen": "null", "min_count": 50}
    model = tuskml.train(con, "linear", source="seen", label="y", features=("a", "k"), **options)
    assert "k[other]" in model.feature_names
    assert model.predict(pd.DataFrame({"a": [1.0], "k": ["new"]}))[0] == pytest.approx(
        model.intercept + model.coef[0] + model.coef[model.feature_names.index("k[other]")]
    )


def test_postgres_keeps_null_of_new_levels(post: psycopg.Connection) -> None:
    """A model as text and back is the same."""
    post.execute(ROWS.format(series=SERIES["post"]))
    model = "SELECT train_model('linear', y, r, '{\"unseen\": \"null\"}') AS m FROM seen AS s, LATERAL (SELECT s.k) AS r"
    post.execute(f"CREATE TABLE models AS {model}")
    again = "SELECT predict(with_payload(m), r) FROM models, (SELECT 'new' AS k) AS r"
    assert post.execute(again).fetchall() == [(None,)]
