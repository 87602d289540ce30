"""Rows go to their own states, whatever DuckDB hands an update: arrays small and large, or one."""

import ctypes
import random

import duckdb
import pytest

from tuskml.udas.duckdb import extension_path

pytestmark = pytest.mark.native


@pytest.fixture
def rows(con):
    con.execute("""CREATE TABLE t AS SELECT i, i % 3 AS g, (i * 7919 % 101)::DOUBLE AS y,
                   (i * 104729 % 97)::DOUBLE AS p FROM range(5000) r(i)""")
    return con


def check(con, calls, rest):
    """rmse against its formula, for each (added, order, tail) of calls: a FILTER or an OVER."""
    ours = [f"rmse(y, p + {added}{order}) {tail}" for added, order, tail in calls]
    truth = [f"sqrt(avg((y - (p + {added})) ** 2) {tail})" for added, _, tail in calls]
    for row in con.execute(f"SELECT {', '.join(ours + truth)} {rest}").fetchall():
        found, wanted = row[: len(calls)], row[len(calls) :]
        assert [value is None for value in found] == [value is None for value in wanted], rest
        for value, other in zip(found, wanted, strict=True):
            assert value is None or value == pytest.approx(other, rel=1e-9), (calls, rest)


@pytest.mark.nightly
def test_a_few_rows_pass_a_filter_in_many_states_of_the_allocator(rows):
    """Aggregates of other sizes come between, and leave other memory behind."""
    draw = random.Random(3)
    for _ in range(400):
        n, at = draw.choice([1, 2, 3, 4, 5, 8, 30]), draw.randrange(4000)
        few = f"FILTER (i BETWEEN {at} AND {at + n - 1})"
        by = draw.choice(["", "GROUP BY g", "GROUP BY i % 7", "GROUP BY CUBE (g, i % 2)"])
        check(rows, [(0, "", few)], f"FROM t WHERE i < {at + 99} {by}")


@pytest.mark.parametrize("by", ["", "GROUP BY g"])
def test_trainings_and_frequencies_of_a_few_rows(rows, by):
    few = "FILTER (i % 1000 < 2)"
    query = (
        f"SELECT (train_model('linear', y, [p]) {few}).n_rows, list_sum([f.estimate FOR f IN "
        f"(feature_frequencies([i::INTEGER]) {few})]), count(*) {few} FROM t {by}"
    )
    for _ in range(40):
        for trained, counted, wanted in rows.execute(query).fetchall():
            assert trained == counted == wanted


def test_windows_orders_and_filters_beside_each_other(rows):
    """States of all kinds are alive at once; each has its own rows and no others."""
    draw = random.Random(4)
    for _ in range(30):
        at, n = draw.randrange(4000), draw.choice([2, 3, 4, 18, 900])
        some = f"FROM (FROM t WHERE i BETWEEN {at} AND {at + n - 1})"
        overs = ["OVER ()", "OVER (PARTITION BY g)", "OVER (ORDER BY i ROWS 3 PRECEDING)"]
        check(rows, [(k, "", draw.choice(overs)) for k in range(draw.randrange(1, 9))], some)
        orders, tails = ["", " ORDER BY -i"], ["", "FILTER (i % 5 < 2)"]
        calls = [(k, draw.choice(orders), draw.choice(tails)) for k in range(6)]
        check(rows, calls, f"{some} {draw.choice(['', 'GROUP BY g', 'GROUP BY i % 2'])}")


def test_orders_and_distinct_rows_within_frames(rows):
    """Places in DuckDB 1.5 of their own, which are learned as the others are."""
    frame_of_40 = "ORDER BY i ROWS BETWEEN 40 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW"
    for frame in ("ORDER BY i ROWS 3 PRECEDING", "ORDER BY g", frame_of_40):
        check(rows, [(0, " ORDER BY -i", f"OVER ({frame})")], "FROM (FROM t LIMIT 50)")
        distinct = f"rmse(DISTINCT y, p) OVER ({frame}), rmse(y, p) OVER ({frame})"
        for found, wanted in rows.execute(f"SELECT {distinct} FROM (FROM t LIMIT 50)").fetchall():
            assert found == (wanted and pytest.approx(wanted, rel=1e-9))


def test_what_duckdb_1_needs_is_entered_by_none_else(rows):
    """Not when it loads either: what `udas/duckdb/v1` holds counts its calls."""
    for select in (
        "rmse(y, p) OVER ()",
        "rmse(y, p ORDER BY i)",
        "train_model('linear', y, [p::DECIMAL(38, 20)]) OVER (ORDER BY i ROWS 2 PRECEDING)",
        "train_model('linear', y, [12345678901234567.123456789::DECIMAL(38, 9)], '{}')",
    ):
        rows.execute(f"SELECT {select} FROM (FROM t LIMIT 30)").fetchall()
    library = ctypes.CDLL(str(extension_path()))
    library.tusk_v1_calls.restype = ctypes.c_int64
    assert (library.tusk_v1_calls() > 0) == (duckdb.__version__ < "2")
