"""Every version reads what earlier ones kept, and predicts the same.

Each folder beside this file was written by scripts/build/kept.py of the version that it is called
by. `python scripts/build/kept.py tests/sql/kept` writes that of the present version.
"""

# ruff: noqa: E501, SQL is read better on one line

import gzip
import json
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from option_tries import tasks

import tuskml
from tuskml import registry
from tuskml.model.group_models import Models
from tuskml.model.model import Model
from tuskml.version import VERSION

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/expected.json"))
EXTENSIONS = ("tuskml", "tuskml_train")
KEPT = "tusk_kept_models"
LATER: set[str] = set()
"""Tasks that the last folder lacks, and the next one has."""
MEMBERS = """
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) || COALESCE(' returns ' || format_type(p.prorettype, NULL), '')
FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
LEFT JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
WHERE d.deptype = 'e' AND e.extname = '{}' ORDER BY 1
"""


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name, scope="module")
def folder(request: pytest.FixtureRequest) -> Path:
    """What a version kept."""
    return request.param


def expected(folder: Path, database: str) -> dict[str, Any]:
    """The queries and answers by the name of the model."""
    return json.loads((folder / "expected.json").read_text())[database]


def check(con: Any, cases: dict[str, Any]) -> None:
    """The models answer as they did."""
    for name, case in cases.items():
        found = [row[0] for row in con.execute(case["query"]).fetchall()]
        assert len(found) == len(case["answers"]) > 10, name
        for one, answer in zip(found, case["answers"], strict=True):
            exact = answer is None or isinstance(answer, str)
            assert one == (answer if exact else pytest.approx(answer, rel=1e-9, abs=1e-12)), name


@pytest.fixture
def kept(folder: Path, tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session in a copy of the DuckDB file, with the files of its stores."""
    made = shutil.copytree(folder, tmp_path / "kept")
    with tuskml.connect(made / "models.duckdb", store_root=made / "stores") as con:
        yield con


def others(cases: dict[str, Any]) -> dict[str, Any]:
    """Those of models in tables: without the registry's."""
    return {name: case for name, case in cases.items() if name != "the registry"}


def test_models_of_every_task_are_kept() -> None:
    """In both databases, by the version whose scripts and folder were written last."""
    for database in ("duckdb", "postgres"):
        names = {name.partition(",")[0] for name in others(expected(FOLDERS[-1], database))}
        assert names == set(tasks()) - LATER


def test_the_file_of_duckdb(folder: Path, kept: duckdb.DuckDBPyConnection) -> None:
    check(kept, expected(folder, "duckdb"))
    model = registry.model(kept, "kept")
    assert registry.register(kept, "kept", model) == 2
    assert registry.deploy(kept, "kept") == 1
    check(kept, expected(folder, "duckdb"))


def test_the_file_of_duckdb_is_read_in_place(folder: Path, con: duckdb.DuckDBPyConnection) -> None:
    con.execute(f"ATTACH '{folder / 'models.duckdb'}' AS attached (READ_ONLY)")
    con.execute("USE attached")
    try:
        cases = others(expected(folder, "duckdb"))
        check(con, {name: cases[name] for name in cases if "stored" not in name})
    finally:
        con.execute("USE memory")
        con.execute("DETACH attached")


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_tables_and_texts(folder: Path, kept: duckdb.DuckDBPyConnection, form: str) -> None:
    """Models in Parquet, and those that Model.to_json wrote."""
    kept.execute("DROP TABLE kept_models")
    if form == "parquet":
        kept.execute(f"CREATE TABLE kept_models AS FROM '{folder / 'models.parquet'}'")
    else:
        texts = json.loads((folder / "models.json").read_text())
        models = {name: Model.from_json(json.dumps(text)) for name, text in texts.items()}
        assert all(Model.from_json(model.to_json()) == model for model in models.values())
        registry.register(kept, "texts", Models(models.items(), ["name"]))
        kept.execute(
            "CREATE TABLE kept_models AS SELECT group_key AS name, model FROM tuskml.models WHERE name = 'texts'"
        )
    check(kept, others(expected(folder, "duckdb")))


# --- PostgreSQL ---


@pytest.fixture
def restored(cluster: Any, folder: Path) -> Iterator[psycopg.Connection]:
    """A session in an empty database."""
    cluster.create_database(KEPT, "template0")
    with cluster.connect(KEPT) as session:
        yield session
    cluster.drop_database(KEPT)


def restore(cluster: Any, folder: Path) -> None:
    """Reads the dump by psql, which stops at the first error."""
    psql = cluster.server.folder("BINDIR") / "psql"
    given = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", cluster.conninfo(KEPT), "-f", "-"]
    with (folder / "models.sql").open() as dump:
        done = subprocess.run(
            [psql, *given], stdin=dump, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_dump_of_postgres(cluster: Any, restored: psycopg.Connection, folder: Path) -> None:
    restore(cluster, folder)
    check(restored, expected(folder, "postgres"))


@pytest.fixture
def older(cluster: Any, folder: Path, root: Path) -> Iterator[str]:
    """The version that the folder's scripts of extensions have on the server.

    Until that version is released it is the present one, and gets another name; the way from it is
    what the program makes that writes such scripts. Later the package has to bring the way.
    """
    scripts = cluster.server.scripts
    name = folder.name if folder.name != VERSION else f"{VERSION}kept"
    upgrade = runpy.run_path(str(root / "scripts/build/upgrade.py"))["upgrade"]
    made = {}
    for extension in EXTENSIONS:
        packed = (folder / f"{extension}--{folder.name}.sql.gz").read_bytes()
        before = gzip.decompress(packed).decode()
        made[f"{extension}--{name}.sql"] = before
        if name != folder.name:
            today = (scripts / f"{extension}--{VERSION}.sql").read_text()
            made[f"{extension}--{name}--{VERSION}.sql"] = upgrade(before, today)
    for file, text in made.items():
        (scripts / file).write_text(text)
    yield name
    for file in made:
        (scripts / file).unlink()


def members(session: psycopg.Connection, extension: str) -> list[tuple]:
    return session.execute(MEMBERS.format(extension)).fetchall()


def test_the_extensions_are_upgraded_from_it(
    cluster: Any, restored: psycopg.Connection, folder: Path, older: str
) -> None:
    for extension in EXTENSIONS:
        restored.execute(f"CREATE EXTENSION {extension} VERSION '{older}' CASCADE")
    restore(cluster, folder)
    cases = expected(folder, "postgres")
    check(restored, cases)
    for extension in EXTENSIONS:
        restored.execute(f"ALTER EXTENSION {extension} UPDATE")
    versions = "SELECT DISTINCT extversion FROM pg_extension WHERE extname ~ '^tuskml'"
    assert restored.execute(versions).fetchall() == [(VERSION,)]
    check(restored, cases)
    again = "SELECT train_model('linear', y, ARRAY[a, n]) AS model FROM kept_rows"
    ((found,),) = restored.execute(f"SELECT (t.model).status FROM ({again}) AS t").fetchall()
    assert found == "ok"
    restored.execute(f"SELECT register_model('kept', t.model) FROM ({again}) AS t")
    upgraded = {extension: members(restored, extension) for extension in EXTENSIONS}
    restored.execute(f"DROP EXTENSION {', '.join(EXTENSIONS)} CASCADE")
    for extension in EXTENSIONS:
        restored.execute(f"CREATE EXTENSION {extension} CASCADE")
        assert members(restored, extension) == upgraded[extension], extension
