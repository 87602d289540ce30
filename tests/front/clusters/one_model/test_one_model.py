"""A model without groups on workers: in one place, or by parts."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import invariants
import pytest
import sharded

import tuskml
from tuskml.cluster import estimating, units
from tuskml.cluster.shards import temporary
from tuskml.commands.cli import main
from tuskml.groups.execution import choosing, leading
from tuskml.groups.execution.leading import Ran

N_ROWS = 12_000
ROWS = ("label", "features")
GIVEN: dict[str, Any] = {"label": "y", "features": ["x", "z"], "deterministic": True}


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 5_000)
    monkeypatch.setattr(temporary, "SHARD_BYTES", 30_000)


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(tmp_path_factory.mktemp("one") / "rows.duckdb") as connection:
        sharded.table(connection, N_ROWS)
        yield connection


@pytest.fixture(scope="module")
def source(con: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A few shards, for models by group."""
    return sharded.shards(con, tmp_path_factory.mktemp("one") / "s", 30_000)


def bits(model: tuskml.Model) -> list[Any]:
    """What deterministic trainings have in common."""
    return [getattr(model, field) for field in sharded.FIELDS]


def clustered(con: duckdb.DuckDBPyConnection, task: str = "logistic", **given: Any) -> Any:
    """The model of threads; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", tuskml.ClusterWarning)
        return here(con, task, **{"executor": "threads"} | given)


def here(con: duckdb.DuckDBPyConnection, task: str = "logistic", **given: Any) -> Any:
    """The model of the database, or of an executor that is given."""
    usual = {k: v for k, v in GIVEN.items() if task in ("logistic", "linear", "svm") or k in ROWS}
    return tuskml.train(con, task, **usual | given)


@pytest.mark.parametrize("kind", ["table", "query", "frame", "shards", "files"])
def test_a_small_model_is_that_of_one_machine(
    con: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ran: list[Ran],
    kind: str,
) -> None:
    """Also of shards that were written for groups. Nothing stays of the rows."""
    monkeypatch.setattr(units, "BATCH_ROWS", 200_000)
    monkeypatch.setenv(temporary.FOLDER, str(tmp_path))
    sources: dict[str, Any] = {"table": "rows", "query": "SELECT * FROM rows ORDER BY z"}
    sources["frame"] = con.sql("FROM rows").to_arrow_table()
    if kind == "files":
        sources["files"] = sharded.shuffled(con, tmp_path / "files")
    if kind == "shards":
        sources["shards"] = sharded.shards(con, tmp_path / "s")
    found = clustered(con, source=sources[kind])
    expected = tuskml.train(con, "logistic", source="rows", **GIVEN)
    assert bits(found) == bits(expected)
    assert (found.features, found.label) == (expected.features, expected.label)
    assert not ran
    assert list(tmp_path.glob(f"{temporary.PREFIX}*")) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("logistic", {"epsilon": 1e-9}),
        ("linear", {"label": "x", "features": ["z", "g"], "epsilon": 1e-9}),
        ("logistic", {"l2": [0.1, 1.0], "folds": 2, "epsilon": 1e-9}),
    ],
    ids=["numbers", "names", "search"],
)
def test_a_large_model_adds_sums_of_its_parts(
    con: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ran: list[Ran],
    task: str,
    more: dict[str, Any],
) -> None:
    """Of a table and of files; the optimum is that of rows in one place."""
    monkeypatch.setattr(temporary, "SHARD_BYTES", 20_000)
    source = sharded.shards(con, tmp_path / "s", 22_000)
    expected = tuskml.train(con, task, source="rows", **GIVEN | more)
    for given in ("rows", source):
        ran.clear()
        found = clustered(con, task, source=given, **more)
        assert len({one.unit.pin for one in ran}) > 5
        assert found.n_rows == expected.n_rows
        assert found.coef == pytest.approx(expected.coef, rel=1e-5, abs=1e-6)
        assert found.features == expected.features


def test_each_part_is_asked_equally_often(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran]
) -> None:
    clustered(con, source=source, placement="gap")
    invariants.assert_worker_exclusivity(ran)
    invariants.assert_asked_alike(ran, groups=1)


@pytest.mark.nightly
def test_the_bits_depend_on_the_rows_alone(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on workers, the order of a table, or the types of whole numbers; SQL has the same."""
    con.execute("CREATE OR REPLACE TABLE whole AS SELECT (9 * x)::INT AS x, z, y FROM rows")
    expected = bits(clustered(con, source="whole"))
    for n in (1, 2, 4):
        monkeypatch.setattr(choosing.budget, "threads", lambda asked=None, n=n: n)
        assert bits(clustered(con, source="SELECT * FROM whole ORDER BY z DESC")) == expected
    doubles = "SELECT x::DOUBLE AS x, z, y FROM whole"
    assert bits(clustered(con, source=doubles)) == expected
    assert bits(clustered(con, source=doubles, features="[x, z]")) == expected
    con.execute("CREATE OR REPLACE TABLE narrow AS SELECT x, y FROM whole")
    one = bits(clustered(con, source="narrow", features="[x]"))
    assert bits(clustered(con, source="narrow", features=["x"])) == one, "INTEGER[] and DOUBLE[]"


