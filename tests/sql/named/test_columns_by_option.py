"""Listed columns of numbers that an option makes a row with names: clusters, categories and gaps."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

import tuskml
from tuskml import DataError

RANDOM = np.random.default_rng(16)
N = 120
COUNTY = RANDOM.integers(0, 11, N)
X = RANDOM.normal(size=(N, 2)).round(6)
Y = (X @ [1.0, -2.0] + RANDOM.normal(size=11)[COUNTY] + RANDOM.normal(size=N)).round(6)
GAP = np.arange(N) % 10 == 0
WHOLE = sm.add_constant(X)


def clustered(x: Any = WHOLE) -> Any:
    """The truth for both features."""
    return sm.GLM(Y, x).fit(cov_type="cluster", cov_kwds={"groups": COUNTY})


class Database:
    """One of both databases, with the rows: label y, features a, b, and b with gaps."""

    def __init__(self, session: Any, array: str, sign: str) -> None:
        self.session, self.array, self.sign = session, array, sign
        session.execute("DROP TABLE IF EXISTS counties")
        session.execute(
            "CREATE TABLE counties (y float8, a float8, b float8, gap float8, county integer)"
        )
        rows = ", ".join(
            f"({Y[i]}, {X[i, 0]}, {X[i, 1]}, {'NULL' if GAP[i] else X[i, 1]}, {COUNTY[i]})"
            for i in range(N)
        )
        session.execute(f"INSERT INTO counties VALUES {rows}")

    def train(self, features: list[str], **options: Any) -> dict[str, Any]:
        """The model of SQL's table form."""
        listed = ", ".join(f"'{name}'" for name in features)
        given = f"'counties', 'linear', 'y', {self.array}[{listed}], options {self.sign} '{json.dumps(options)}'"
        shown = ("std_err", "features", "n_rows", "coef", "preparation")
        query = f"SELECT {', '.join(shown)} FROM train({given})"
        (found,) = self.session.execute(query).fetchall()
        return dict(zip(shown, found, strict=True))


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    name, opened = session
    return Database(opened, "", ":=") if name == "duck" else Database(opened, "ARRAY", "=>")


@pytest.mark.parametrize("features", [["a", "b"], ["a", "county", "b"]])
def test_clusters_in_the_table_form(db: Database, features: list[str]) -> None:
    """Whether or not the features list their column."""
    found = db.train(features, epsilon=1e-10, cluster="county")
    assert found["features"] == ["a", "b"]
    assert found["std_err"] == pytest.approx(clustered().bse, rel=1e-6)


def test_clusters_in_python(db: Database) -> None:
    """Models predict from columns, wherever they are kept."""
    given: dict[str, Any] = {"source": "counties", "label": "y", "features": ["a", "b"]}
    how: dict[str, Any] = {"epsilon": 1e-10, "cluster": "county"}
    model = tuskml.train(db.session, "linear", **given, **how)
    truth = clustered()
    assert model.std_err == pytest.approx(truth.bse, rel=1e-6)
    assert model.trained_columns == ("a", "b")
    rows = tuskml.predict(db.session, model, source="SELECT a, b FROM counties ORDER BY a")
    expected = truth.predict(WHOLE)[np.argsort(X[:, 0])]
    assert rows["prediction"].to_numpy() == pytest.approx(expected, rel=1e-6)
    halves = tuskml.train(db.session, "linear", **given, **how, group_by="county % 2 AS half")
    found = tuskml.evaluate(db.session, halves, source="counties", group_by="county % 2 AS half")
    try:
        tuskml.train(
            db.session, "linear", **given, **how, group_by="county % 2 AS half", into="kept"
        )
        source = "SELECT *, county % 2 AS half FROM counties"
        kept = tuskml.evaluate(
            db.session, "kept", source=source, label="y", features=["a", "b"], group_by="half"
        )
    finally:
        db.session.execute("DROP TABLE IF EXISTS kept")
    assert kept.keys() == found.keys() == {0, 1}
    for key in found:
        assert kept[key] == pytest.approx(found[key])


def test_a_column_for_clusters_that_there_is_not(db: Database) -> None:
    with pytest.raises(
        Exception, match="option 'cluster' names 'conty', expected a column of the rows: a, b"
    ):
        db.train(["a", "b"], cluster="conty")
    sentence = "option 'cluster' names column 'conty', which table counties does not have.*did you mean 'county'"
    with pytest.raises(DataError, match=sentence):
        tuskml.train(
            db.session, "linear", source="counties", label="y", features=["a"], cluster="conty"
        )


def test_text_that_is_sql_is_no_column(db: Database) -> None:
    """Options name columns; they are no expressions."""
    for text in ("a + b", "(SELECT 1)", 'county" AS "q'):
        with pytest.raises(Exception, match="option 'cluster' names"):
            db.train(["a", "b"], cluster=text)


def test_categories_of_numbers(db: Database) -> None:
    found = db.train(["a", "county"], categories=["county"], epsilon=1e-10)
    levels = np.unique(COUNTY)
    dummies = [(level == COUNTY).astype(float) for level in levels[1:]]
    truth = sm.OLS(Y, np.column_stack([np.ones(N), X[:, 0], *dummies])).fit()
    assert found["coef"] == pytest.approx(truth.params[1:], rel=1e-6)


def test_gaps_of_numbers_are_imputed(db: Database) -> None:
    """The mean of the others in their place, and a feature that says where."""
    found = db.train(["a", "gap"], missing="impute", epsilon=1e-10)
    filled = np.where(GAP, X[~GAP, 1].mean(), X[:, 1])
    truth = sm.OLS(Y, np.column_stack([np.ones(N), X[:, 0], filled, GAP])).fit()
    assert (found["n_rows"], found["coef"]) == (N, pytest.approx(truth.params[1:], rel=1e-6))
    assert db.train(["a", "gap"], missing="skip")["n_rows"] == N - GAP.sum()
    with pytest.raises(Exception, match="column 'gap' is NULL in 12 rows"):
        db.train(["a", "gap"], missing="error")


def test_columns_of_numbers_stay_a_list_without_such_options(db: Database) -> None:
    assert db.train(["a", "b"], l2=0.1)["preparation"] is None
    assert db.train(["a", "b"], missing="skip")["preparation"] is None
