"""Effects of categories of many levels, absorbed in both databases: against regressions with a
feature for each level, and published ones.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm

import tuskml
from tuskml.commands.cli import main

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(2018)
N = 400
FIRM, YEAR, STATE = (RANDOM.integers(0, k, N) for k in (30, 8, 5))
TOWN = FIRM // 3
X = RANDOM.normal(size=(N, 2)) + np.c_[0.1 * FIRM, 2.0 * YEAR]
NOISE = RANDOM.normal(size=N) * (1 + YEAR / 4)
Y = X @ [1.5, -0.7] + np.sin(FIRM) + np.cos(YEAR) + 0.3 * STATE + NOISE
W = RANDOM.integers(1, 4, N)
ROWS = {
    "a": X[:, 0],
    "b": X[:, 1],
    "firm": FIRM,
    "year": YEAR,
    "state": STATE,
    "town": TOWN,
    "w": W,
}
FIELDS = ("coef", "intercept", "std_err", "status", "loss", "options", "features", "n_features")


def fit(
    client: Client,
    columns: str,
    weight: str = "",
    rows: dict[str, Any] = ROWS,
    y: Any = Y,
    **options: Any,
) -> SimpleNamespace:
    """The model of columns by name; coef and std_err by the features' names."""
    given = {name: f"c{k}" for k, name in enumerate(rows)}
    source, parameters = client.rows(np.column_stack(list(rows.values())), y)
    chosen = {name: given[name] for name in columns.split()}
    features, source = client.by_name(chosen, source)
    more = f", {given[weight]}" if weight else ""
    call = f"train_model('linear', y, {features}, '{json.dumps(options)}'{more})"
    sql = f"SELECT {', '.join(f'(m).{one}' for one in FIELDS)} FROM (SELECT {call} AS m FROM {source}) AS t"
    (found,) = client.connection.execute(sql, parameters).fetchall()
    model = SimpleNamespace(**dict(zip(FIELDS, found, strict=True)))
    model.options = json.loads(model.options)
    errors = model.std_err or [None] * (len(model.coef) + 1)
    model.std_err = dict(zip(model.features, errors[1:], strict=True))
    model.coef = dict(zip(model.features, model.coef, strict=True))
    return model


def dummies(*levels: Any) -> Any:
    """A constant and a column for each level but the first of each category."""
    columns = [np.ones(len(levels[0]))]
    for one in levels:
        columns += [one == level for level in np.unique(one)[1:]]
    return np.column_stack(columns).astype(float)


def pair(values: dict[str, Any]) -> list[Any]:
    return [values["a"], values["b"]]


@pytest.mark.parametrize("names", ["firm", "firm year", "year state firm"])
@pytest.mark.parametrize("covariance", ["classic", "HC0", "HC1"])
def test_it_is_the_regression_with_a_feature_for_each_level(
    client: Client, names: str, covariance: str
) -> None:
    whole = np.c_[X, dummies(*(ROWS[name] for name in names.split()))]
    kind = "nonrobust" if covariance == "classic" else covariance
    expected = sm.OLS(Y, whole).fit(cov_type=kind, use_t=True)
    model = fit(client, f"a b {names}", absorb=names.split(), covariance=covariance)
    assert model.status == "ok"
    np.testing.assert_allclose(pair(model.coef), expected.params[:2], rtol=1e-9)
    np.testing.assert_allclose(pair(model.std_err), expected.bse[:2], rtol=1e-9)
    np.testing.assert_allclose(model.loss, expected.ssr / N / 2, rtol=1e-10)
    assert model.options["freedom"] == expected.df_resid
    assert model.options["absorbed"] == {one: len(set(ROWS[one])) for one in names.split()}
    base = sm.OLS(Y, whole[:, 2:]).fit()
    assert model.options["within_r2"] == pytest.approx(1 - expected.ssr / base.ssr, abs=1e-10)
    levels = [model.coef[f"firm[{k}]"] for k in np.unique(FIRM)[1:]]
    at = 3 if names.startswith("firm") else 3 + 7 + 4
    np.testing.assert_allclose(levels, expected.params[at : at + 29], rtol=1e-7, atol=1e-8)
    assert model.std_err["firm[1]"] is None
    assert model.intercept == pytest.approx(expected.params[2], abs=1e-8)


