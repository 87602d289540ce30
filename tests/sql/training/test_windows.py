"""train_model over frames of a window, whose models are those of their rows by GROUP BY."""

# ruff: noqa: E501, SQL is read better on one line

import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))

from asking import fetch

ROWS = """
CREATE TABLE t AS SELECT i, i % 2 AS part, (i * 7919) % 101 / 50.0 AS a, (i * 104729) % 89 / 40.0 AS b,
       ['red', 'green', 'blue'][1 + (i * 31) % 3] AS colour, 1 + i % 4 AS w,
       if((i * 15485863) % 97 > 48, 'yes', 'no') AS said, (i * 611953) % 83 / 20.0 + i / 100.0 AS y
FROM range({n}) r(i)
"""
NAMED = "{'a': f.a, 'colour': f.colour}"
CALLS = {
    "list": "'linear', f.y, [f.a, f.b]",
    "weights": "'linear', f.y, [f.a, f.b], '{}', f.w",
    "sparse": "'linear', f.y, sparse([0, 7], [f.a, f.b])",
    "rows of other widths": "'linear', f.y, sparse([f.i % 3], [f.a]), '{\"l2\": 0.1}'",
    "names": f"'linear', f.y, {NAMED}, '{{\"l2\": 0.1}}'",
    "text labels": "'logistic', f.said, [f.a, f.b], '{\"l2\": 0.1}'",
    "names and text labels": f"'logistic', f.said, {NAMED}, '{{\"l2\": 0.1}}'",
}
FRAMES = {
    "rolling": ("ROWS 40 PRECEDING", "f.i BETWEEN r.i - 40 AND r.i"),
    "around": ("ROWS BETWEEN 70 PRECEDING AND 20 FOLLOWING", "f.i BETWEEN r.i - 70 AND r.i + 20"),
    "range": ("RANGE BETWEEN 300 PRECEDING AND 1 PRECEDING", "f.i BETWEEN r.i - 300 AND r.i - 1"),
    "expanding": ("ROWS UNBOUNDED PRECEDING", "f.i <= r.i"),
    "all but the row": (
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
        "f.i <> r.i",
    ),
}
SHOWN = "m.n_rows, m.n_skipped, m.status, m.class_names, m.coef, m.intercept"


def of_frames(con: duckdb.DuckDBPyConnection, call: str, frame: str) -> list[tuple]:
    over = f"train_model({call}) OVER (ORDER BY f.i {frame}) AS m"
    return fetch(con, f"SELECT i, {SHOWN} FROM (SELECT f.i AS i, {over} FROM t f) ORDER BY i")


def of_groups(con: duckdb.DuckDBPyConnection, call: str, rows: str) -> dict[int, tuple]:
    """By GROUP BY over a join of each row with the rows of its frame."""
    grouped = f"SELECT r.i AS i, train_model({call}) AS m FROM t r JOIN t f ON {rows} GROUP BY r.i"
    return {row[0]: row for row in fetch(con, f"SELECT i, {SHOWN} FROM ({grouped})")}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_has_the_model_of_its_rows(
    con: duckdb.DuckDBPyConnection, call: str, frame: str
) -> None:
    """The first block links the rows of a state that frames share, and later ones copy them."""
    con.execute(ROWS.format(n=330))
    over, rows = FRAMES[frame]
    wanted = of_groups(con, CALLS[call], rows)
    found = of_frames(con, CALLS[call], over)
    assert [row[0] for row in found] == list(range(330))
    for row in found:
        if row[0] not in wanted:
            assert row[1] is None, "a frame without rows has no model"
            continue
        other = wanted[row[0]]
        assert row[1:5] == other[1:5]
        np.testing.assert_allclose(row[5] or [], other[5] or [], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(row[6] or 0.0, other[6] or 0.0, rtol=1e-6, atol=1e-7)


def test_a_bad_row_spoils_the_frames_that_have_it_alone(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS.format(n=200))
    con.execute("UPDATE t SET a = 'NaN' WHERE i = 100; UPDATE t SET b = NULL WHERE i = 20")
    found = of_frames(con, CALLS["list"], "ROWS 39 PRECEDING")
    for i, n_rows, n_skipped, status, *_ in found:
        seen = range(max(i - 39, 0), i + 1)
        if 100 in seen:
            assert status == "invalid rows"
        else:
            assert (n_rows, n_skipped) == (len(seen) - (20 in seen), int(20 in seen))


def test_other_learners_train_over_frames(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS.format(n=200))
    for task in ("gbdt", "lasso", "random_forest"):
        call = f"'{task}', f.y, [f.a, f.b]"
        counts = [row[1] for row in of_frames(con, call, "ROWS 49 PRECEDING")]
        assert counts == [min(i + 1, 50) for i in range(200)]
    documents = "'lda', NULL, [f.colour, f.said], '{\"topics\": 2, \"max_iter\": 5}'"
    counts = [row[1] for row in of_frames(con, documents, "ROWS 49 PRECEDING")]
    assert counts == [min(i + 1, 50) for i in range(200)]
