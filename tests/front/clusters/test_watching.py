"""What is known of a run while it goes on, what its answers have to be, and its time limits."""

import logging
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sharded

import tuskml
from tuskml.cluster import training, units, worker
from tuskml.cluster.resuming import UnitFolder
from tuskml.cluster.shards.catalogue import shard_of
from tuskml.commands.cli import main
from tuskml.databases.duckdb import DuckDB
from tuskml.groups.execution import executor, leading
from tuskml.groups.execution.choosing import executor_of
from tuskml.groups.execution.executor import Clock, Pulses, Unit
from tuskml.groups.execution.leading import Leaders

N_ROWS = 30_000


@pytest.fixture
def con() -> Any:
    with tuskml.connect() as connection:
        sharded.table(connection, N_ROWS)
        yield connection


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 2_000)


@pytest.mark.usefixtures("small_units")
def test_who_waits_sees_which_groups_are_trained_where(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = sharded.shards(con, tmp_path / "s")
    seen: list[tuskml.groups.execution.executor.Activity] = []
    verify = worker.verify

    def look(shard: Any) -> None:
        seen.extend(tuskml.activity())
        verify(shard)

    monkeypatch.setattr(worker, "verify", look)
    found = tuskml.train(con, "linear", source=source, executor="threads", **sharded.GIVEN)
    assert {one.worker for one in seen} == {"this process"}
    assert all(one.groups.startswith("g = ") and one.rows > 0 for one in seen)
    assert "g = 'g0'" in {one.groups.partition(" and ")[0] for one in seen}
    assert len(found) > 1
    assert tuskml.activity() == []


@pytest.mark.usefixtures("small_units")
def test_the_log_names_the_groups(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = sharded.shards(con, tmp_path / "s")
    with caplog.at_level(logging.INFO, "tuskml.cluster"):
        tuskml.train(con, "linear", source=source, executor="threads", **sharded.GIVEN)
    texts = [record.getMessage() for record in caplog.records]
    begun = [text.partition(",")[0] for text in texts if "begun by this process" in text]
    ended = [text.partition(":")[0] for text in texts if "ended after" in text]
    assert sorted(begun) == sorted(ended)
    assert any(text.startswith("g = NULL") for text in ended)


def test_an_answer_with_too_few_models_is_refused_and_not_kept(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that change after their groups were counted."""
    source = sharded.shuffled(con, tmp_path / "s")
    as_bytes = worker.as_bytes
    monkeypatch.setattr(worker, "as_bytes", lambda table: as_bytes(table.slice(1)))
    given = sharded.GIVEN | {"source": source, "executor": "threads", "finished": tmp_path / "f"}
    with pytest.raises(tuskml.ClusterError, match=r"answered with \d+ models for \d+ groups: the"):
        tuskml.train(con, "linear", **given)
    assert list((tmp_path / "f").iterdir()) == []
    monkeypatch.setattr(worker, "as_bytes", lambda table: b"no Arrow")
    with pytest.raises(tuskml.ClusterError, match="a worker's answer cannot be read: "):
        tuskml.train(con, "linear", **given)


class NoLeaders:
    """No group is trained by parts."""

    keys = ()

    def leaders(self, keys: Sequence[str]) -> AbstractContextManager[Leaders]:
        return nullcontext(leading.none())


def test_a_kept_answer_that_is_wrong_is_computed_again(tmp_path: Path) -> None:
    kept = UnitFolder(tmp_path / "f")
    kept.write("a", b"old")
    found = list(
        kept.outcomes(
            executor_of("threads"),
            "tuskml.groups.execution.executor:work_named",  # fails, as no module has this name
            [Unit("a", 1, b"x")],
            NoLeaders(),
            lambda key, answer: "wrong",
        )
    )
    assert [(one.key, one.answer) for one in found] == [("a", None)]


def test_a_remote_file_that_changes_has_another_key(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """The same size, rows and time: what the footer says of the columns tells."""
    path = tmp_path / "a.parquet"
    database = DuckDB(con)
    made = []
    for last in (1, 2):
        con.execute(f"COPY (SELECT {last}::BIGINT AS x FROM range(100)) TO '{path}'")
        os.utime(path, ns=(10**18, 10**18))
        made.append(shard_of(database, f"file://{path}"))
    assert made[0].bytes == made[1].bytes == path.stat().st_size
    assert made[0].modified == made[1].modified == 10**18
    assert made[0].footer != made[1].footer
    os.utime(path, ns=(2 * 10**18, 2 * 10**18))
    again = shard_of(database, f"file://{path}")
    assert again.footer == made[1].footer
    assert again.modified == 2 * 10**18


def test_a_connection_remembers_where_it_trains_by_group(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = sharded.shards(con, tmp_path / "s")
    begun: list[Any] = []
    verify = worker.verify
    monkeypatch.setattr(worker, "verify", lambda shard: (begun.append(shard), verify(shard)))
    with tuskml.connect(tmp_path / "a.duckdb", executor="threads") as mine:
        expected = tuskml.train(con, "linear", source=source, **sharded.GIVEN)
        assert begun == []
        found = tuskml.train(mine, "linear", source=source, **sharded.GIVEN)
        assert begun != []
        sharded.assert_same_bits(found, expected)
        begun.clear()
        tuskml.train(mine, "linear", source=source, label="y", features=["x"])
        assert begun == [], "one model is trained in the database"
    with pytest.raises(tuskml.OptionError, match=r"executor is 'rya'.*did you mean 'ray'"):
        tuskml.connect(executor="rya")


def test_cluster_says_where_groups_are_trained_too(
    con: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = sharded.shards(con, tmp_path / "s")
    begun: list[Any] = []
    verify = worker.verify
    monkeypatch.setattr(worker, "verify", lambda shard: (begun.append(shard), verify(shard)))
    expected = tuskml.train(con, "linear", source=source, **sharded.GIVEN)
    assert begun == []
    found = tuskml.train(con, "linear", source=source, cluster="threads", **sharded.GIVEN)
    assert begun != []
    sharded.assert_same_bits(found, expected)
    begun.clear()
    with tuskml.connect(cluster="threads") as mine:
        sharded.assert_same_bits(
            tuskml.train(mine, "linear", source=source, **sharded.GIVEN), expected
        )
    assert begun != []
    begun.clear()
    given = ["--task", "linear", "--source", source, "--label", "y", "--features", "x,z"]
    shell = [":memory:", *given, "--group-by", "g", "--cluster", "threads"]
    assert main(["train", *shell, "--json"]) == 0
    assert begun != []
    assert len(capsys.readouterr().out.splitlines()) == len(expected)
    assert main(["explain", *shell, "--workers", "2"]) == 0
    assert "TP" in capsys.readouterr().out


def test_cluster_still_names_a_column(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    """Standard errors where rows of one value depend on each other; with executor too."""
    con.execute("CREATE OR REPLACE TABLE days AS SELECT *, rowid % 50 AS day FROM rows")
    manifest = tuskml.split(con, source="days", group_by="g", into=tmp_path / "d")
    rows = sharded.GIVEN | {"source": manifest.source, "cluster": "day"}
    expected = tuskml.train(con, "linear", **rows)
    found = tuskml.train(con, "linear", executor="threads", **rows)
    sharded.assert_same_bits(found, expected)
    assert found["g0"].options["cluster"] == "day"


@pytest.mark.parametrize("place", ["threads", "10.0.0.1:6379"])
def test_executor_and_cluster_are_one_argument(con: duckdb.DuckDBPyConnection, place: str) -> None:
    sentence = f"executor is 'ray' and cluster is '{place}', expected one of the two"
    with pytest.raises(tuskml.OptionError, match=sentence):
        tuskml.train(con, "linear", source="rows", executor="ray", cluster=place, **sharded.GIVEN)
    with pytest.raises(tuskml.OptionError, match=sentence):
        tuskml.connect(executor="ray", cluster=place)


@pytest.mark.nightly
def test_a_database_file_does_not_say_where_groups_are_trained(tmp_path: Path) -> None:
    """It may be anybody's, and would name a cluster to send work to."""
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as other:
        other.execute("CREATE MACRO _tusk_executor() AS '10.0.0.1:6379'")
    with tuskml.connect(path) as mine:
        assert DuckDB(mine).usual_executor() is None
    with tuskml.connect(path, executor="threads") as mine:
        assert DuckDB(mine).usual_executor() == "threads"
    with tuskml.connect(executor="threads") as mine:
        assert DuckDB(mine.cursor()).usual_executor() == "threads"


def test_files_without_a_row_have_no_models(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    con.execute(f"COPY (FROM rows WHERE false) TO '{path}'")
    given = sharded.GIVEN | {"source": str(path), "executor": "threads"}
    assert tuskml.train(con, "linear", **given) == {}
    assert tuskml.train(con, "linear", explain=True, **given) == {}
    assert tuskml.train(con, "linear", into="none", **given) == 0


def test_groups_that_were_all_finished_before_are_not_estimated(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that was not asked has no workers that are known."""
    placement_of = training.placement_of

    def unasked(where: Any) -> Any:
        executor, placed = placement_of(where)
        executor.workers = 0
        return executor, placed

    given = sharded.GIVEN | {"source": sharded.shuffled(con, tmp_path / "s"), "explain": True}
    given |= {"executor": "threads", "finished": tmp_path / "f"}
    expected = tuskml.train(con, "linear", **given)
    assert expected.execution is not None
    monkeypatch.setattr(training, "placement_of", unasked)
    found = tuskml.train(con, "linear", **given)
    sharded.assert_same_bits(found, expected)
    assert found.execution is None


def test_sql_says_where_workers_can_be_asked_for(con: duckdb.DuckDBPyConnection) -> None:
    query = "SELECT train_model('linear', x, [x], '{\"executor\": \"ray\"}') FROM rows"
    with pytest.raises(duckdb.Error, match=r"tuskml\.train\(\.\.\., group_by=\.\.\., executor="):
        con.execute(query)


@pytest.mark.parametrize("given", [0, -1, "1", True, float("nan")])
def test_a_time_limit_is_a_number_of_seconds(given: Any) -> None:
    with pytest.raises(tuskml.OptionError, match=r"worker_timeout is .* seconds above 0"):
        executor_of("ray", given)


def test_a_time_limit_needs_workers_that_can_be_given_up() -> None:
    with pytest.raises(tuskml.OptionError, match="a thread of this process cannot be given up"):
        executor_of("threads", 1)
    with pytest.raises(tuskml.OptionError, match="worker_timeout is given without executor"):
        executor_of(None, 1)


class Asked:
    """A worker, or what it is asked."""

    def __init__(self) -> None:
        self.alive, self.asked = self, 0

    def remote(self) -> tuple[int, int]:
        self.asked += 1
        return id(self), self.asked


def test_a_worker_is_silent_by_the_time_that_this_process_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(executor.time, "monotonic", lambda: now[0])
    pulses, one, other = Pulses(4.0), Asked(), Asked()
    pulses.begin(one)
    pulses.begin(other)
    now[0] += 1_000  # this process stood still
    pulses.ask()
    assert not pulses.is_silent(one)
    for _ in range(4):
        now[0] += 1
        awaited = pulses.ask()
        for reference in awaited:
            if reference[0] == id(one):
                assert pulses.take(reference)
    assert pulses.is_silent(other)
    assert not pulses.is_silent(one)
    assert other.asked == 1, "a question at a time"
    assert not pulses.take("a unit's reference")
    pulses.end(other)
    assert not pulses.is_silent(other)
    assert {reference[0] for reference in pulses.ask()} <= {id(one)}


def test_a_clock_counts_a_second_a_look_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(executor.time, "monotonic", lambda: now[0])
    clock = Clock()
    for step in (0.5, 30.0, 0.25):
        now[0] += step
        clock.tick()
    assert clock.now == pytest.approx(0.5 + 1.0 + 0.25)
