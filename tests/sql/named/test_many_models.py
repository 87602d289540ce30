"""Rows by name, each scored by the model of its group: many models come again in each chunk."""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import tuskml

ROWS, GROUPS = 6000, 60
ROW = "{'x': t.x, 'c': t.c, 'k': t.k, 'd': t.d}"
LEVELS = ["", "b", "twelve bytes", "a level of more than sixteen bytes", "Ünïcödé", "rare"]


def frame() -> pd.DataFrame:
    """Rows of 60 groups in random order, some with gaps."""
    rng = np.random.default_rng(7)
    seen = pd.DataFrame(
        {
            "i": range(ROWS),
            "g": rng.integers(0, GROUPS, ROWS),
            "x": rng.normal(size=ROWS),
            "c": rng.choice(LEVELS, ROWS),
            "k": rng.integers(1, 5, ROWS),
            "d": pd.Timestamp("2021-12-27") + pd.to_timedelta(rng.integers(0, 20, ROWS), "D"),
            "y": rng.normal(size=ROWS),
        }
    )
    seen.loc[rng.random(ROWS) < 0.05, "c"] = None
    seen.loc[rng.random(ROWS) < 0.05, "x"] = None
    return seen


@pytest.fixture(scope="module")
def own() -> Iterator[duckdb.DuckDBPyConnection]:
    con = tuskml.connect(threads=2)
    con.register("frame", frame())
    con.execute("CREATE TABLE t AS FROM frame")
    con.execute("UPDATE t SET x = NULL WHERE isnan(x)")
    yield con
    con.close()


def fitted(con: duckdb.DuckDBPyConnection, options: str, of: str = "t") -> dict[int, Any]:
    """The models by group, kept in table m."""
    con.execute(
        f"CREATE OR REPLACE TABLE m AS SELECT g, train_model('linear', y, {ROW}, '{options}') AS model FROM {of} AS t GROUP BY g"
    )
    return dict(con.execute("FROM m").fetchall())


def features(row: Any, model: dict[str, Any], fills: dict[str, Any] | None) -> float | None:
    """The margin by the names of the model's features; fills: of missing values."""
    margin = model["intercept"]
    gaps = [name for name in ("x", "c") if pd.isna(getattr(row, name))]
    if gaps and fills is None:
        return None
    x = (fills or {})["x"] if "x" in gaps else row.x
    c = (fills or {})["c"] if "c" in gaps else row.c
    levels = {
        f"c[{c}]",
        f"k[{row.k}]",
        f"d.month[{row.d.month}]",
        f"d.weekday[{row.d.day_of_week + 1}]",
    }
    levels |= {f"{name}[missing]" for name in gaps}
    for level in sorted(levels):
        other = level.partition("[")[0] + "[other]"
        if level not in model["features"] and other in model["features"]:
            levels.add(other)
    for name, weight in zip(model["features"], model["coef"], strict=True):
        value = x if name == "x" else row.d.year if name == "d.year" else float(name in levels)
        margin += weight * value
    return float(margin)


DERIVED = '"categories": ["k"], "dates": "parts", "l2": 0.01'


def check(con: duckdb.DuckDBPyConnection, models: dict[int, Any], gaps: bool) -> None:
    """Predictions of all rows at once are those by the names of the features."""
    seen = frame()
    means = seen.groupby("g").x.mean()
    usual = seen.groupby("g").c.agg(lambda c: c.value_counts().sort_index().idxmax())
    rows = con.execute(f"SELECT i, predict(model, {ROW}) FROM t JOIN m USING (g)").fetchall()
    found = dict(rows)
    for row in seen.itertuples():
        fills = {"x": means[row.g], "c": usual[row.g]} if gaps else None
        expected = features(row, models[row.g], fills)
        if expected is None:
            assert found[row.i] is None
        else:
            assert found[row.i] == pytest.approx(expected, abs=1e-9), row


def test_gaps_have_no_prediction(own: duckdb.DuckDBPyConnection) -> None:
    check(own, fitted(own, f"{{{DERIVED}}}"), gaps=False)


def test_gaps_are_filled(own: duckdb.DuckDBPyConnection) -> None:
    check(own, fitted(own, f'{{{DERIVED}, "missing": "impute"}}'), gaps=True)


def test_new_levels_weigh_what_the_others_do(own: duckdb.DuckDBPyConnection) -> None:
    """`rare` is not trained on; with max_categories, it is one of the others."""
    of = "(FROM t WHERE c <> 'rare')"
    for options in (DERIVED, f'{DERIVED}, "max_categories": 3'):
        check(own, fitted(own, f"{{{options}}}", of), gaps=False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ('"unseen": "error"', "column 'c' is 'rare', which the model was not trained on"),
        ('"missing": "error"', "column '[cx]' is NULL, expected a value as option 'missing'"),
    ],
)
def test_rows_that_are_refused(
    own: duckdb.DuckDBPyConnection, options: str, sentence: str
) -> None:
    fitted(own, f"{{{DERIVED}, {options}}}", "(FROM t WHERE c <> 'rare' AND x IS NOT NULL)")
    for _ in range(2):
        with pytest.raises(duckdb.Error, match=sentence):
            own.execute(f"SELECT sum(predict(model, {ROW})) FROM t JOIN m USING (g)").fetchall()


def test_other_columns_and_types_come_to_the_same_models(own: duckdb.DuckDBPyConnection) -> None:
    fitted(own, f"{{{DERIVED}}}")
    other = "{'more': 1, 'd': t.d::DATE, 'C': t.c, 'k': t.k::DECIMAL(5, 1), 'x': t.x}"
    rows = own.execute(
        f"SELECT predict(model, {ROW}), predict(model, {other}) FROM t JOIN m USING (g)"
    ).fetchnumpy()
    one, same = rows.values()
    assert np.ma.filled(same, np.nan) == pytest.approx(np.ma.filled(one, np.nan), nan_ok=True)
    with pytest.raises(duckdb.Error, match="column 'k' is text"):
        own.execute(
            f"SELECT sum(predict(model, {ROW.replace('t.k', 't.k::VARCHAR')})) FROM t JOIN m USING (g)"
        ).fetchall()


def test_classes_and_probabilities_of_one_model_differ(own: duckdb.DuckDBPyConnection) -> None:
    own.execute(
        f"CREATE OR REPLACE TABLE m AS SELECT g, train_model('logistic', CASE WHEN y > 0 THEN 'up' ELSE 'down' END, {ROW}, '{{{DERIVED}}}') AS model FROM t GROUP BY g"
    )
    rows = own.execute(
        f"SELECT decision(model, {ROW}), predict_proba(model, {ROW}), predict_class(model, {ROW}), predict_probas(model, {ROW})['up'] FROM t JOIN m USING (g) WHERE c IS NOT NULL AND x IS NOT NULL"
    ).fetchall()
    assert len(rows) > 5000
    for margin, p, name, of_up in rows:
        assert p == pytest.approx(1 / (1 + np.exp(-margin)))
        assert of_up == pytest.approx(p)
        assert name == ("up" if margin >= 0 else "down")