@pytest.mark.parametrize(
    ("column", "weights"),
    [("state", 2 + 37), ("firm", 2 + 8), ("town", 2 + 8)],
)
def test_clusters_count_no_effects_that_are_nested_in_them(
    client: Client, column: str, weights: int
) -> None:
    """As fixest, reghdfe and Stata's xtreg: the effects of firms lie within towns, and count as one
    constant.
    """
    whole, cluster = np.c_[X, dummies(FIRM, YEAR)], ROWS[column]
    expected = sm.OLS(Y, whole).fit(cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True)
    more = "" if column == "firm" else column
    model = fit(client, f"a b firm year {more}", absorb=["firm", "year"], cluster=column)
    ratio = np.sqrt((N - whole.shape[1]) / (N - weights))
    np.testing.assert_allclose(pair(model.std_err), expected.bse[:2] * ratio, rtol=1e-9)
    assert model.options["freedom"] == len(set(cluster)) - 1


def test_all_effects_are_nested(here: Client) -> None:
    """The small-sample factor is that of Stata's xtreg: a constant and the other features."""
    whole = np.c_[X, dummies(FIRM)]
    expected = sm.OLS(Y, whole).fit(cov_type="cluster", cov_kwds={"groups": FIRM}, use_t=True)
    model = fit(here, "a b firm", absorb="firm", cluster="firm")
    ratio = np.sqrt((N - whole.shape[1]) / (N - 3))
    np.testing.assert_allclose(pair(model.std_err), expected.bse[:2] * ratio, rtol=1e-9)


def test_weights(client: Client) -> None:
    whole = np.c_[X, dummies(FIRM, YEAR)]
    absorb = {"absorb": ["firm", "year"]}
    analytic = sm.WLS(Y, whole, W).fit()
    model = fit(client, "a b firm year", "w", weight_kind="analytic", **absorb)
    np.testing.assert_allclose(pair(model.coef), analytic.params[:2], rtol=1e-9)
    np.testing.assert_allclose(pair(model.std_err), analytic.bse[:2], rtol=1e-9)
    base = sm.WLS(Y, whole[:, 2:], W).fit()
    assert model.options["within_r2"] == pytest.approx(1 - analytic.ssr / base.ssr, abs=1e-10)
    repeated = sm.OLS(np.repeat(Y, W), np.repeat(whole, W, axis=0)).fit()
    model = fit(client, "a b firm year", "w", **absorb)
    np.testing.assert_allclose(pair(model.std_err), repeated.bse[:2], rtol=1e-9)
    assert model.options["freedom"] == repeated.df_resid


def test_published_investments(client: Client) -> None:
    """Grunfeld's data: Baltagi, Econometric Analysis of Panel Data, tables 2.1 and 3.1."""
    data = sm.datasets.grunfeld.load_pandas().data
    data = data[data["firm"] != "American Steel"]
    rows = {
        "a": data["value"].to_numpy(),
        "b": data["capital"].to_numpy(),
        "firm": data["firm"].astype("category").cat.codes.to_numpy(),
        "year": data["year"].to_numpy(),
    }
    y = data["invest"].to_numpy()
    one = fit(client, "a b firm", rows=rows, y=y, absorb="firm")
    assert np.round(pair(one.coef), 3).tolist() == [0.110, 0.310]
    assert np.round(pair(one.std_err), 3).tolist() == [0.012, 0.017]
    two = fit(client, "a b firm year", rows=rows, y=y, absorb=["firm", "year"])
    assert np.round(pair(two.coef), 3).tolist() == [0.118, 0.358]
    whole = np.c_[rows["a"], rows["b"], dummies(rows["firm"], rows["year"])]
    expected = np.linalg.lstsq(whole, y, rcond=None)[0]
    np.testing.assert_allclose(pair(two.coef), expected[:2], rtol=1e-9)
    assert two.intercept == pytest.approx(expected[2], rel=1e-8)
    assert np.round(pair(two.std_err), 3).tolist() == [0.014, 0.023]