def test_trees_have_the_bits_of_rows_in_one_place(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran]
) -> None:
    given: dict[str, Any] = {"objective": "logistic", "trees": 3}
    found = clustered(con, "gbdt", source=source, placement="gap", **given)
    expected = here(con, "gbdt", source="rows", **given)
    assert found.payload == expected.payload
    assert ran


@pytest.mark.parametrize(
    ("task", "more", "sentence"),
    [
        ("logistic", {"algorithm": "sgd"}, "its parts would wait for each other; placement='gap'"),
        ("mlp", {"objective": "logistic", "max_iter": 2}, "its parts would wait for each other"),
        (
            "random_forest",
            {"objective": "gini", "trees": 2, "num_leaves": 8},
            "two workers take as long as one by sums",
        ),
        ("svm", {}, "task 'svm' needs all rows in one place"),
        ("logistic", {"validation": 0.1}, "option 'validation' needs all rows in one place"),
    ],
)
def test_one_worker_trains_what_gains_nothing_by_parts(
    con: duckdb.DuckDBPyConnection,
    source: str,
    ran: list[Ran],
    task: str,
    more: dict[str, Any],
    sentence: str,
) -> None:
    """And says why, unless the placement says so."""
    given = {"source": source, "executor": "threads"} | more
    with pytest.warns(tuskml.ClusterWarning, match=f"the model is trained on one wor.*{sentence}"):
        found = here(con, task, **given)
    assert bits(found) == bits(here(con, task, **{"source": "rows"} | more))
    assert bits(clustered(con, task, **given | {"placement": "gtp"})) == bits(found)
    assert not ran


@pytest.mark.nightly
def test_steps_hop_where_they_are_asked_to(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran]
) -> None:
    """And where a search has several of them."""
    clustered(con, source=source, algorithm="sgd", placement="gap", max_iter=3)
    assert ran
    ran.clear()
    clustered(con, source=source, algorithm="sgd", l2=[0.1, 1.0], folds=2, max_iter=3)
    assert ran


def test_one_large_file_has_parts_too(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, ran: list[Ran]
) -> None:
    con.execute(f"COPY rows TO '{tmp_path}/rows.parquet'")
    found = clustered(con, source=f"{tmp_path}/rows.parquet", epsilon=1e-9)
    expected = tuskml.train(con, "logistic", source="rows", epsilon=1e-9, **GIVEN)
    assert found.coef == pytest.approx(expected.coef, rel=1e-6)
    assert len({one.unit.pin for one in ran}) == 8


