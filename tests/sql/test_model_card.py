"""`model_card`: the same row in both databases and in Python, and the tables of models."""

import re
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm

import tuskml
from tuskml import Model, Models

Session = tuple[str, Any]
ROWS = """
CREATE TABLE given AS
SELECT i % 3 AS g, i AS x, i % 7 AS z, (i * i) % 5 AS c, 3 * i + 20 * sin(i * 1.0) AS y,
       i % 4 AS n, 'k' || (i % 3) AS k
FROM generate_series(0, 59) AS r (i)
"""
CASES = [
    ("linear", "y", "ARRAY[x, z]", "{}"),
    ("linear", "y", "ROW", "{}"),
    ("logistic", "c", "ARRAY[x, z]", "{}"),
    ("logistic", "c", "ROW", '{"l2": 0.1}'),
    ("logistic", "z > 3", "ARRAY[x, c]", '{"l2": 0.1}'),
    ("svm", "c > 3", "ARRAY[x, z]", '{"epsilon": 1e-3}'),
    ("poisson", "n", "ARRAY[x, z]", "{}"),
    ("quantile", "y", "ARRAY[x, z]", "{}"),
    ("gbdt", "y", "ROW", '{"trees": 5, "min_child_rows": 4}'),
    ("gbdt", "c", "ARRAY[x, z]", '{"trees": 2, "min_child_rows": 4}'),
    ("random_forest", "k", "ARRAY[z, c]", '{"trees": 3}'),
    ("matrix_factorization", "y", "ARRAY[z, c]", '{"rank": 2, "max_iter": 2}'),
    ("kmeans", "NULL", "ARRAY[x, z]", '{"clusters": 2}'),
    ("mlp", "y", "ARRAY[x, z]", '{"max_iter": 2}'),
    ("fm", "y", "ARRAY[x, z]", '{"max_iter": 2}'),
    ("lda", "NULL", "ARRAY[k, 'w' || z]", '{"topics": 2, "max_iter": 3}'),
    ("lasso", "y", "ARRAY[x, z]", "{}"),
    ("linear", "y", "ARRAY[x, z]", '{"l2": [0.1, 1], "folds": 2}'),
    ("linear", "y", "sparse(ARRAY[1, 2 + z], ARRAY[1.0, x])", '{"l2": 0.1}'),
    ("linear", "CAST('nan' AS float8)", "ARRAY[x, z]", "{}"),
    ("logistic", "TRUE", "ARRAY[x, z]", "{}"),
]
BY_NAME = {
    "duck": "{'x': x, 'z': z, 'k': k}",
    "post": "(SELECT r FROM (SELECT x AS x, z AS z, k AS k) AS r)",
}


def trained(session: Session, case: tuple[str, str, str, str]) -> str:
    """A call of `train_model`."""
    name, _ = session
    task, label, features, options = case
    given = BY_NAME[name] if features == "ROW" else features
    return f"train_model('{task}', {label}, {given}, '{options}')"


@pytest.mark.sample(5)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[2]}")
def test_both_databases_and_python_have_the_same_card(
    con: Any, post: Any, case: tuple[str, str, str, str]
) -> None:
    found = []
    for session in (("duck", con), ("post", post)):
        connection = session[1]
        connection.execute(ROWS)
        connection.execute(f"CREATE TABLE kept AS SELECT {trained(session, case)} AS m FROM given")
        card = connection.execute("SELECT r.* FROM kept, LATERAL model_card(m) AS r")
        names = [column[0] for column in card.description]
        found.append(dict(zip(names, card.fetchone(), strict=True)))
    model = Model.of(con.execute("SELECT m FROM kept").fetchone()[0])
    assert found[0] == found[1] == model.card()
    assert (found[0]["task"], found[0]["n_rows"]) == (case[0], model.n_rows)


