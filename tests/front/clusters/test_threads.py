"""Trainings by group in units: what is asked, what is refused, and the numbers of one query."""

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import sharded

import tuskml
from tuskml.cluster import reading, units, worker
from tuskml.cluster.resuming import UnitFolder
from tuskml.cluster.shards.catalogue import Group
from tuskml.groups.execution import ray_session
from tuskml.groups.execution.choosing import executor_of
from tuskml.groups.execution.executor import Unit, attempt, work_named
from tuskml.learners.events import Event, listening

N_ROWS = 20_000


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 3_000)


@pytest.fixture
def con(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    sharded.table(con, N_ROWS)
    return con


@pytest.mark.parametrize("written", ["shards", "shuffled"])
def test_the_models_are_those_of_one_query(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, written: str
) -> None:
    source = getattr(sharded, written)(con, tmp_path / "s")
    expected = tuskml.train(con, "logistic", source="rows", **sharded.GIVEN)
    found = tuskml.train(con, "logistic", source=source, executor="threads", **sharded.GIVEN)
    sharded.assert_same_bits(found, expected)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "keys",
    [
        ["x > 0 AS positive", "g"],
        ["DATE '2024-01-01' + (100 * x)::INTEGER AS day"],
        ["CASE WHEN x > 0.9 THEN 'NaN' ELSE round(abs(x), 1) END::DOUBLE AS rounded"],
        ["'it''s ' || g AS quoted", "round(z)::DECIMAL(5, 2) AS z2"],
    ],
)
def test_keys_of_any_type(con: duckdb.DuckDBPyConnection, tmp_path: Path, keys: list[str]) -> None:
    source = sharded.shuffled(con, tmp_path / "s")
    given = sharded.GIVEN | {"group_by": keys}
    expected = tuskml.train(con, "linear", source="rows", **given)
    found = tuskml.train(con, "linear", source=source, executor="threads", **given)
    assert list(map(repr, found)) == list(map(repr, expected))
    for one, other in zip(found.values(), expected.values(), strict=True):
        assert one is not None
        assert other is not None
        assert (one.coef, one.loss, one.n_rows) == (other.coef, other.loss, other.n_rows)


@pytest.mark.parametrize("kind", ["ENUM", "NOCASE"])
def test_the_order_of_shards_is_not_that_of_text(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, kind: str
) -> None:
    """A worker asks for the values between a unit's least and most, which are text in Parquet."""
    key = "['zeta', 'alpha', 'mid', 'BETA', 'yak', 'cat'][1 + i % 6]"
    if kind == "NOCASE":
        con.execute("SET default_collation = 'nocase'")
    else:
        con.execute("CREATE TYPE kind AS ENUM ('zeta', 'alpha', 'mid', 'BETA', 'yak', 'cat')")
        key += "::kind"
    con.execute(
        f"CREATE TABLE kinds AS SELECT {key} AS g, i AS y, i % 7 AS x FROM range(6000) r(i)"
    )
    given = {"label": "y", "features": ["x"], "group_by": "g", "deterministic": True}
    tuskml.split(con, source="kinds", group_by="g", into=tmp_path / "s")
    source = f"{tmp_path}/s/*.parquet"
    found = tuskml.train(con, "linear", source=source, executor="threads", **given)
    sharded.assert_same_bits(found, tuskml.train(con, "linear", source="kinds", **given))


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("logistic", {"label": "CASE WHEN y THEN 'yes' ELSE 'no' END", "features": ["x", "t"]}),
        ("linear", {"label": "CASE WHEN g <> 'g1' THEN x END", "features": "[z, z * z]"}),
        ("linear", {"label": "z", "features": ["source.x"], "group_by": ["g AS model", "y"]}),
    ],
)
def test_tasks_text_and_groups_without_rows(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, task: str, more: dict[str, Any]
) -> None:
    """Labels and features that are text, a group without a usable row, a key `model`."""
    con.execute("ALTER TABLE rows ADD COLUMN t VARCHAR")
    con.execute("UPDATE rows SET t = 'c' || (1000 * x)::INT % 3")
    source = sharded.shuffled(con, tmp_path / "s")
    given = sharded.GIVEN | more
    expected = tuskml.train(con, task, source="SELECT * FROM rows", **given)
    found = tuskml.train(con, task, source=source, executor="threads", **given)
    sharded.assert_same_bits(found, expected)
    assert (None in expected.values()) == ("g1" in given["label"])


