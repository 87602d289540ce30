"""Large groups give the memory of their features back once these are in bins."""

import json
from dataclasses import replace

import duckdb
import pytest

from tuskml.groups.contract import trainer

ROWS, FEATURES = 160_000, 32  # more than 2^21 cells, from which on a group counts as large
CELLS = ROWS * FEATURES
NUMBERS = f"[(i * (2 * j + 7919)) % 10007 for j in range({FEATURES})]"
CREATE = f"""
CREATE TABLE t AS SELECT i % 2 AS g, x::FLOAT[] AS x, (x[1] * x[2] > 2.5e7)::INT AS y
FROM (SELECT i, {NUMBERS} AS x FROM range({ROWS}) r(i))
"""
FEW = '{"algorithm": "lbfgs", "max_iter": 2}'
OPTIONS = '{"objective": "logistic", "trees": 2, "max_bins": 63, "threads": 2}'


@pytest.fixture
def trained(new_con: duckdb.DuckDBPyConnection, tmp_path):
    """Trains within a limit: the trees, and what the account held at most and holds now."""
    new_con.execute("SET threads = 1")  # with more the order of the rows is another each time
    new_con.execute(CREATE)

    def train(task: str, limit: int, options: str = OPTIONS):
        new_con.execute("SELECT tuskml_set_memory(?, ?)", [limit, str(tmp_path)]).fetchall()
        ((model,),) = new_con.execute(
            f"SELECT train_model('{task}', y, x, '{options}') FROM t"
        ).fetchall()
        ((used,),) = new_con.execute("SELECT tuskml_memory()").fetchall()
        return (model["payload"], model["intercept"], model["loss"]), used

    return train


def test_training_needs_no_bytes_beyond_those_of_the_rows(trained) -> None:
    """Bins, margins, gradients and orders, 2 bytes of each cell, lie where features were."""
    alone = trained("logistic", 1 << 30, FEW)[1]["peak"]
    _, used = trained("gbdt", 1 << 30)
    assert used["peak"] < alone + 1.3 * CELLS
    assert used["resident"] == used["spilled"] == 0


def test_rows_that_were_copied_to_hold_some_out_are_given_back(trained) -> None:
    """All but the copies comes when the features are gone."""
    alone = trained("logistic", 1 << 30, FEW)[1]["peak"]
    _, used = trained("gbdt", 1 << 30, OPTIONS[:-1] + ', "validation": 0.2}')
    copies = ROWS * (4 * FEATURES + 8)
    assert alone + 0.9 * copies < used["peak"] < alone + copies + 0.9 * CELLS


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("task", "rows", "more"),
    [
        ("gbdt", ROWS, {}),
        ("gbdt", ROWS, {"validation": 0.2}),
        ("gbdt", ROWS, {"row_fraction": 0.5, "num_leaves": 63}),
        ("gbdt", ROWS, {"objective": "quantile"}),
        ("gbdt", 60_000, {"max_bins": 255}),
        ("random_forest", 60_000, {"objective": "gini"}),
        ("random_forest", ROWS, {"objective": "gini", "trees": 1, "min_child_rows": 50}),
    ],
)
def test_the_memory_that_is_foretold_is_what_the_account_counts(
    new_con: duckdb.DuckDBPyConnection,
    tmp_path,
    task: str,
    rows: int,
    more: dict[str, object],
) -> None:
    """Within a fifth: memory comes in pieces of 2 MiB."""
    new_con.execute(CREATE.replace(f"range({ROWS})", f"range({rows})"))
    options = json.loads(OPTIONS) | more
    told = json.dumps(options | {"format": "json"})
    new_con.execute("SELECT tuskml_set_memory(?, ?)", [1 << 30, str(tmp_path)]).fetchall()
    train = f"SELECT train_model('{task}', y, x, '{json.dumps(options)}') FROM t"
    new_con.execute(train).fetchall()
    ((used,),) = new_con.execute("SELECT tuskml_memory()").fetchall()
    ask = f"SELECT explain_training('{task}', y, x, '{told}') FROM t"
    ((answer,),) = new_con.execute(ask).fetchall()
    (one,) = json.loads(answer)["candidates"]
    assert used["spilled"] == 0
    assert used["peak"] / 1.2 < one["memory_bytes"] < 1.2 * used["peak"]


def test_what_is_not_the_last_reading_keeps_the_rows(trained, monkeypatch) -> None:
    def kept(one, **given):
        return replace(one, **(given | {"last": False} if "last" in given else given))

    monkeypatch.setattr(trainer, "replace", kept)
    alone = trained("logistic", 1 << 30, FEW)[1]["peak"]
    _, used = trained("gbdt", 1 << 30)
    assert used["peak"] > alone + 1.5 * CELLS


@pytest.mark.sample(1)
@pytest.mark.parametrize("task", ["gbdt", "random_forest"])
@pytest.mark.parametrize("more", ["", ', "validation": 0.2', ', "row_fraction": 0.5'])
def test_spilled_rows_keep_theirs_and_give_the_same_trees(trained, task: str, more: str) -> None:
    """In the spill file nothing is given back."""
    if task == "random_forest" and "validation" in more:
        pytest.skip("a random forest is judged by the rows that its trees did not draw")
    options = (
        OPTIONS.replace("logistic", "logistic" if task == "gbdt" else "gini")[:-1] + more + "}"
    )
    in_memory, used = trained(task, 1 << 30, options)
    assert used["spilled"] == 0
    spilled, used = trained(task, 500_000, options)
    assert spilled == in_memory
    assert used["resident"] == used["spilled"] == 0


@pytest.mark.nightly
def test_a_window_trains_as_a_group_does(new_con: duckdb.DuckDBPyConnection) -> None:
    new_con.execute(CREATE)
    call = f"train_model('gbdt', y, x, '{OPTIONS}')"
    grouped = dict(new_con.execute(f"SELECT g, {call}.loss FROM t GROUP BY g").fetchall())
    windows = f"SELECT DISTINCT g, ({call} OVER (PARTITION BY g)).loss FROM t"
    assert dict(new_con.execute(windows).fetchall()) == pytest.approx(grouped, rel=1e-12)


def test_both_databases_train_the_same(new_con: duckdb.DuckDBPyConnection, connect) -> None:
    n = 2**21 // FEATURES + 1
    call = f"(train_model('gbdt', y, x, '{OPTIONS}')).loss"
    new_con.execute(CREATE.replace(f"range({ROWS})", f"range({n})"))
    ((expected,),) = new_con.execute(f"SELECT {call} FROM t").fetchall()
    pg = connect()
    pg.execute(
        f"""CREATE TABLE t AS SELECT x, (x[1] * x[2] > 2.5e7)::int AS y FROM (SELECT ARRAY(
        SELECT (i * (2 * j + 7919) % 10007)::real FROM generate_series(0, {FEATURES - 1}) AS s(j)
        ORDER BY j) AS x FROM generate_series(0::bigint, {n - 1}) AS r(i)) AS made"""
    )
    pg.execute("SET tuskml.memory_limit = '200MB'")
    found = pg.execute(f"SELECT {call} FROM t").fetchone()[0]
    assert found == pytest.approx(expected, rel=1e-12)
