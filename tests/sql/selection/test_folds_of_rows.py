"""The same rows and seed have the same folds, whatever reads them, in both databases.

Models that predict a constant tell them: a metric of a fold is then one of its labels alone.
"""

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tuskml
from tuskml.kernels.passes import Pass

ROWS = """
CREATE TABLE rows AS
SELECT CAST(i AS DOUBLE PRECISION) AS i, CAST(i % 7 AS DOUBLE PRECISION) AS a,
       CAST(i * 37 % 23 AS DOUBLE PRECISION) / 4 AS b,
       CASE WHEN i % 13 = 4 THEN 'rare' ELSE 'k' || i % 3 END AS k,
       DATE '2024-01-01' + CAST(i % 40 AS INT) AS d,
       CAST(1 + i % 4 AS DOUBLE PRECISION) AS w,
       CAST(i * i % 97 + i % 11 AS DOUBLE PRECISION) / 8 + 1 AS y, (i * i % 11) % 2 AS two,
       'red ' || i % 5 || ' blue ' || i % 3 AS words
FROM generate_series(1, 180) AS t(i)
"""
NUMBERS: dict[str, dict[str, Any]] = {
    "linear": {"l2": [1e12]},
    "poisson": {"l2": [1e12]},
    "gbdt": {"min_child_rows": [100000], "trees": 1},
    "random_forest": {"min_child_rows": [100000], "trees": 1, "objective": "squared"},
    "lasso": {"lambda": [1e9]},
    "elastic_net": {"lambda": [1e9]},
}
"""Options with which a task predicts the mean of its rows, or nearly."""
CLASSES: dict[str, dict[str, Any]] = {
    "logistic": {"l2": [1e12]},
    "sparse_logistic": {"lambda": [1e9]},
    "gbdt": {"min_child_rows": [100000], "trees": 1, "objective": "logistic"},
}
LIST = {"duck": "[a, b, i]", "post": "ARRAY[a, b, i]"}
SPARSE = {
    "duck": "sparse([0, 1, 2], [a, b, i])",
    "post": "sparse(ARRAY[0, 1, 2], ARRAY[a, b, i])",
}
NAMED = {
    "duck": "{'k': k, 'd': d, 'i': i, 'words': words}",
    "post": "(SELECT r FROM (SELECT k, d, i, words) AS r)",
}
PREPARED: list[dict[str, Any]] = [
    {},
    {"max_categories": 2},
    {"interactions": [["k", "i"]]},
    {"dates": "parts"},
    {"text": ["words"], "text_bits": 6},
    {"categories": ["i"], "min_count": 3},
]


def folds(session: Any, task: str, label: str, features: str, options: Any, source: str) -> Any:
    """The metric of each fold of the one candidate; of four, unless rows are held out once."""
    several = {} if "validation" in options else {"folds": 4}
    given = json.dumps({"seed": 5} | several | options)
    weight = ", w" if "w" in source.split() else ""
    call = f"train_model('{task}', {label}, {features}, '{given}'{weight})"
    ((text,),) = session.execute(f"SELECT ({call}).trials FROM {source}").fetchall()
    found = text if isinstance(text, dict) else json.loads(text)
    return [fold["metric"] for fold in found["trials"][0]["folds"]]


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """Of DuckDB's lists: the metrics of linear models, and of logistic ones."""
    with tuskml.connect() as con:
        con.execute(ROWS)
        mae = {"metric": "mae"}
        return {
            "numbers": folds(con, "linear", "y", LIST["duck"], NUMBERS["linear"] | mae, "rows"),
            "classes": folds(
                con, "logistic", "two = 1", LIST["duck"], CLASSES["logistic"], "rows"
            ),
            "named": folds(con, "linear", "y", NAMED["duck"], NUMBERS["linear"] | mae, "rows"),
        }


@pytest.mark.parametrize("features", ["list", "sparse"])
def test_learners_and_databases_agree(session: Any, expected: Any, features: str) -> None:
    name, con = session
    con.execute(ROWS)
    what = {"list": LIST, "sparse": SPARSE}[features][name]
    for task, options in NUMBERS.items():
        given = options | {"metric": "mae"}
        if features == "sparse" and task in ("gbdt", "random_forest"):
            continue
        found = folds(con, task, "y", what, given, "rows")
        assert found == pytest.approx(expected["numbers"], rel=1e-6), task
    for task, options in CLASSES.items():
        if features == "sparse" and task == "gbdt":
            continue
        found = folds(con, task, "two = 1", what, options, "rows")
        assert found == pytest.approx(expected["classes"], rel=1e-4), task
    assert max(expected["numbers"]) > 1.01 * min(expected["numbers"])