def test_boosted_trees_travel(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """Their sums follow the order of the rows, so the last digits may differ."""
    source = sharded.shards(con, tmp_path / "s")
    given = {"label": "x", "features": ["z", "y"], "group_by": "g", "trees": 3}
    expected = tuskml.train(con, "gbdt", source="rows", **given)
    found = tuskml.train(con, "gbdt", source=source, executor="threads", **given)
    assert list(found) == list(expected)
    rows = pd.DataFrame({"z": [-0.7, 0.1, 0.6], "y": [True, False, True]})
    for key, model in expected.items():
        assert found[key].n_rows == model.n_rows
        assert found[key].predict(rows) == pytest.approx(model.predict(rows), abs=1e-6)


def test_models_into_a_table_predict(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the three units share each shard."""
    monkeypatch.setattr(units, "BATCH_ROWS", 8_000)
    source = sharded.shards(con, tmp_path / "s", 60_000)  # of 9,233 and 10,767 rows
    given = sharded.GIVEN | {"executor": "threads", "into": "models"}
    tuskml.train(con, "logistic", source="rows", **sharded.GIVEN | {"into": "expected"})
    n = tuskml.train(con, "logistic", source=source, **given)
    query = "SELECT g, (model).features, predict_proba(model, [0.3, -0.2]) FROM {} ORDER BY g"
    found = con.execute(query.format("models")).fetchall()
    assert found == con.execute(query.format("expected")).fetchall()
    assert n == len(found), "each group is trained once"


@pytest.mark.nightly
def test_searches_travel(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    source = sharded.shards(con, tmp_path / "s")
    given = sharded.GIVEN | {"l2": [0.1, 1.0], "folds": 2}
    expected = tuskml.train(con, "logistic", source="rows", **given)
    found = tuskml.train(con, "logistic", source=source, executor="threads", **given)
    sharded.assert_same_bits(found, expected)


def test_weights_travel(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    source = sharded.shards(con, tmp_path / "s")
    given = sharded.GIVEN | {"weight": "1 + abs(x)"}
    expected = tuskml.train(con, "logistic", source="rows", **given)
    for rows in (source, "rows"):
        found = tuskml.train(con, "logistic", source=rows, executor="threads", **given)
        for key, model in expected.items():
            assert found[key].coef == pytest.approx(model.coef, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"executor": "rey"}, tuskml.OptionError, "did you mean 'ray'"),
        ({"executor": 4}, tuskml.OptionError, "executor is 4, expected 'ray', 'threads' or the"),
        ({"executor": None, "finished": "f"}, tuskml.OptionError, "finished is given without ex"),
        (
            {"source": "rows", "finished": "f"},
            tuskml.OptionError,
            "finished is given, and source is table rows, expected Parquet files",
        ),
        ({"store": "a"}, tuskml.OptionError, "a store is a folder of one machine"),
        ({"label": "q"}, tuskml.DataError, "label names column 'q'"),
    ],
)
def test_what_cannot_be_trained_is_said_before_it_begins(
    con: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    given: dict[str, Any],
    error: type[Exception],
    sentence: str,
) -> None:
    usual = {"source": sharded.shards(con, tmp_path / "s"), "executor": "threads"}
    with pytest.raises(error, match=sentence):
        tuskml.train(con, "logistic", **sharded.GIVEN | usual | given)


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        ("rows", ["g"]),
        (
            "SELECT * FROM rows WHERE z > 0",
            ["(['b', 'a'][1 + (x > 0)::INT])::ENUM ('b', 'a') AS e"],
        ),
        ("rows", ["(10 * z)::INT::HUGEINT * 100000000000000000000 AS h"]),
    ],
)
def test_rows_of_a_table_go_to_workers_as_shards(
    con: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    source: str,
    keys: list[str],
) -> None:
    """Also those that only this transaction sees, by macros that workers lack, and keys of types
    that Parquet lacks; nothing stays of the shards."""
    monkeypatch.setenv("TUSKML_CLUSTER_FOLDER", str(tmp_path))
    con.execute("CREATE OR REPLACE MACRO mine(a) AS a * a")
    con.execute("BEGIN; DELETE FROM rows WHERE x > 0.5")
    given = sharded.GIVEN | {"features": ["x", "mine(z)"], "source": source, "group_by": keys}
    expected = tuskml.train(con, "logistic", **given)
    found = tuskml.train(con, "logistic", executor="threads", **given)
    sharded.assert_same_bits(found, expected)
    con.execute("ROLLBACK")
    assert list(tmp_path.iterdir()) == []
    assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(1,)]


def test_a_table_of_a_cluster_needs_a_folder_and_rows(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = sharded.GIVEN | {"executor": "threads"}
    assert tuskml.train(con, "linear", source="SELECT * FROM rows WHERE false", **given) == {}
    monkeypatch.setenv("TUSKML_CLUSTER_FOLDER", str(tmp_path / "no"))
    with pytest.raises(tuskml.DataError, match=r"no for the workers: No such file.*CLUSTER_F"):
        tuskml.train(con, "linear", source="rows", **given)
    gone = {"path": str(tmp_path / "tuskml-shards-1" / "a.parquet"), "checksum": None}
    with pytest.raises(tuskml.DataError, match="same path: TUSKML_CLUSTER_FOLDER names a folder"):
        worker.verify(gone)


def test_groups_of_a_damaged_shard_fail_and_the_others_are_kept(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    source = sharded.shards(con, tmp_path / "s", 20_000)
    expected = tuskml.train(con, "logistic", source="rows", **sharded.GIVEN)
    path = tmp_path / "s" / "shard-000002.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(tuskml.ClusterError, match=rf"groups were not trained: .*{path}") as caught:
        tuskml.train(con, "logistic", source=source, executor="threads", **sharded.GIVEN)
    kept = caught.value.models
    assert 0 < len(kept) < len(expected)
    sharded.assert_same_bits(kept, tuskml.Models((k, m) for k, m in expected.items() if k in kept))


def test_finished_groups_are_not_trained_again(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = sharded.shards(con, tmp_path / "s", 20_000)
    expected = tuskml.train(con, "logistic", source="rows", **sharded.GIVEN)
    path = tmp_path / "s" / "shard-000002.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:99] + bytes([whole[99] ^ 1]) + whole[100:])
    given = sharded.GIVEN | {
        "source": source, "executor": "threads", "finished": tmp_path / "finished"
    }  # fmt: skip
    with pytest.raises(tuskml.ClusterError) as caught:
        tuskml.train(con, "logistic", **given)
    path.write_bytes(whole)
    heard: list[Event] = []
    with listening(heard.append):
        sharded.assert_same_bits(tuskml.train(con, "logistic", **given), expected)
    again = sum(event.groups for event in heard)
    assert again == len(expected) - len(caught.value.models) > 0
    heard.clear()
    with listening(heard.append):
        other = tuskml.train(con, "logistic", **given | {"l2": 1.0})
    assert sum(event.groups for event in heard) == len(other), "other options are other work"


def test_a_damaged_file_of_a_finished_unit_is_no_answer(tmp_path: Path) -> None:
    kept = UnitFolder(tmp_path / "f")
    kept.write("a" * 64, b"answer")
    assert kept.read("a" * 64) == b"answer"
    (file,) = (tmp_path / "f").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert kept.read("a" * 64) is None
    assert kept.read("b" * 64) is None
    with pytest.raises(tuskml.DataError, match="which cannot be made"):
        UnitFolder(tmp_path / "no" / "f")


@pytest.mark.nightly
def test_files_in_no_order_get_advice(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MANY_ROWS", N_ROWS)
    given = sharded.GIVEN | {"executor": "threads"}
    shuffled = sharded.shuffled(con, tmp_path / "shuffled")
    with pytest.warns(tuskml.ClusterWarning, match=r"\d units read each row about \d times"):
        tuskml.train(con, "linear", source=shuffled, **given)
    written = "(FORMAT parquet, ROW_GROUP_SIZE 2048)"
    con.execute(f"COPY (FROM rows ORDER BY g) TO '{tmp_path}/sorted.parquet' {written}")
    with warnings.catch_warnings():
        warnings.simplefilter("error", tuskml.ClusterWarning)
        tuskml.train(con, "linear", source=tmp_path / "sorted.parquet", **given)
        shards = sharded.shards(con, tmp_path / "s")
        tuskml.train(con, "linear", source=shards, **given)


def test_a_shard_that_is_missing_is_said_before_it_begins(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    source = sharded.shards(con, tmp_path / "s", 20_000)
    (tmp_path / "s" / "shard-000002.parquet").unlink()
    with pytest.raises(tuskml.DataError, match=r"shard-000002\.parquet is missing, which the man"):
        tuskml.train(con, "logistic", source=source, executor="threads", **sharded.GIVEN)


def test_a_file_that_the_manifest_does_not_list_is_not_passed_over(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    source = sharded.shards(con, tmp_path / "s")
    con.execute(f"COPY rows TO '{tmp_path}/s/more.parquet'")
    with pytest.raises(tuskml.DataError, match=r"has 'more\.parquet', which its manif"):
        tuskml.train(con, "logistic", source=source, executor="threads", **sharded.GIVEN)


def test_nothing_is_tried_for_long_that_fails_everywhere(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []
    monkeypatch.setattr(worker, "verify", begun.append)
    source = sharded.shuffled(con, tmp_path / "s")
    con.execute("CREATE OR REPLACE MACRO mine(a) AS a + 1")  # which no worker has
    given = sharded.GIVEN | {"features": ["mine(x)"], "executor": "threads"}
    with pytest.raises(tuskml.ClusterError, match=r"groups were not trained: .*mine") as caught:
        tuskml.train(con, "linear", source=source, **given)
    assert caught.value.models is None


def test_the_usual_order_of_the_database_does_not_matter(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 8_000)  # so that a unit has several groups
    source = sharded.shuffled(con, tmp_path / "s")
    expected = tuskml.train(con, "linear", source="rows", **sharded.GIVEN)
    con.execute("SET default_order = 'DESC'")
    found = tuskml.train(con, "linear", source=source, executor="threads", **sharded.GIVEN)
    sharded.assert_same_bits(found, expected)


def test_units_hold_all_groups_once_and_are_small() -> None:
    groups = [Group((str(n),), n, (0,)) for n in (1, 5, 2_000, 9_000, 1, 2, 2_999, 3_000)]
    made = list(units.batches(groups, 3_000))
    assert [group for batch in made for group in batch.groups] == groups
    assert [batch.rows for batch in made] == [2_006, 9_000, 3, 2_999, 3_000]


def test_work_is_of_tuskml_and_its_failure_a_sentence() -> None:
    with pytest.raises(ValueError, match="not a function of tuskml"):
        work_named("os:system")
    assert attempt(worker.WORK, Unit("a", 1, b"{")).error is not None


def test_ray_is_imported_only_when_it_is_asked_for(tmp_path: Path) -> None:
    code = (
        "import sys, tuskml; con = tuskml.connect(); "
        "rows = 'SELECT i % 2 AS g, i AS x, i * i AS y FROM range(9) t(i)'; "
        "con.execute(f\"COPY ({rows}) TO 'a.parquet'\"); "
        "given = dict(source='a.parquet', label='y', features=['x'], group_by='g'); "
        "found = tuskml.train(con, 'linear', executor='threads', **given); "
        "print(len(found), 'ray' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout == "2 False\n"


def test_without_pyarrow_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(tuskml.ExtensionError, match=r"pyarrow.*installed: pip install pyarrow"):
        executor_of("threads")


def test_without_ray_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(tuskml.ExtensionError, match=r"ray.*not installed: pip install 'tuskml\["):
        executor_of("ray")


def test_a_cluster_without_a_processor_is_refused() -> None:
    class NoProcessor:
        def cluster_resources(self) -> dict[str, float]:
            return {"memory": 1.0}

    with pytest.raises(tuskml.ClusterError, match="has no CPU, expected a node"):
        ray_session.processors(NoProcessor())