def test_parts_without_a_common_level(here: Client) -> None:
    """Years of two sets of firms do not meet: one more level is determined by the others."""
    year = YEAR + 10 * (FIRM % 2)
    whole = np.c_[X, dummies(FIRM, year)]
    keep = np.r_[0:9, 10 : whole.shape[1]]
    expected = sm.OLS(Y, whole[:, keep]).fit()
    model = fit(here, "a b firm year", rows=ROWS | {"year": year}, absorb=["firm", "year"])
    assert expected.df_resid == N - 2 - (30 + 16 - 2) == model.options["freedom"]
    np.testing.assert_allclose(pair(model.std_err), expected.bse[:2], rtol=1e-9)


def test_a_chain_of_levels(here: Client) -> None:
    """Each worker moves once, to the next firm: projections alone need thousands of rounds."""
    n = 1200
    worker, firm = np.arange(n) // 2, (np.arange(n) + 1) // 2
    once = {"a": firm / 50 + RANDOM.normal(size=n), "worker": worker, "firm": firm}
    model = fit(here, "a worker firm", rows=once, y=firm / 10, absorb=["worker", "firm"])
    assert model.status == "too few rows"
    rows = {name: np.tile(one, 2) for name, one in once.items()}
    rows |= {"a": rows["a"] + RANDOM.normal(size=2 * n), "b": RANDOM.normal(size=2 * n)}
    y = 2 * rows["a"] + 3 * rows["b"] + rows["firm"] / 10 + RANDOM.normal(size=2 * n)
    whole = np.c_[rows["a"], rows["b"], dummies(rows["worker"], rows["firm"])]
    expected = np.linalg.lstsq(whole, y, rcond=None)[0]
    model = fit(here, "a b worker firm", rows=rows, y=y, absorb=["worker", "firm"])
    np.testing.assert_allclose(pair(model.coef), expected[:2], rtol=1e-8)


def test_a_feature_that_the_levels_determine(client: Client) -> None:
    rows = ROWS | {"c": np.sqrt(FIRM + 2.0) + YEAR}
    model = fit(client, "a b c firm year", rows=rows, absorb=["firm", "year"])
    same = fit(client, "a b firm year", absorb=["firm", "year"])
    assert model.status == "collinear features"
    assert model.coef["c"] == 0
    assert model.std_err["c"] is None
    np.testing.assert_allclose(pair(model.std_err), pair(same.std_err), rtol=1e-10)


TABLE = """CREATE TABLE panel AS
SELECT i % 7 + 0.9 * (i % 3) + 5 * (i % 2) AS y, i % 5 AS speed, 'route ' || i % 3 AS route, i % 4 AS ship, i % 2 AS g
FROM generate_series(1, 120) AS r(i)"""


def test_summaries_leave_the_levels_out(client: Client) -> None:
    run = client.connection.execute
    run("DROP TABLE IF EXISTS panel")
    run(TABLE)
    features, source = client.by_name(
        {"speed": "speed", "route": "route", "ship": "ship"}, "panel"
    )
    call = f'(SELECT train_model(\'linear\', y, {features}, \'{{"absorb": ["route", "ship"]}}\') FROM {source})'
    found = run(f"SELECT feature, term, note FROM model_summary({call})").fetchall()
    assert [one[1] for one in found] == ["intercept", "speed"]
    assert found[0][2].startswith('absorbed levels {"route":3,"ship":4}, within R2 0.')
    ((effects,),) = run(f"SELECT effects FROM model_card({call})").fetchall()
    assert effects.startswith("speed ")
    assert "route" not in effects