@pytest.mark.nightly
def test_auto_is_the_estimate_of_a_sample(
    con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan has the estimates, as of a training that is explained."""
    seen: list[int] = []
    some = estimating.some_of

    def some_of(*given: Any) -> Any:
        found = some(*given)
        seen.append(found[0])
        return found

    monkeypatch.setattr(estimating, "some_of", some_of)
    monkeypatch.setattr(estimating, "BATCH_ROWS", 5_000)
    monkeypatch.setattr(choosing.budget, "threads", lambda asked=None: 2)  # one has no choice
    found = clustered(con, source=source, placement="auto", deterministic=False)
    assert "approach" in found.plan
    assert "12,000 rows in 1 group, configurations: 1, workers: 2" in found.plan
    assert 0 < seen[0] <= 5_000
    with pytest.raises(tuskml.OptionError, match="placement 'auto' chooses by seconds"):
        clustered(con, source=source, placement="auto")
    told = clustered(con, source=source, placement="gtp", explain=True)
    assert "TP took" in told.plan


@pytest.mark.nightly
def test_the_answer_is_kept(
    con: duckdb.DuckDBPyConnection, source: str, tmp_path: Path, ran: list[Ran]
) -> None:
    """In a table, and in a folder of what is finished."""
    expected = bits(clustered(con, source=source))
    given = {"source": source, "finished": tmp_path / "f"}
    assert bits(clustered(con, **given)) == expected
    ran.clear()
    assert bits(clustered(con, **given)) == expected
    assert not ran
    assert clustered(con, **given, into="kept", replace=True) == 1
    assert con.execute("SELECT model.coef FROM kept").fetchall() == [(expected[0],)]
    assert con.execute("DESCRIBE kept").fetchall()[0][0] == "model"


def test_a_damaged_shard_is_a_sentence(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    source = sharded.shards(con, tmp_path / "s", 20_000)
    path = tmp_path / "s" / "shard-000003.parquet"
    data = path.read_bytes()
    path.write_bytes(data[:99] + bytes([data[99] ^ 1]) + data[100:])
    with pytest.raises(tuskml.ClusterError, match=rf"the model was not trained: .*{path} is dama"):
        clustered(con, source=source)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "rows", ["SELECT * FROM rows WHERE false", "SELECT x, z, NULL y FROM rows"]
)
def test_no_usable_row_is_a_sentence(con: duckdb.DuckDBPyConnection, rows: str) -> None:
    """In SQL it is a model that is NULL, as without a cluster."""
    with pytest.raises(tuskml.DataError, match="no row whose label and features are not NULL"):
        clustered(con, source=rows, label="y::BOOLEAN")
    for options in ("", '{"cluster": "threads"}'):
        call = f"FROM train('{rows}', 'logistic', 'y::BOOLEAN', ['x', 'z'], '{options}')"
        assert set(con.execute(f"SELECT * EXCLUDE (payload) {call}").fetchall()[0]) == {None}


def test_a_cancel_ends_it(
    con: duckdb.DuckDBPyConnection, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leading, "heard", [lambda one: tuskml.cancel()])
    with pytest.raises(tuskml.Interrupted):
        clustered(con, source=source)
    monkeypatch.setattr(leading, "heard", [])
    assert clustered(con, source=source).n_rows == N_ROWS


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["table", "files"])
def test_sql_has_the_bits_of_python(
    con: duckdb.DuckDBPyConnection, source: str, ran: list[Ran], kind: str
) -> None:
    given = "rows" if kind == "table" else f"'{source}'"
    expected = bits(clustered(con, source=given.strip("'")))
    assert ran
    ran.clear()
    options = json.dumps({"cluster": "threads", "deterministic": True})
    quoted = given.replace("'", "''")
    call = f"train('{quoted}', 'logistic', 'y', ['x', 'z'], '{options}')"
    found = con.execute(f"SELECT {', '.join(sharded.FIELDS)} FROM {call}").fetchall()
    assert list(map(list, found)) == [expected]
    assert ran


@pytest.mark.nightly
def test_the_shell_trains_it(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = [":memory:", "--task", "logistic", "--source", source, "--label", "y"]
    given += ["--features", "x,z"]
    assert main(["train", *given, "--cluster", "threads", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_rows"] == N_ROWS
    assert main(["train", *given, "--executor", "threads", "--placement", "gup"]) == 1
    assert "placement is 'gup'" in capsys.readouterr().err
    assert main(["explain", *given, "--executor", "threads", "--workers", "8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["groups"], found["ran"]) == (1, "GAP")
