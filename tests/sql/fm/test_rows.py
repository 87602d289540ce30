"""Rows with weights, many groups, and what the account of a statement counts."""

# ruff: noqa: E501, SQL is read better on one line

from typing import Any

import duckdb
import pytest

IDS = 1 << 18
SPARSE = "sparse([i % 7, 10 + i % 5], [1.0, 2.0])"
ROWS = "(SELECT i, i % 7 * (i % 5) AS y FROM range(600) t(i))"


def test_equal_weights_change_nothing(con: duckdb.DuckDBPyConnection) -> None:
    """Weights are scaled to the mean 1; others give another model."""
    given = f"SELECT (train_model('fm', y, {SPARSE}, '{{\"threads\": 1}}'WEIGHT)).coef FROM {ROWS}"
    none, equal, other = (
        con.execute(given.replace("WEIGHT", one)).fetchall()
        for one in ("", ", 2.0", ", 1.0 + i % 2")
    )
    assert none == equal
    assert none != other


def test_a_row_of_weight_two_is_the_row_twice(con: duckdb.DuckDBPyConnection) -> None:
    """Where one of two classes has the weight 2, at the optimum of a penalised machine."""
    options = '{"threads": 1, "objective": "logistic", "max_iter": 400, "l2": 0.01, "l2_factors": 0.01, "rank": 2}'
    rows = "(SELECT *, hash(i) % 7 * (i % 5) > 9 AS high, i % 7 AS a, 10 + i % 5 AS b FROM range(300) t(i))"
    x = "sparse([a, b], [1.0, 1.0])"
    weighted = con.execute(
        f"SELECT (train_model('fm', high, {x}, '{options}', CASE WHEN high THEN 2.0 ELSE 1.0 END)) FROM {rows}"
    ).fetchall()[0][0]
    doubled = con.execute(
        f"SELECT (train_model('fm', high, {x}, '{options}')) FROM (FROM {rows} UNION ALL FROM {rows} WHERE high)"
    ).fetchall()[0][0]
    assert weighted["loss"] == pytest.approx(doubled["loss"], rel=0.02)
    plain = con.execute(
        f"SELECT (train_model('fm', high, {x}, '{options}')).loss FROM {rows}"
    ).fetchall()[0][0]
    assert abs(plain - doubled["loss"]) > 0.04 * plain


def test_many_groups_train_as_each_alone(con: duckdb.DuckDBPyConnection) -> None:
    """Groups of different widths, in one call and one by one."""
    con.execute(
        "CREATE TABLE t AS SELECT i, i % 50 AS g, i % 7 * (i % 5) AS y, sparse([i % 7, 10 + i % 50 + i % 5], [1.0, 2.0]) AS x FROM range(3000) r(i)"
    )
    sql = "SELECT g, (train_model('fm', y, x, '{\"threads\": 2, \"deterministic\": true}')).coef FROM t WHERE ONLY GROUP BY g ORDER BY g"
    together: Any = con.execute(sql.replace("ONLY", "true")).fetchall()
    assert len({tuple(coef) for _, coef in together}) == 50
    for g in (0, 17, 49):
        assert con.execute(sql.replace("ONLY", f"g = {g}")).fetchall() == [together[g]]


@pytest.mark.nightly
def test_the_numbers_of_a_machine_are_charged(
    new_con: duckdb.DuckDBPyConnection, tmp_path: Any
) -> None:
    """A block of floats of each id: 48 with vectors of 40, 16 with those of up to 8."""
    new_con.execute("SELECT tuskml_set_memory(?, ?)", [1 << 30, str(tmp_path)]).fetchall()

    def peak(rank: int) -> int:
        new_con.execute(
            f"SELECT (train_model('fm', i % 3, sparse([(i * 7919) % {IDS}, {IDS} - 1], [1.0, 1.0]), '{{\"rank\": {rank}, \"max_iter\": 1}}')).loss FROM range(1000) r(i)"
        ).fetchall()
        return int(new_con.execute("SELECT tuskml_memory()").fetchall()[0][0]["peak"])

    small = peak(1)
    assert peak(40) - small > 0.9 * 4 * (48 - 16) * IDS


@pytest.mark.parametrize("weight", ["1e308", "1e-320"])
def test_weights_whose_sum_is_no_double_are_out_of_range(
    con: duckdb.DuckDBPyConnection, weight: str
) -> None:
    sql = f"SELECT (train_model('fm', i % 2, [1 - i % 2], '{{}}', {weight})).status FROM range(10) t(i)"
    assert con.execute(sql).fetchall() == [("out of range",)]


@pytest.mark.parametrize("far", ["10", "1e4", "1e9"])
def test_sparse_features_that_all_rows_have_are_centred(
    con: duckdb.DuckDBPyConnection, far: str
) -> None:
    """As in a list: the machine is the same, wherever they lie."""
    con.execute(
        f"CREATE TABLE t AS SELECT i, [{far} + i % 7, 1.0 + i % 5] AS x, i % 7 + i % 5 * 3 + i * 37 % 11 / 10 AS y FROM range(200) r(i)"
    )
    found = []
    for x in ("x", "sparse([0, 1], x)"):
        options = '{"threads": 1, "deterministic": true}'
        found += con.execute(
            f"SELECT any_value(m.status), any_value(m.loss), list(predict(m, {x}) ORDER BY i) FROM t, (SELECT train_model('fm', y, {x}, '{options}') AS m FROM t)"
        ).fetchall()
    (status, loss, listed), (same, near, sparse) = found
    assert status == same == ("rounded feature" if far == "1e9" else "ok")
    assert near == pytest.approx(loss, rel=1e-6)
    assert sparse == pytest.approx(listed, rel=1e-4)
    assert near < 0.1


@pytest.mark.parametrize("width", [40, 300, 2000])
@pytest.mark.parametrize("algorithm", ["adagrad", "sgd"])
def test_rows_of_many_features_have_short_steps(
    con: duckdb.DuckDBPyConnection, width: int, algorithm: str
) -> None:
    """The usual steps fit the rows, and longer ones diverge or leave the loss above."""
    rows = f"(SELECT list_transform(range({width}), lambda j: sin(i * j * 0.7 + j)) AS x, sin(i * 0.7 + 1) + 0.1 * (i % 3) AS y FROM range(150) r(i))"
    sql = f"SELECT (m).status, (m).loss, base FROM (SELECT train_model('fm', y, x, '{{\"algorithm\": \"{algorithm}\"RATE}}') AS m, var_pop(y) / 2 AS base FROM {rows})"
    ((status, loss, base),) = con.execute(sql.replace("RATE", "")).fetchall()
    assert status == "ok"
    assert loss < base / 4
    long_step = {"adagrad": 0.05, "sgd": 0.01}[algorithm]
    if width == 2000:
        ((status, loss, base),) = con.execute(
            sql.replace("RATE", f', "learning_rate": {long_step}')
        ).fetchall()
        assert status == "diverged" or loss > base / 4
