"""Equal rows are packed as one with their number, and models are those of all rows."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, few, here, there

from tuskml.learners.linear.tasks import LINEAR

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(31)
N, DISTINCT = 9000, 60
APART = {"invalid": "group"}
"""An option that is what it is by default, with which rows stay apart."""
CELLS = RANDOM.normal(size=(DISTINCT, 2)) * [1, 3] + [0, 1]
OF_ROW = RANDOM.integers(0, DISTINCT, N)
X = CELLS[OF_ROW]
MARGIN = 0.2 + X @ [0.5, -0.1]
LABELS = {
    "linear": np.round(MARGIN + RANDOM.normal(size=N)),
    "logistic": (MARGIN + RANDOM.logistic(size=N) > 0).astype(float),
    "poisson": np.minimum(RANDOM.poisson(np.exp(MARGIN)), 9),
    "negative_binomial": RANDOM.negative_binomial(1.5, 1.5 / (1.5 + np.exp(MARGIN))) // 2,
}
LABELS["positive"] = LABELS["poisson"] + 1.0
SETTLED = {"epsilon": 1e-9, "max_iter": 5000}
SUMMED = {"linear": 1e-12, "logistic": 1e-9, "poisson": 1e-9, "gamma": 1e-8, "tweedie": 1e-8}
"""Tolerances of tasks whose steps are solved from sums over rows."""


def labels_of(task: str) -> Any:
    if LINEAR[task].classifies:
        return LABELS["logistic"]
    names = {"tweedie": "poisson", "gamma": "positive", "inverse_gaussian": "positive"}
    return LABELS.get(names.get(task, task), LABELS["linear"])


def merged(client: Client, task: str, x: Any, y: Any, **options: Any) -> int:
    """The rows that equal others, by the explanation of a training."""
    source, parameters = client.rows(x, y)
    features = f"ARRAY[{', '.join(f'c{j}' for j in range(np.shape(x)[1]))}]"
    given = json.dumps({"format": "json"} | options)
    sql = f"SELECT explain_training('{task}', y, {features}, '{given}') FROM {source}"
    found = json.loads(client.connection.execute(sql, parameters).fetchone()[0])
    assert found["rows"] == len(y)
    return int(found["rows_merged"])


def same(a: SimpleNamespace, b: SimpleNamespace, size: float) -> None:
    facts = [(one.status, one.converged, one.n_rows) for one in (a, b)]
    assert facts[0] == facts[1]
    assert a.options.get("freedom") == b.options.get("freedom")
    numbers = [np.r_[one.intercept, one.coef, one.std_err, one.loss] for one in (a, b)]
    assert numbers[0] == pytest.approx(numbers[1], rel=size, abs=size, nan_ok=True)


@pytest.mark.parametrize("task", list(LINEAR))
def test_every_task_has_the_model_of_all_rows(client: Client, task: str) -> None:
    y = labels_of(task)
    one = client.fit(task, X, y, **SETTLED)
    same(one, client.fit(task, X, y, **SETTLED, **APART), SUMMED.get(task, 1e-6))
    assert one.n_rows == N


OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("linear", {"l2": 0.1}),
    ("linear", {"l1": 0.01}),
    ("linear", {"fit_intercept": False}),
    ("linear", {"threads": 1}),
    ("linear", {"intervals": "covariance"}),
    ("logistic", {"class_weight": "balanced"}),
    ("logistic", {"link": "probit"}),
    ("poisson", {"fit": True, "likelihood_ratio": True}),
    ("poisson", {"link": "sqrt"}),
    ("huber", {"delta": 0.5}),
    ("quantile", {"quantile": 0.3}),
    *((task, {"covariance": f"HC{k}"}) for task in ("linear", "poisson") for k in range(4)),
]


@pytest.mark.parametrize(("task", "options"), OPTIONS)
def test_options_have_the_model_of_all_rows(
    here: Client, task: str, options: dict[str, Any]
) -> None:
    y, how = labels_of(task), SETTLED | options
    assert merged(here, task, X, y, **options) > 0.8 * N
    same(here.fit(task, X, y, **how), here.fit(task, X, y, **how, **APART), 1e-6)


@given(st.integers(1, 400), st.integers(1, 4), st.integers(4000, 12000), st.booleans())
@few
def test_any_rows_that_repeat(here: Client, distinct: int, d: int, n: int, sort: bool) -> None:
    random = np.random.default_rng([distinct, d, n])
    x = random.normal(size=(distinct, d))[random.integers(0, distinct, n)]
    x = x[np.argsort(x[:, 0])] if sort else x
    y = np.round(x.sum(axis=1) + random.normal(size=n))
    same(here.fit("linear", x, y), here.fit("linear", x, y, **APART), 1e-9)


FAMILIES = {"linear": sm.families.Gaussian(), "poisson": sm.families.Poisson()}


@pytest.mark.parametrize("task", list(FAMILIES))
def test_standard_errors_are_those_of_all_rows(client: Client, task: str) -> None:
    y = labels_of(task)
    model = client.fit(task, X, y, **SETTLED)
    truth = sm.GLM(y, sm.add_constant(X), FAMILIES[task]).fit(tol=1e-13)
    assert np.r_[model.intercept, model.coef] == pytest.approx(truth.params, abs=1e-9)
    assert model.std_err == pytest.approx(truth.bse, rel=1e-8)


def test_more_than_two_classes(client: Client) -> None:
    y = np.clip(LABELS["poisson"], 0, 3)
    one, other = (client.fit("logistic", X, y, **SETTLED, **more) for more in ({}, APART))
    assert (one.n_rows, one.status) == (other.n_rows, other.status) == (N, "ok")
    assert one.coef == pytest.approx(other.coef, abs=1e-8)
    assert one.std_err == pytest.approx(other.std_err, rel=1e-8, nan_ok=True)


def test_few_distinct_rows_are_no_few_rows(here: Client) -> None:
    """Three rows, as often as they come, determine no four coefficients."""
    x = RANDOM.normal(size=(3, 5))[RANDOM.integers(0, 3, N)]
    y = np.round(x[:, 0] + RANDOM.normal(size=N))
    one, other = (here.fit("linear", x, y, **more) for more in ({}, APART))
    assert one.status == other.status == "collinear features"
    assert merged(here, "linear", x, y) > 0.9 * N


def test_rows_stay_apart_where_they_count(client: Client) -> None:
    y = labels_of("linear")
    assert merged(client, "linear", X, y) > 0.9 * N
    for more in (APART, {"validation": 0.2}, {"deterministic": True}):
        assert merged(client, "linear", X, y, **more) == 0
    assert merged(client, "gbdt", X, y) == 0
    assert merged(client, "linear", X + RANDOM.normal(size=X.shape), y) == 0
    assert merged(client, "linear", X[:3000], y[:3000]) == 0


def test_weights_and_offsets(client: Client) -> None:
    """Rows with weights stay apart; an offset is part of a row."""
    y, offset = labels_of("poisson"), np.round(RANDOM.uniform(0, 1, N))
    weighted = client.fit("poisson", X, y, more={"w": np.full(N, 2.0)}, **SETTLED)
    plain = client.fit("poisson", X, y, **SETTLED)
    assert weighted.std_err * np.sqrt(2) == pytest.approx(plain.std_err, rel=1e-7)
    more = {"w": np.ones(N), "o": offset}
    model = client.fit("poisson", X, y, more=more, **SETTLED)
    truth = sm.GLM(y, sm.add_constant(X), sm.families.Poisson(), offset=offset).fit(tol=1e-13)
    assert np.r_[model.intercept, model.coef] == pytest.approx(truth.params, abs=1e-7)


ROWS = """
SELECT k % 7 AS a, CASE k % 5 WHEN 0 THEN 'u' WHEN 1 THEN 'v' ELSE 'w' END AS b,
       nullif(k % 11, 10) AS c,
       CASE WHEN (k * 7919) % 13 + k % 7 > 8 THEN 'yes' ELSE 'no' END AS t,
       (k * 31) % 6 + k % 7 AS y, k % 4 AS g