def test_tables_of_numbers_become_rows_with_names(client: Client) -> None:
    """The table form, whose columns are a list where they are numbers."""
    run = client.connection.execute
    run("DROP TABLE IF EXISTS panel")
    run(TABLE)
    listed = "['speed', 'ship']" if client.mark == "?" else "ARRAY['speed', 'ship']"
    call = f"train('panel', 'linear', 'y', {listed}, '{{\"absorb\": \"ship\"}}')"
    ((features,),) = run(f"SELECT features FROM {call}").fetchall()
    assert features == ["speed", "ship[1]", "ship[2]", "ship[3]"]


def test_python_and_the_command_line(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    con.execute(f"{TABLE}; COPY panel TO '{tmp_path}/panel.parquet'")
    features = ["speed", "route", "ship"]
    how: dict[str, Any] = {"source": "panel", "label": "y", "features": features}
    model = tuskml.train(con, "linear", absorb=["route", "ship"], **how)
    assert isinstance(model, tuskml.Model)
    summary = model.summary()
    assert [term.name for term in summary.terms] == ["intercept", "speed"]
    assert dict(summary.facts)["absorbed"].startswith("route (3 levels), ship (4 levels); within")
    assert "route" not in (model.card()["effects"] or "")
    given = ["--source", f"{tmp_path}/panel.parquet", "--label", "y", "--features", "speed, route"]
    assert main(["train", ":memory:", "--task", "linear", *given, "--option", "absorb=route"]) == 0
    shown = capsys.readouterr().out
    assert "route (3 levels); within R2" in shown
    assert "route[" not in shown


def test_offsets_and_missing_levels(client: Client) -> None:
    """An offset is subtracted; NULL is a level of its own where `missing` says so."""
    run = client.connection.execute
    run("DROP TABLE IF EXISTS panel")
    run(TABLE)
    null = "CASE WHEN ship > 0 THEN route END"
    features, source = client.by_name({"speed": "speed", "route": null}, "panel")
    options = '{"absorb": "route", "missing": "level"}'
    found = run(
        f"SELECT (a).coef, (a).options, (b).coef FROM (SELECT train_model('linear', y, {features}, '{options}', 1, g) AS a, "
        f"train_model('linear', y - g, {features}, '{options}') AS b FROM {source}) AS t"
    ).fetchall()
    ((with_offset, told, without),) = found
    assert with_offset == pytest.approx(without, abs=1e-12)
    assert json.loads(told)["absorbed"] == {"route": 4}


def test_each_group_has_its_own_effects(client: Client) -> None:
    run = client.connection.execute
    run("DROP TABLE IF EXISTS panel")
    run(TABLE)
    features, source = client.by_name({"speed": "speed", "route": "route"}, "panel")
    sql = (
        f"SELECT g, (m).coef FROM (SELECT g, train_model('linear', y, {features}, '{{\"absorb\": \"route\"}}') AS m "
        f"FROM {source} GROUP BY g) AS t ORDER BY g"
    )
    for g, coef in run(sql).fetchall():
        i = np.array([i for i in range(1, 121) if i % 2 == g])
        whole = np.c_[i % 5, dummies(i % 3)]
        expected = np.linalg.lstsq(whole, i % 7 + 0.9 * (i % 3) + 5 * g, rcond=None)[0]
        np.testing.assert_allclose(coef, np.delete(expected, 1), atol=1e-10)


def test_predictions_add_the_effects(client: Client) -> None:
    run = client.connection.execute
    run("DROP TABLE IF EXISTS panel")
    run(TABLE)
    columns = {"speed": "speed", "route": "route", "ship": "ship"}
    features, source = client.by_name(columns, "panel")
    new, values = client.by_name(
        columns | {"route": "'other'"}, "(SELECT 3 AS speed, 1 AS ship) AS v"
    )
    for unseen in ("null", "error"):
        given = json.dumps({"absorb": ["route", "ship"], "unseen": unseen})
        call = f"(SELECT train_model('linear', y, {features}, '{given}') FROM {source})"
        predicted = f"SELECT predict(m, {features}), y FROM {source}, (SELECT {call[1:-1].removeprefix('SELECT ').split(' FROM ')[0]} AS m FROM {source}) AS t"
        p, y = np.array(run(predicted).fetchall()).astype(float).T
        i = np.arange(1, 121)
        whole = np.c_[i % 5, dummies(i % 3, i % 4)]
        truth = i % 7 + 0.9 * (i % 3) + 5 * (i % 2)
        rows = whole @ np.linalg.lstsq(whole, truth, rcond=None)[0]
        np.testing.assert_allclose(np.sort(p), np.sort(rows), atol=1e-9)
        assert abs((y - p).sum()) < 1e-8
        answer = f"SELECT predict({call}, {new}) FROM {values}"
        if unseen == "null":
            assert run(answer).fetchall() == [(None,)]
        else:
            with pytest.raises(Exception, match="other"):
                run(answer).fetchall()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"absorb": ["frim"]}, "option 'absorb' names 'frim', expected a column of the rows: a, b, firm; did you mean 'firm'"),
        ({"absorb": []}, "expected a name or a list of names"),
        ({"absorb": ["a", "b", "firm"]}, "option 'absorb' names all columns of the rows"),
        ({"absorb": "firm", "l2": 0.1}, "option 'l2' is not available with option 'absorb': leave one of them out"),
        ({"absorb": "firm", "fit": True, "likelihood_ratio": True}, "option 'likelihood_ratio' is not available with option 'absorb': leave one of them out"),
        ({"absorb": "firm", "covariance": "HC3"}, "covariance 'HC3' is not available with option 'absorb'"),
        ({"absorb": "firm", "algorithm": "lbfgs"}, "option 'algorithm' is not available with option 'absorb': leave one of them out"),
        ({"absorb": "firm", "store": "s"}, "option 'absorb' is not available with option 'store'"),
        ({"absorb": "firm", "fit_intercept": False}, "option 'fit_intercept' is not available with option 'absorb': leave one of them out"),
    ],
)  # fmt: skip
def test_refusals(client: Client, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Exception, match=sentence.replace("(", r"\(")):
        fit(client, "a b firm", **options)