def test_what_prepares_rows_changes_no_fold(session: Any, expected: Any) -> None:
    name, con = session
    con.execute(ROWS)
    for task in ("linear", "gbdt", "lasso"):
        for more in PREPARED:
            given = NUMBERS[task] | {"metric": "mae"} | more
            found = folds(con, task, "y", NAMED[name], given, "rows")
            assert found == pytest.approx(expected["named"], rel=1e-5), (task, more)


def test_orders_and_units_change_no_fold(session: Any, expected: Any) -> None:
    name, con = session
    con.execute(ROWS)
    given = NUMBERS["linear"] | {"metric": "mae"}
    for features, known in ((LIST, "numbers"), (NAMED, "named")):
        shuffled = "(SELECT * FROM rows ORDER BY a, b, i DESC) AS s"
        found = folds(con, "linear", "y", features[name], given, shuffled)
        assert found == pytest.approx(expected[known], rel=1e-9)
        scaled = folds(con, "linear", "1000 * y + 7", features[name], given, "rows")
        assert [one / 1000 for one in scaled] == pytest.approx(expected[known], rel=1e-6)


def test_rows_that_are_equal_but_for_label_and_weight(session: Any) -> None:
    """They are told apart by these, whatever the order in which they come."""
    _, con = session
    con.execute(ROWS)
    features = "['k' || a]" if session[0] == "duck" else "ARRAY['k' || a]"
    features = f"hash_features({features}, 8)"
    given = {"l2": [1e12], "metric": "mae"}
    found = [
        folds(con, "linear", "y", features, given, f"(SELECT a, y, w FROM rows ORDER BY {by}) s")
        for by in ("a, y, w", "w DESC, y", "y DESC, a")
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[0] == pytest.approx(found[2], rel=1e-9)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    n=st.integers(6, 60),
    distinct=st.integers(1, 60),
    count=st.integers(2, 5),
    seed=st.integers(0, 1000),
)
def test_any_rows(
    con: duckdb.DuckDBPyConnection, n: int, distinct: int, count: int, seed: int
) -> None:
    """Few different rows or many, some of them equal: three learners see the same folds."""
    rows = (
        f"(SELECT (i * {seed + 1}) % {distinct} AS a, 1 + i * {2 * seed + 1} % 29 AS y "
        f"FROM range({n}) t(i) ORDER BY hash(i + {seed}))"
    )
    how = {"metric": "mae", "folds": count, "seed": seed}
    found = [
        folds(con, task, "y", features, NUMBERS[task] | how, rows)
        for task in ("linear", "gbdt", "lasso")
        for features in ("[a]", "{'a': a}")
    ]
    for one in found[1:]:
        assert one == pytest.approx(found[0], rel=1e-6)


def test_rows_held_out_once_are_those_of_a_search(con: duckdb.DuckDBPyConnection) -> None:
    """A share that a search holds out is the one that `validation` holds out in the order of
    hashes."""
    con.execute(ROWS)
    options = {"validation": 0.25, "metric": "mae"}
    found = [
        folds(con, task, "y", features, NUMBERS[task] | options, "rows")
        for task in ("linear", "gbdt", "lasso")
        for features in (LIST["duck"], "{'a': a, 'b': b, 'i': i}")
    ]
    for one in found[1:]:
        assert one == pytest.approx(found[0], rel=1e-6)


@pytest.mark.parametrize("features", ["sparse([1, 70000 + i % 9], [a, b])", LIST["duck"]])
def test_a_stored_training_holds_out_the_same_rows(
    features: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With `validation`, whether its weights lie in the store or in memory."""
    held: list[tuple[int, float]] = []
    shuffled = Pass.shuffle

    def noted(rows: Pass, *given: Any) -> Any:
        kept, out = shuffled(rows, *given)
        labels = Pass(out.groups, 0, None, None, True, 1).labels()
        held.append((int(labels["n_rows"][0]), round(float(labels["mean"][0]), 9)))
        return kept, out

    monkeypatch.setattr(Pass, "shuffle", noted)
    with tuskml.connect(store_root=tmp_path) as con:
        con.execute(ROWS)
        given: list[dict[str, Any]] = [{"algorithm": "sgd"}, {"store": "kept"}]
        for options in [*given, {"store": "again", "cache": "16MB"}]:
            if "cache" in options and features == LIST["duck"]:
                continue
            text = json.dumps({"validation": 0.3, "seed": 3, "max_iter": 2, **options})
            con.execute(f"SELECT train_model('linear', y, {features}, '{text}') FROM rows")
    assert held[0][0] == 54
    assert len(set(held)) == 1
    assert len(held) >= 2
