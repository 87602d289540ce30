"""Models say which columns lost rows to NULL, in both databases and on every way to a model."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

N = 40
TASKS = ("linear", "logistic", "poisson", "quantile", "lasso", "gbdt", "mlp", "fm", "svm")
QUICK = settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ITEM = re.compile(r"(feature \d+|column '\w+'|label|weight|offset|an index|a value|features|a number)"
                  r" (?:is|are) (?:NULL|NULL or 0|not allowed) in ([\d,]+) \(")  # fmt: skip


def told(note: str | None) -> dict[str, int]:
    """The counts of a note."""
    return {what: int(n.replace(",", "")) for what, n in ITEM.findall(note or "")}


def values(name: str, gaps: set[int], sql: str, n: int = N) -> str:
    """SQL of a column that is NULL in the rows with these numbers."""
    listed = ", ".join(map(str, sorted(gaps))) or "-1"
    return f"CASE WHEN i NOT IN ({listed}) THEN {sql} END AS {name}"


def features_of(name: str, kind: str) -> str:
    """SQL of features of the columns a and b."""
    listed = "[{}]" if name == "duck" else "ARRAY[{}]"
    if kind == "row":
        return "{'a': a, 'b': b}" if name == "duck" else "(SELECT q FROM (SELECT a, b) AS q)"
    if kind == "sparse":
        return f"sparse({listed.format('1, 3')}, {listed.format('a, b')})"
    return listed.format("a, b")


def model(session: tuple[str, Any], call: str, rows: str) -> tuple[str | None, int, int, str]:
    """Note, rows, skipped rows and status."""
    fields = ", ".join(f"(m).{field}" for field in ("note", "n_rows", "n_skipped", "status"))
    return (
        session[1]
        .execute(
            f"SELECT {fields} FROM (SELECT {call} AS m FROM (SELECT {rows} "
            f"FROM generate_series(0, {N - 1}) AS s(i)) AS t) AS f"
        )
        .fetchone()
    )


GAPS = st.sets(st.integers(0, N - 1), max_size=9)


@QUICK
@given(GAPS, GAPS, GAPS, GAPS, st.sampled_from(TASKS))
@pytest.mark.parametrize("kind", ["list", "sparse", "row"])
def test_counts(
    session: tuple[str, Any],
    kind: str,
    a: set[int],
    b: set[int],
    y: set[int],
    w: set[int],
    task: str,
) -> None:
    """Each column, the label and the weight have the rows that lost theirs."""
    if task in ("gbdt", "mlp"):
        kind = "list" if kind == "sparse" else kind
    rows = ", ".join(
        [values("a", a, "CAST(i % 7 AS double precision)"),
         values("b", b, "CAST(i * i % 11 AS double precision)"),
         values("y", y, "CAST((i * 5) % 2 AS double precision)"),
         values("w", w, "CAST(1 + i % 3 AS double precision)")]
    )  # fmt: skip
    options = json.dumps({"missing": "skip"})
    call = f"train_model('{task}', y, {features_of(session[0], kind)}, '{options}', w)"
    note, n_rows, n_skipped, _ = model(session, call, rows)
    lost = a | b | y | w
    assert (n_rows, n_skipped) == (N - len(lost), len(lost))
    first, second = {"list": ("feature 1", "feature 2"), "row": ("column 'a'", "column 'b'"),
                     "sparse": ("a value", "a value")}[kind]  # fmt: skip
    expected = {first: len(a), second: len(b), "label": len(y), "weight": len(w)}
    if kind == "sparse":
        expected[first] = len(a | b)
    assert told(note) == {what: n for what, n in expected.items() if n}
    assert (note is None) == (not lost)
    if lost:
        assert note is not None
        assert note.startswith(f"{len(lost)} of {N} rows were skipped (")


@pytest.mark.parametrize("options", [
    {}, {"l2": [0.1, 1.0]}, {"validation": 0.3, "algorithm": "mgd"}, {"invalid": "skip"},
    {"folds": 3, "l2": [0.1, 1.0]}, {"invalid": "error"}, {"cluster": "c"},
])  # fmt: skip
def test_every_way(session: tuple[str, Any], options: dict[str, Any]) -> None:
    """Searches, rows held out, options: the note is of the rows that came."""
    rows = ", ".join(
        [values("a", {1, 2, 3}, "CAST(i % 7 AS double precision)"),
         values("y", {3, 4}, "CAST((i * 5) % 13 AS double precision)"), "i % 4 AS c"]
    )  # fmt: skip
    row = "(SELECT q FROM (SELECT a, c) AS q)"
    row = "{'a': a, 'c': c}" if session[0] == "duck" else row
    note, *_ = model(session, f"train_model('linear', y, {row}, '{json.dumps(options)}')", rows)
    assert told(note) == {"column 'a'": 3, "label": 2}
    assert note is not None
    assert note.startswith("4 of 40 rows were skipped (10%): column 'a' is NULL in 3 (7.5%)")


def test_rows_that_are_left_out(session: tuple[str, Any]) -> None:
    """Option `invalid` leaves out numbers; the offset counts too; names come from options."""
    rows = ", ".join(
        [values("a", {1}, "CAST(i % 7 AS double precision)"),
         "CASE WHEN i = 5 THEN -1 WHEN i = 6 THEN CAST('NaN' AS double precision) ELSE i % 4 END AS y",
         values("o", {2, 3}, "CAST(i % 3 AS double precision)")]
    )  # fmt: skip
    listed = "[a]" if session[0] == "duck" else "ARRAY[a]"
    options = json.dumps({"invalid": "skip", "feature_names": ["speed"]})
    call = f"train_model('poisson', y, {listed}, '{options}', 1.0, o)"
    note, _, n_skipped, _ = model(session, call, rows)
    assert n_skipped == 5
    assert told(note) == {"column 'speed'": 1, "offset": 2, "a number": 2}


def test_threads_and_workers(session: tuple[str, Any]) -> None:
    """The rows of a group that several threads or processes packed."""
    name, db = session
    n = 300_000
    if name == "post":
        for setting in ("min_parallel_table_scan_size = 0", "parallel_setup_cost = 0",
                        "parallel_tuple_cost = 0", "max_parallel_workers_per_gather = 2"):  # fmt: skip
            db.execute(f"SET {setting}")
        n = 20_000
    db.execute(
        "CREATE TABLE many AS SELECT CASE WHEN i % 10 > 0 THEN CAST(i % 7 AS double precision) END AS a, "
        "CASE WHEN i % 4 > 0 THEN CAST(i % 5 AS double precision) END AS b, i % 3 AS y, i % 2 AS g "
        f"FROM generate_series(0, {n - 1}) AS s(i)"
    )
    query = f"SELECT g, train_model('linear', y, {features_of(name, 'list')}) AS m FROM many GROUP BY g"
    if name == "post":
        plan = db.execute(f"EXPLAIN {query}").fetchall()
        assert any("Partial" in line for (line,) in plan)
    found = db.execute(f"SELECT (m).note, (m).n_skipped FROM ({query}) AS f ORDER BY g").fetchall()
    assert told(found[0][0]) == {"feature 1": n // 10, "feature 2": n // 4}
    assert told(found[1][0]) == {}


def test_kept_gaps_are_not_lost(session: tuple[str, Any]) -> None:
    """Where NULLs are kept, only the label loses rows."""
    rows = ", ".join(
        [values("a", {1, 2, 3}, "CAST(i % 7 AS double precision)"),
         "CAST(i % 5 AS double precision) AS b", values("y", {3, 4}, "CAST(i % 13 AS double precision)")]
    )  # fmt: skip
    for kind, task, options in (
        ("list", "gbdt", {}), ("row", "gbdt", {}), ("row", "linear", {"missing": "impute"}),
    ):  # fmt: skip
        features = features_of(session[0], kind)
        call = f"train_model('{task}', y, {features}, '{json.dumps(options)}')"
        note, *_ = model(session, call, rows)
        assert told(note) == {"label": 2}
