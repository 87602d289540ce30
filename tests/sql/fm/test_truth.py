"""What machines find that a linear model cannot, on rows that neither was trained on."""

# ruff: noqa: E501, SQL is read better on one line

import duckdb
import pytest

PLANTED = """
CREATE TABLE clicks AS
WITH ids AS (SELECT i, hash(i * 3 + 1) % 40 AS u, 40 + hash(i * 3 + 2) % 30 AS v, i % 5 = 0 AS held FROM range(40000) r(i)),
margins AS (SELECT *, 2.5 * ((hash(u) % 1000) / 500.0 - 1) * ((hash(v + 1000) % 1000) / 500.0 - 1) AS m FROM ids)
SELECT *, hash(i * 3) % 1000000 / 1e6 < 1 / (1 + exp(-m)) AS y, sparse([u, v], [1.0, 1.0]) AS x FROM margins
"""
SAME = '"threads": 1'


def held_out(con: duckdb.DuckDBPyConnection, task: str, options: str) -> float:
    con.execute(
        f"CREATE OR REPLACE TABLE m AS SELECT train_model('{task}', y, x, '{options}') AS m FROM clicks WHERE NOT held"
    )
    return con.execute(
        "SELECT log_loss(y, predict_proba((SELECT m FROM m), x)) FROM clicks WHERE held"
    ).fetchall()[0][0]


def test_planted_interactions_are_found(con: duckdb.DuckDBPyConnection) -> None:
    """A product of an effect of u and one of v: the entropy of the labels is the least log-loss."""
    con.execute(PLANTED)
    least = con.execute("SELECT log_loss(y, 1 / (1 + exp(-m))) FROM clicks WHERE held").fetchall()[
        0
    ][0]
    plain = held_out(con, "logistic", f'{{{SAME}, "l2": 0.001}}')
    machine = held_out(
        con,
        "fm",
        f'{{{SAME}, "objective": "logistic", "rank": 2, "validation": 0.1, "max_iter": 50}}',
    )
    assert plain > least + 0.04
    assert machine < least + 0.1 * (plain - least)


def test_movielens(con: duckdb.DuckDBPyConnection, root) -> None:
    """Half a percent above the error of ALS with biases on the same rows (0.92) is too much: pairs of user and item are all that there is to find."""
    path = root.parent / "shared" / "data" / "movielens-100k.psv"
    if not path.exists():
        pytest.skip("the ratings are not there")
    con.execute(
        f"CREATE TABLE r AS SELECT \"user\"::INT AS u, item::INT AS i, rating AS y, hash(\"user\" * 7919 + item) % 10 = 0 AS held FROM read_csv('{path}', delim='|')"
    )
    options = '{"l2": 0.05, "l2_factors": 0.05, "validation": 0.1, "max_iter": 50, "threads": 1}'
    x = "sparse([u, 1000 + i], [1.0, 1.0])"
    con.execute(
        f"CREATE TABLE m AS SELECT train_model('fm', y, {x}, '{options}') AS m FROM r WHERE NOT held"
    )
    ((error, mean),) = con.execute(
        f"SELECT rmse(y, predict((SELECT m FROM m), {x})), stddev(y) FROM r WHERE held"
    ).fetchall()
    assert error < 0.91 < mean