FROM (SELECT (i * 2654435761) % 1155 AS k FROM range(60000) AS r(i))"""


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    ("task", "label", "more"),
    [
        ("linear", "y", {}),
        ("logistic", "t", {}),
        ("linear", "y", {"cluster": "c"}),
    ],
)
def test_rows_with_names(
    new_con: duckdb.DuckDBPyConnection, task: str, label: str, more: dict[str, Any], threads: int
) -> None:
    """Texts have codes of their thread, and rows of several threads come together."""
    new_con.execute(f"SET threads = {threads}")
    new_con.execute(f"CREATE TABLE rows AS {ROWS.replace('60000', '600000')}")
    call = f"train_model('{task}', {label}, {{a: a, b: b, c: c}}, '%s')"
    fields = "m.coef, m.intercept, m.std_err, m.loss, m.n_rows, m.n_skipped, m.status, m.note"

    def fit(options: dict[str, Any]) -> Any:
        sql = f"SELECT g, {fields} FROM (SELECT g, {call % json.dumps(options)} AS m FROM rows "
        return new_con.execute(sql + "GROUP BY g) ORDER BY g").fetchall()

    for one, other in zip(fit(more), fit(more | APART), strict=True):
        assert (one[0], *one[5:]) == (other[0], *other[5:])
        for a, b in zip(one[1:5], other[1:5], strict=True):
            assert a == pytest.approx(b, rel=1e-6, abs=1e-8)
    explained = new_con.execute(
        f"SELECT {call.replace('train_model', 'explain_training') % '{}'} FROM rows"
    ).fetchone()
    assert "merged into" in explained[0]


def both(sql: str) -> tuple[str, str]:
    """A query whose rows may be merged, and the same whose rows stay apart."""
    return sql.replace("OPTIONS", "{}"), sql.replace("OPTIONS", json.dumps(APART))


def test_rows_that_stop_repeating(new_con: duckdb.DuckDBPyConnection) -> None:
    """Threads that merge and threads that do not come together, whichever is first."""
    new_con.execute("SET threads = 4")
    for half in ("i < 500000", "i >= 500000"):
        x = f"CASE WHEN {half} THEN (i % 9)::DOUBLE ELSE sin(i) END"
        sql = f"""
        SELECT m.coef, m.std_err, m.n_rows, m.status FROM (
            SELECT train_model('linear', i % 5, [{x}, i % 3], 'OPTIONS') AS m
            FROM range(1000000) r(i))
        """
        one, other = (new_con.execute(query).fetchone() for query in both(sql))
        assert one[2:] == other[2:] == (1000000, "ok")
        for a, b in zip(one[:2], other[:2], strict=True):
            assert a == pytest.approx(b, rel=1e-8, abs=1e-10)


def test_groups_that_repeat_beside_others(con: duckdb.DuckDBPyConnection) -> None:
    sql = """
    SELECT g, m.coef, m.std_err, m.n_rows, m.status FROM (
        SELECT i % 6 AS g, train_model('linear', i // 6 % 5, [x, i // 6 % 4], 'OPTIONS') AS m
        FROM (
            SELECT i, CASE WHEN i % 6 < 3 THEN i // 6 % 7 ELSE sin(i) END AS x
            FROM range(60000) r(i))
        GROUP BY g) ORDER BY g
    """
    one, other = (con.execute(query).fetchall() for query in both(sql))
    for a, b in zip(one, other, strict=True):
        assert (a[0], *a[3:]) == (b[0], *b[3:])
        assert np.r_[a[1], a[2]] == pytest.approx(np.r_[b[1], b[2]], rel=1e-9, abs=1e-12)


def test_an_invalid_row_has_its_number(con: duckdb.DuckDBPyConnection) -> None:
    """Merged rows before it count as well."""
    con.execute("SET threads = 1")
    sql = """
    SELECT m.plan, m.n_skipped FROM (SELECT train_model('linear', i % 5,
        [CASE WHEN i = 30000 THEN 'nan'::DOUBLE ELSE i % 7 END]) AS m FROM range(50000) r(i))
    """
    plan, skipped = con.execute(sql).fetchone()
    assert "row 30001" in plan
    assert skipped == 50000
