"""Option `invalid` with feature ids beyond 31 bits: labels that a task does not have."""

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

ROWS = """
CREATE TABLE t AS SELECT i, i % 4 AS g, i % 3 AS c, i % 5 AS y, (i * 7) % 2 AS two
FROM range(160) AS t(i);
UPDATE t SET y = -2, two = 7 WHERE i = 122
"""
LABELS = {"poisson": ("y", "label is -2"), "logistic": ("two", "label is 7")}
"""Group 2 has a row, its 31st, whose label no task has."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    import tuskml

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TUSKML_STORE_ROOT", str(tmp_path_factory.mktemp("stores")))
        with tuskml.connect() as con:
            con.execute(ROWS)
            yield con


def models(con: Any, task: str, invalid: str, base: int, where: str = "true") -> dict[int, Any]:
    given = {"store": "tried", "invalid": invalid, "l2": 0.1, "threads": 1, "max_iter": 5}
    if task == "logistic":
        given["classes"] = [0, 1]
    call = (
        f"train_model('{task}', {LABELS[task][0]}, sparse([0, {base} + c], [1.0, 0.5]), "
        f"'{json.dumps(given)}')"
    )
    found = con.execute(
        f"SELECT g, (m).status, (m).n_rows, (m).n_skipped, (m).loss, (m).plan "
        f"FROM (SELECT g, {call} AS m FROM t WHERE {where} GROUP BY g)"
    ).fetchall()
    return {group: rest for group, *rest in found}


@pytest.mark.parametrize("base", [1, 4_000_000_000])
@pytest.mark.parametrize("task", LABELS)
def test_rows_are_skipped_or_their_group_has_no_model(rows: Any, task: str, base: int) -> None:
    clean = models(rows, task, "group", base, "i <> 122")
    skipped = models(rows, task, "skip", base)
    assert [skipped[g][1:3] for g in range(4)] == [[40, 0], [40, 0], [39, 1], [40, 0]]
    assert [skipped[g][3] for g in range(4)] == [clean[g][3] for g in range(4)]
    apart = models(rows, task, "group", base)
    assert [apart[g][0] == "invalid rows" for g in range(4)] == [False, False, True, False]
    assert f"{LABELS[task][1]} in row 31 of the group" in apart[2][4]
    assert [apart[g][3] for g in (0, 1, 3)] == [clean[g][3] for g in (0, 1, 3)]
    with pytest.raises(duckdb.Error, match=f"{LABELS[task][1]} in row 31 of the group"):
        models(rows, task, "error", base)