def test_other_tasks_and_lists(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match="not available with task 'logistic'"):
        con.execute(
            "SELECT train_model('logistic', i % 2, {'a': i, 'k': 'x'}, '{\"absorb\": \"k\"}') FROM range(9) t(i)"
        )
    with pytest.raises(duckdb.Error, match="is for categories of rows with names"):
        con.execute(
            "SELECT train_model('linear', i % 2, [i, 2 * i], '{\"absorb\": \"k\"}') FROM range(9) t(i)"
        )


def test_many_other_features_spoil_their_group_alone(con: duckdb.DuckDBPyConnection) -> None:
    """Residuals are dense: another category of many levels is one to absorb."""
    call = "train_model('linear', sin(i), {'k': CASE WHEN g > 0 THEN i END::text, 'firm': i % 9}, '{\"absorb\": \"firm\", \"missing\": \"level\"}')"
    sql = f"SELECT m.status, m.plan FROM (SELECT g, {call} AS m FROM (SELECT i, i % 2 AS g FROM range(1300) t(i)) GROUP BY g) ORDER BY g"
    (_, plan), (status, reason) = con.execute(sql).fetchall()
    assert plan.startswith("newton")
    assert status == "invalid rows"
    assert reason.startswith("option 'absorb' leaves 6")


def test_the_order_of_rows_changes_no_bit_with_one_thread(here: Client) -> None:
    order = RANDOM.permutation(N)
    moved = {name: np.asarray(one)[order] for name, one in ROWS.items()}
    how: dict[str, Any] = {"absorb": ["firm", "year"], "threads": 1}
    one = fit(here, "a b firm year", **how)
    other = fit(here, "a b firm year", rows=moved, y=Y[order], **how)
    assert one.coef == other.coef
    assert one.std_err == other.std_err
