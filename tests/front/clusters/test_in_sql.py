"""SQL's `train(..., group_by := ...)`, in the database and on workers of this process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import acting
import duckdb
import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.cluster.shards import temporary
from tuskml.cluster.table_form import running
from tuskml.commands.cli import main

N_ROWS = 8_000
EXACT = {"deterministic": True}
BITS = ", ".join(f"model.{field}" for field in (*sharded.FIELDS, "features", "preparation"))


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 1_500)


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Of a file, whose other connections have no macros of this one."""
    with tuskml.connect(tmp_path_factory.mktemp("file") / "rows.duckdb") as connection:
        sharded.table(connection, N_ROWS)
        yield connection


def train(
    source: str = "rows",
    task: str = "logistic",
    label: str = "y",
    features: str = "['x', 'z']",
    group_by: str = "'g'",
    more: str = "",
    **options: Any,
) -> str:
    """The table form; options of the training."""
    texts = [text.replace("'", "''") for text in (source, task, label, json.dumps(options))]
    return (
        f"train('{texts[0]}', '{texts[1]}', '{texts[2]}', {features}, '{texts[3]}', "
        f"group_by := {group_by}{more})"
    )


def models(con: duckdb.DuckDBPyConnection, **given: Any) -> list[tuple[Any, ...]]:
    """Keys, and what the models have in common to the last bit."""
    query = f"SELECT * EXCLUDE (model), {BITS} FROM {train(**given)} ORDER BY ALL"
    return con.execute(query).fetchall()


def test_a_row_per_group(con: duckdb.DuckDBPyConnection) -> None:
    """By keys that are columns and expressions, and a group that has no usable row; the models are
    those of the aggregate."""
    label = "CASE WHEN g <> 'g1' THEN x END"
    keys = "['g', 'z > 0 AS positive']"
    found = models(con, task="linear", label=label, features="['z', 'y']", group_by=keys, **EXACT)
    assert len(found) == 14
    call = f"train_model('linear', {label}, [z, y::INT], '{json.dumps(EXACT)}')"
    grouped = f"SELECT g, z > 0 AS positive, {call} AS model FROM rows GROUP BY ALL ORDER BY ALL"
    fields = "model.coef, model.intercept, model.std_err"
    expected = con.execute(f"SELECT g, positive, {fields} FROM ({grouped})").fetchall()
    assert [row[:5] for row in found] == expected
    assert {row[2] for row in found if row[0] == "g1"} == {None}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, marks=pytest.mark.nightly),  # most tests here have numbers alone
        {"features": "['x', 'g']", "group_by": "['y', 'DATE ''2024-01-01'' + (3 * z)::INT AS d']"},
        pytest.param(
            {
                "features": "{'x': 'x', 'long': 'z * z'}",
                "label": "CASE WHEN y THEN 'a' ELSE 'b' END",
            },
            marks=pytest.mark.nightly,
        ),
        {"features": "'[x, z * x]'", "label": "CASE WHEN g <> 'g1' THEN x END", "task": "linear"},
        {"source": "SELECT * FROM rows WHERE z > 0", "l2": [0.1, 1.0], "folds": 2},
    ],
    ids=["numbers", "names", "struct", "nothing usable", "search"],
)
def test_workers_train_the_same_models(
    con: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, Any],
) -> None:
    """Names, keys with their types, and bits; nothing stays of the shards."""
    monkeypatch.setenv(temporary.FOLDER, str(tmp_path))
    expected = models(con, **EXACT | given)
    assert models(con, cluster="threads", **EXACT | given) == expected
    assert len(expected) > 1
    assert list(tmp_path.glob(f"{temporary.PREFIX}*")) == []
    of_none = given | {"source": "SELECT * FROM rows WHERE false"}
    assert models(con, cluster="threads", **EXACT | of_none) == []


