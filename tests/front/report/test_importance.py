"""The report's section on the features of trees."""

import duckdb
import numpy as np
from outline import Outline

from tuskml.report import group_of, page

ROWS = "FROM (SELECT i % 3 AS g, i % 10 AS a, (i * 7919 % 101) / 101 AS b FROM range(600) r(i))"


def test_shares_are_those_of_feature_importance(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(f"CREATE TABLE m AS SELECT train_model('gbdt', a + 2 * b, [a, b]) AS m {ROWS}")
    value = con.execute("SELECT m FROM m").fetchall()[0][0]
    gains = dict(
        con.execute("SELECT feature, gain FROM feature_importance((SELECT m FROM m))").fetchall()
    )
    text = Outline(page([group_of([], value)])).text
    for name, gain in gains.items():
        assert f"{name} {gain / sum(gains.values()):.1%}" in text
    assert "The share of each feature in what all splits of a model gained" in text
    assert "Largest coefficients" not in text


def test_many_models_have_their_spread(con: duckdb.DuckDBPyConnection) -> None:
    found = con.execute(
        f"SELECT g, train_model('gbdt', a + 9 * g * b, {{'a': a, 'b': b}}) AS m {ROWS} GROUP BY g"
    ).fetchall()
    shares = []
    for g, _ in found:
        con.execute("CREATE OR REPLACE TABLE one AS SELECT train_model('gbdt', a + 9 * g * b, "
                    f"{{'a': a, 'b': b}}) AS m {ROWS} WHERE g = ?", [g])  # fmt: skip
        told = con.execute("SELECT feature, gain FROM feature_importance((SELECT m FROM one))")
        gains = dict(told.fetchall())
        shares.append(gains["a"] / sum(gains.values()))
    low, middle, high = np.percentile(shares, [10, 50, 90])
    text = Outline(page([group_of([g], value) for g, value in found], keys=["g"])).text
    assert f"a {middle:.1%}, from {low:.1%} to {high:.1%}" in text
    assert "Medians over 3 models" in text