def test_the_terms_with_the_largest_statistics_come_first(session: Session) -> None:
    """Their order and numbers are those of a regression by statsmodels."""
    _, con = session
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 7)) * 10.0 ** np.arange(-3, 4)
    slopes = np.array([900.0, -40, 2, 0.01, -0.001, 0.03, 0.00001])
    y = x @ slopes + rng.normal(size=200)
    con.execute("CREATE TABLE given (y float8, x float8[])")
    mark = "?" if session[0] == "duck" else "%s"
    rows = [(float(b), a.tolist()) for b, a in zip(y, x, strict=True)]
    con.cursor().executemany(f"INSERT INTO given VALUES ({mark}, {mark})", rows)
    query = "SELECT r.effects FROM (SELECT train_model('linear', y, x) AS m FROM given) AS t, "
    (effects,) = con.execute(f"{query} LATERAL model_card(m) AS r").fetchone()
    fit = sm.OLS(y, sm.add_constant(x)).fit()
    order = 1 + np.argsort(-np.abs(fit.tvalues[1:]))[:5]
    assert effects == ", ".join(f"x{k} {fit.params[k]:+.4g}" for k in order)


def test_a_card_of_no_model_has_no_row(session: Session) -> None:
    _, con = session
    con.execute(ROWS)
    call = "train_model('linear', y, ARRAY[x])"
    con.execute(f"CREATE TABLE kept AS SELECT {call} AS m FROM given WHERE x < 0")
    assert con.execute("SELECT r.* FROM kept, LATERAL model_card(m) AS r").fetchall() == []


def test_models_print_a_table_and_become_a_frame() -> None:
    pd = pytest.importorskip("pandas")
    con = tuskml.connect()
    con.execute(ROWS)
    given = {"source": "given", "label": "y", "features": ["x", "z"]}
    models = tuskml.train(con, "linear", group_by=["g", "k"], **given)
    frame = models.to_frame()
    assert list(frame.columns) == ["g", "k", *models[0, "k0"].card(), "model"]
    assert frame.set_index(["g", "k"])["effects"].to_dict() == {
        key: model.card()["effects"] for key, model in models.items()
    }
    assert isinstance(frame, pd.DataFrame)
    text = repr(models)
    assert len(text.splitlines()) == 2 + len(models)
    assert re.search(r"0 +k0 +linear +ok +20 ", text)
    assert max(map(len, text.splitlines())) <= 160


def test_a_group_without_a_model_stays_in_the_table() -> None:
    frame = Models([("a", None)], ["g"]).to_frame()
    assert frame.loc[0, ["g", "status", "n_rows", "model"]].tolist() == [
        "a",
        "no usable row",
        0,
        None,
    ]
    assert "no usable row" in repr(Models([(("a", 1), None)]))


OF_EQUAL_BITS = '"threads": 1, "deterministic": true'
FINGERPRINTED = [
    ("linear", "y", "ARRAY[x, z]", f"{{{OF_EQUAL_BITS}}}"),
    ("logistic", "k", "ARRAY[x, z]", f'{{"l2": [0.1, 1], {OF_EQUAL_BITS}}}'),
    ("gbdt", "y", "ARRAY[x, z]", '{"trees": 2, "threads": 1}'),
    ("linear", "CAST('nan' AS float8)", "ARRAY[x, z]", "{}"),
]


@pytest.mark.parametrize("case", FINGERPRINTED, ids=lambda case: f"{case[0]} of {case[1]}")
def test_fingerprints_are_equal_for_equal_predictions_alone(
    session: Session, case: tuple[str, str, str, str]
) -> None:
    _, con = session
    con.execute(ROWS)
    for name, rows in (("once", "given"), ("again", "given"), ("fewer", "given WHERE x > 3")):
        call = trained(session, case)
        con.execute(f"CREATE TABLE {name} AS SELECT {call} AS m FROM {rows}")
    alike = "model_fingerprint(once.m) = model_fingerprint({0}.m)"
    shown = f"{alike.format('again')}, {alike.format('fewer')}"
    same, other = con.execute(f"SELECT {shown} FROM once, again, fewer").fetchone()
    assert same is True
    assert other is False or "nan" in case[1]
    nothing = "SELECT model_fingerprint(m) FROM (SELECT m FROM once WHERE 1 = 0) AS t"
    assert con.execute(nothing).fetchall() == []