def test_parquet_files_are_read_where_they_are(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = f"'{sharded.shards(con, tmp_path / 's')}'"
    monkeypatch.setenv(temporary.FOLDER, str(tmp_path / "no"))  # nothing is written
    expected = models(con, source=files, **EXACT)
    assert models(con, source=files, executor="threads", **EXACT) == expected
    trees = {"source": files, "task": "gbdt", "label": "x", "features": "['z', 'y']", "trees": 3}
    query = "SELECT g, model.payload, model.coef FROM {} ORDER BY g"
    found = con.execute(query.format(train(cluster="threads", **trees))).fetchall()
    own = tuskml.train(
        con, "gbdt", source=files.strip("'"), label="x", features=["z", "y"], group_by="g",
        trees=3, executor="threads",
    )  # fmt: skip
    assert [(key, payload) for key, payload, _ in found] == [
        (k, m.payload) for k, m in own.items()
    ]
    assert {coef for _, _, coef in found} == {None}, "trees are in the payload"


@pytest.mark.nightly
def test_the_cluster_of_the_database_is_usual(
    con: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For groups of Parquet files, as in Python."""
    clustered: list[str] = []
    answers_of = running.answers_of

    def noted(database: Any, training: Any, where: Any) -> Any:
        clustered.append(where.executor)
        return answers_of(database, training, where)

    monkeypatch.setattr(running, "answers_of", noted)
    files = f"'{sharded.shards(con, tmp_path / 's')}'"
    expected = models(con, source=files, **EXACT)
    assert not clustered
    with tuskml.connect(cluster="threads") as own:
        assert models(own, source=files, **EXACT) == expected
        assert clustered == ["threads"]
        own.execute(f"CREATE TABLE rows AS FROM {files}")
        for given in ({}, {"group_by": "[]", "source": files}):
            own.execute(f"FROM {train(**given)}").fetchall()
        assert clustered == ["threads"]
    statement = f"SELECT count(*) AS n FROM {train(source=files)}"
    assert main(["sql", "--cluster", "threads", "--json", "-c", statement]) == 0
    assert json.loads(capsys.readouterr().out) == [{"n": 7}]
    assert clustered == ["threads", "threads"]
    assert main(["sql", "--cluster", "rey", "-c", "SELECT 1"]) == 1
    assert "did you mean 'ray'" in capsys.readouterr().err
    assert (
        main(["sql", "--cluster", "ray", "--database", "postgresql:///x", "-c", "SELECT 1"]) == 1
    )
    assert "statements of PostgreSQL train in its server" in capsys.readouterr().err


@pytest.mark.nightly
def test_one_training_serves_a_statement(con: duckdb.DuckDBPyConnection) -> None:
    """Joins, a count, EXPLAIN, which trains nothing, and a statement that runs twice."""
    form = train(cluster="threads", **EXACT)
    joined = f"SELECT count(predict(m.model, [x, z])) FROM rows JOIN {form} AS m USING (g)"
    assert con.execute(joined).fetchall() == con.execute("SELECT count(g) FROM rows").fetchall()
    assert con.execute(f"SELECT count(*) FROM {form}").fetchall() == [(7,)]
    before = tuskml.databases.connection.rows_read()
    con.execute(f"EXPLAIN SELECT * FROM {form}")
    assert tuskml.databases.connection.rows_read() == before
    con.execute(f"PREPARE again AS SELECT g, model.payload FROM {form} ORDER BY g")
    first = con.execute("EXECUTE again").fetchall()
    assert con.execute("EXECUTE again").fetchall() == first
    twice = f"WITH m AS (FROM {form}) SELECT count(*) FROM m AS a JOIN m AS b USING (model)"
    assert con.execute(twice).fetchall() == [(7,)]


@pytest.mark.nightly
def test_explain_has_the_estimates_of_a_cluster(con: duckdb.DuckDBPyConnection) -> None:
    """Below the explanation of one machine, which JSON has alone."""
    query = "SELECT model.plan, model.loss FROM {} WHERE g = 'g1'"
    ((plan, loss),) = con.execute(query.format(train(cluster="threads", explain=True))).fetchall()
    here, text = plan.split("\n\n8,000 rows in 7 groups, configurations: 1, workers: ")
    assert "actual" in here
    assert {line.split()[0] for line in text.splitlines()[3:]} == {"TP", "MTP", "DP", "GAP"}
    assert "TP took " in text.splitlines()[-1]
    form = train(cluster="threads", explain=True, format="json")
    ((plan, same),) = con.execute(query.format(form)).fetchall()
    assert "actual" in json.loads(plan)
    assert same == pytest.approx(loss)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"cluster": "ray"},
            r"'ray', and the database was not opened for this .*\(cluster='ray'\)",
        ),
        ({"cluster": "10.0.0.1:6379"}, r"expected tuskml.connect\(cluster='10.0.0.1:6379'\)"),
        ({"executor": "rey"}, "did you mean 'ray'"),
        ({"executor": "threads"}, "options 'executor' and 'cluster' are both given"),
        ({"finished": "f"}, "statements write to none"),
        ({"placement": "gup"}, "train: placement is 'gup', expected 'gtp'"),
        ({"store": "a"}, "a store is a folder of one machine"),
        ({"max_itr": 3}, "did you mean 'max_iter'"),
        ({"label": "q"}, 'train: Referenced column "q" not found'),
        ({"group_by": "'*'"}, "group_by has 1 keys, which are 4 columns"),
        ({"source": "nowhere"}, "nowhere does not exist.*no temporary tables"),
        ({"source": "SELECT *, random() AS r FROM rows", "features": "['r']"}, "on other rows of"),
    ],
    ids=str,
)
def test_what_a_statement_cannot_train_is_a_sentence(
    con: duckdb.DuckDBPyConnection, given: dict[str, Any], sentence: str
) -> None:
    place = {} if given.get("executor") == "rey" else {"cluster": "threads"}
    with pytest.raises(duckdb.Error, match=sentence):
        con.execute(f"SELECT count(*) FROM {train(**place | given)}")


@pytest.mark.nightly
def test_rows_that_only_the_statement_sees_are_refused(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("BEGIN; UPDATE rows SET x = -x WHERE rowid = 7")
    with pytest.raises(duckdb.Error, match="than this statement sees: commit them first"):
        models(con, cluster="threads")
    con.execute("ROLLBACK")
    assert len(models(con, cluster="threads")) == 7


def test_a_database_without_files_trains_on_no_cluster() -> None:
    with tuskml.connect() as own:
        sharded.table(own, 1000)
        own.execute("SET enable_external_access = false")
        with pytest.raises(duckdb.Error, match="enable_external_access is false"):
            models(own, cluster="threads")
        assert len(models(own)) == 7, "without a cluster it trains"


def test_a_cancel_ends_the_statement(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By DuckDB's own interrupt, while workers train."""
    monkeypatch.setenv(temporary.FOLDER, str(tmp_path))
    with acting.interrupted_at_work(con), pytest.raises(duckdb.Error, match=r"(?i)interrupt"):
        models(con, cluster="threads", algorithm="sgd", epsilon=0, max_iter=10_000_000)
    assert list(tmp_path.glob(f"{temporary.PREFIX}*")) == []
    assert len(models(con, cluster="threads")) == 7
