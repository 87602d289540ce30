"""`tuskml postgres` against a real server: install, check, upgrade, uninstall."""

import json
import os
import pwd
import re
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from cluster import TEMPLATE, Cluster, mirror

from tuskml.commands.cli import main
from tuskml.databases.extension import install as postgres
from tuskml.databases.extension import pgxs
from tuskml.version import VERSION

CREATED = "tusk_install_created"
OURS_IN = """
SELECT count(*) FROM pg_depend AS d JOIN pg_extension AS e ON d.refobjid = e.oid
LEFT JOIN pg_proc AS p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
LEFT JOIN pg_type AS t ON d.classid = 'pg_type'::regclass AND d.objid = t.oid
WHERE e.extname ~ '^tuskml' AND d.deptype = 'e'
  AND coalesce(p.pronamespace, t.typnamespace) = '{}'::regnamespace
"""


@pytest.fixture(scope="module", autouse=True)
def _readable(cluster: Cluster) -> None:
    if cluster.python_path != pgxs.python_path():
        pytest.skip(f"the server's user cannot read this environment: {pgxs.python_path()}")


@pytest.fixture(scope="module", autouse=True)
def _kept_objects(
    cluster: Cluster,
    root: Path,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """What one install compiled the next takes. In `make test` they take what was compiled for
    the cluster of the tests, with the system's headers; those of `-m smoke` compile.
    """
    folder = tmp_path_factory.mktemp("objects")
    compiled = root / os.environ.get("TUSKML_POSTGRES_BUILD", "build/postgres")
    make = pgxs.make

    def install(server: pgxs.Server, path: str, build: Path, *targets: str) -> str:
        own = folder / ("trains" if path else "scores")
        if not own.exists():
            shutil.copytree(compiled, own)
            if not path:
                make(pgxs.find(), path, own, "flags")
                for file in own.glob("*.o"):  # the flags differ in the path, which one file reads
                    file.unlink() if file.name == "udas-postgres-tuskml.o" else file.touch()
        places = [
            f"pkglibdir={server.folder('PKGLIBDIR')}",
            f"datadir={server.folder('SHAREDIR')}",
        ]
        return make(pgxs.find(), path, own, *targets, *places)

    with pytest.MonkeyPatch.context() as patch:
        kept = SimpleNamespace(TemporaryDirectory=lambda **_: nullcontext(folder))
        patch.setattr(pgxs, "tempfile", kept)
        if compiled.is_dir() and not request.config.getoption("markexpr"):
            patch.setattr(pgxs, "make", install)
        yield


@pytest.fixture
def plain(cluster: Cluster):
    """A database without the extension."""
    cluster.create_database(CREATED, template="template0")
    yield cluster.conninfo(CREATED)
    cluster.drop_database(CREATED)


@pytest.fixture
def ann(cluster: Cluster):
    """A role without privileges."""
    with cluster.connect("postgres") as connection:
        connection.execute("CREATE ROLE tusk_install_ann LOGIN")
        yield "tusk_install_ann"
        connection.execute("DROP ROLE tusk_install_ann")


def answer(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> dict[str, str]:
    """What a command that goes well prints as JSON."""
    status = main(["postgres", *map(str, argv), "--json"])
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return json.loads(out)


def complaint(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> str:
    """The sentence of a command that fails."""
    assert main(["postgres", *map(str, argv)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("tuskml: ")
    assert err.count("\n") == 1
    return err.removeprefix("tuskml: ").rstrip("\n")


@pytest.mark.smoke
def test_install_creates_the_extension_and_check_trains(
    cluster: Cluster, plain: str, capsys
) -> None:
    pg_config = cluster.server.pg_config
    done = answer(capsys, "install", "--pg-config", pg_config, "--database", plain)
    assert done["database"] == f"{CREATED}, created"
    assert str(cluster.server.library) in done["installed"].split()

    found = answer(capsys, "check", "--database", plain)
    assert found["package"] == found["extension"] == VERSION
    assert found["server"].startswith("PostgreSQL ")
    assert found["plpython3u"].startswith("Python 3.")
    assert found["python path"] == pgxs.python_path()
    assert found["training"] == "y = 2x + 1 has coefficient 2 and intercept 1"

    again = answer(capsys, "install", "--pg-config", pg_config, "--database", plain)
    assert again["database"] == f"{CREATED}, has it"
    up = answer(capsys, "upgrade", "--pg-config", pg_config, "--database", plain)
    assert up["database"] == f"{CREATED}, from {VERSION} to {VERSION}"


def test_check_says_that_a_database_has_no_extension(plain: str, capsys) -> None:
    assert complaint(capsys, "check", "--database", plain) == (
        f"the database {CREATED} has no extension tuskml: "
        "its owner says CREATE EXTENSION tuskml, and a superuser CREATE EXTENSION tuskml_train "
        "CASCADE for training too"
    )


def test_check_prints_what_it_found_before_the_error(plain: str, capsys) -> None:
    assert main(["postgres", "check", "--database", plain, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["database"] == CREATED
    assert "CREATE EXTENSION" in found["error"]


def test_check_finds_another_version(cluster: Cluster, database: str, capsys, monkeypatch) -> None:
    monkeypatch.setattr(postgres, "VERSION", "9.9.9")
    assert complaint(capsys, "check", "--database", cluster.conninfo(database)) == (
        f"the database {database} has version {VERSION} of the extension, and the package is "
        f"version 9.9.9, expected the same: tuskml postgres upgrade --database {database}"
    )


def test_check_finds_a_wrong_python_path(cluster: Cluster, plain: str, capsys) -> None:
    with cluster.connect(CREATED) as connection:
        connection.execute("CREATE EXTENSION tuskml_train CASCADE")
        connection.execute(f"ALTER DATABASE {CREATED} SET tuskml.python_path = '/nowhere'")
    found = complaint(capsys, "check", "--database", plain)
    assert "No module named 'tuskml'" in found
    assert "there is no folder /nowhere" in found
    assert "tuskml.python_path, which is '/nowhere': tuskml postgres install" in found


def test_an_environment_that_the_server_may_not_read(
    cluster: Cluster, plain: str, tmp_path: Path, capsys
) -> None:
    shut = tmp_path / "shut"
    (shut / "env").mkdir(parents=True)
    shut.chmod(0o600)
    user = cluster.user or pwd.getpwuid(os.geteuid()).pw_name
    with cluster.connect(CREATED) as connection:
        connection.execute("CREATE EXTENSION tuskml_train CASCADE")
        connection.execute(f"ALTER DATABASE {CREATED} SET tuskml.python_path = '{shut / 'env'}'")
    found = complaint(capsys, "check", "--database", plain)
    shut.chmod(0o700)
    place = re.search(rf"the server's account {user} may not read (\S+), which leads", found)
    assert place, found
    assert place[1] in map(str, [shut, *shut.parents])
    assert str(shut / "env") in found
    assert "tuskml postgres check" not in found
    assert found.count("tuskml:") == 0


@pytest.mark.nightly
def test_the_extension_can_live_in_any_schema(cluster: Cluster, plain: str, capsys) -> None:
    with cluster.connect(CREATED) as connection:
        connection.execute("CREATE EXTENSION plpython3u")
        connection.execute('CREATE SCHEMA "ML stuff"')
        connection.execute('CREATE EXTENSION tuskml_train SCHEMA "ML stuff" CASCADE')
    assert answer(capsys, "check", "--database", plain)["training"]


def test_check_says_who_may_train(cluster: Cluster, plain: str, ann: str, capsys) -> None:
    target = plain.replace("user=postgres", f"user={ann}")
    with cluster.connect(CREATED) as connection:
        connection.execute("CREATE EXTENSION tuskml_train CASCADE")
        assert complaint(capsys, "check", "--database", target) == (
            f"the user {ann} may not train: a superuser says GRANT tuskml_user TO {ann}"
        )
        connection.execute(f"GRANT tuskml_user TO {ann}")
    found = answer(capsys, "check", "--database", target)
    assert found["training"]
    assert found["plpython3u"] == "installed; superusers see its version"


def test_upgrade_needs_the_extension(cluster: Cluster, plain: str, capsys) -> None:
    pg_config = cluster.server.pg_config
    found = complaint(capsys, "upgrade", "--pg-config", pg_config, "--database", plain)
    assert found.startswith(f"the database {CREATED} has no tuskml to upgrade")


@pytest.mark.nightly
def test_uninstall_drops_and_removes(cluster: Cluster, plain: str, tmp_path, capsys) -> None:
    other = mirror(cluster.server, tmp_path / "installation")
    pgxs.install(other, "/some/where")
    assert len(other.files()) == 5
    with cluster.connect(CREATED) as connection:
        connection.execute("CREATE EXTENSION tuskml_train CASCADE")
    command = ["uninstall", "--force", "--pg-config", other.pg_config, "--database", plain]
    done = answer(capsys, *command)
    assert done["database"] == f"{CREATED}, dropped"
    assert len(done["removed"].split()) == 5
    assert other.files() == []


def test_uninstall_leaves_the_files_that_another_database_uses(
    cluster: Cluster, plain: str, capsys
) -> None:
    pg_config = cluster.server.pg_config
    before = cluster.server.files()
    with cluster.connect(CREATED) as connection:
        connection.execute("CREATE EXTENSION tuskml")
    for target in (["--database", plain], ["--database", cluster.conninfo()]):
        found = complaint(capsys, "uninstall", "--pg-config", pg_config, *target)
        assert found.startswith("the files of tuskml are in use by the extension in the database ")
        assert TEMPLATE in found
        assert (CREATED in found) == ("dbname=postgres" in target[1])
    with cluster.connect(CREATED) as connection:
        assert connection.execute("SELECT tuskml.rmse(1.0, 3.0)").fetchone() == (2,)
    assert cluster.server.files() == before


def test_uninstall_finds_sessions_that_load_the_library(
    cluster: Cluster, plain: str, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(postgres, "DATABASES", "SELECT 'postgres'")
    with cluster.connect(CREATED) as connection:
        connection.execute(f"ALTER DATABASE {CREATED} SET session_preload_libraries = 'tuskml'")
    with cluster.connect(CREATED) as connection:
        assert connection.execute("SHOW tuskml.memory_limit").fetchone() == ("-1",)
    pg_config = cluster.server.pg_config
    found = complaint(capsys, "uninstall", "--pg-config", pg_config, "--database", plain)
    assert found.startswith(f"sessions of database {CREATED} load the library of tuskml")
    assert cluster.server.library.exists()


def test_uninstall_says_that_it_cannot_look(cluster: Cluster, capsys) -> None:
    pg_config = cluster.server.pg_config
    target = cluster.conninfo("no_such_database")
    found = complaint(capsys, "uninstall", "--pg-config", pg_config, "--database", target)
    assert "expected --database URL, or --force" in found
    assert cluster.server.library.exists()


@pytest.mark.nightly
def test_a_scorer_in_the_schema_that_was_given(
    cluster: Cluster, plain: str, ann: str, capsys
) -> None:
    """An owner of a database, who is no superuser, gets predictions and metrics."""
    with cluster.connect("postgres") as connection:
        connection.execute(f"ALTER DATABASE {CREATED} OWNER TO {ann}")
    target = plain.replace("user=postgres", f"user={ann}")
    command = ["install", "--scorer", "--schema", "ML x", "--database", target]
    done = answer(capsys, *command, "--pg-config", cluster.server.pg_config)
    assert done["database"] == f"{CREATED}, created"
    assert "python path" not in done
    assert "training" not in done
    with cluster.connect(CREATED, user=ann) as connection:
        assert connection.execute('SELECT "ML x".rmse(1, 3), tuskml.rmse(1, 3)').fetchone() == (
            2,
            2,
        )
        (count,) = connection.execute(OURS_IN.format("public")).fetchone()
        assert count == 0
    found = answer(capsys, "check", "--database", target)
    assert found["scoring"] == "predictions that are 3 too high have an rmse of 3"
    assert found["training"].startswith("none, a superuser adds it by CREATE EXTENSION")
    with cluster.connect("postgres") as connection:
        connection.execute(f"ALTER DATABASE {CREATED} OWNER TO postgres")
        connection.execute(f"GRANT {ann} TO postgres")
    with cluster.connect(CREATED) as connection:
        connection.execute(f"DROP OWNED BY {ann} CASCADE")


def test_an_extension_from_before_the_split_is_named(
    cluster: Cluster, database: str, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(postgres, "UNSPLIT", postgres.UNSPLIT.replace("= 'tuskml'", "~ '^tuskml'"))
    command = ["install", "--pg-config", cluster.server.pg_config]
    found = complaint(capsys, *command, "--database", cluster.conninfo(database))
    assert found.startswith(f"the database {database} has training in the extension tuskml")
    assert "pg_dump" in found


def test_uninstall_leaves_a_database_whose_models_need_it(
    cluster: Cluster, plain: str, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(postgres, "DATABASES", "SELECT 'postgres'")
    with cluster.connect(CREATED) as connection:
        connection.execute("CREATE EXTENSION tuskml_train CASCADE")
        connection.execute("CREATE TABLE models (model tuskml_model)")
    pg_config = cluster.server.pg_config
    found = complaint(capsys, "uninstall", "--pg-config", pg_config, "--database", plain)
    assert found.startswith("cannot drop extension tuskml because other objects depend on it")
    assert cluster.server.library.exists()


def test_a_database_that_is_not_there(cluster: Cluster, capsys) -> None:
    target = cluster.conninfo("no_such_database")
    found = complaint(capsys, "check", "--database", target)
    assert 'database "no_such_database" does not exist' in found


def test_the_path_is_set_by_superusers(cluster: Cluster, database: str, pg, ann: str) -> None:
    pg.execute(f"GRANT tuskml_user TO {ann}")
    with cluster.connect(database, user=ann) as session:
        session.execute("SELECT train_model('linear', 1.0, ARRAY[1.0]) WHERE false")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SET tuskml.python_path = '/tmp'")


def test_the_readme_s_first_query(root: Path, pg) -> None:
    readme = (root / "README.md").read_text()
    (block,) = re.findall(r"^```pgsql\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    *before, last = block.split(";\n\n")
    for statement in before:
        pg.execute(statement)
    rows = pg.execute(last).fetchall()
    assert [(shop, round(at_25, 4)) for shop, *_, at_25 in rows] == [(0, 75), (1, 100), (2, 125)]


def test_the_readme_s_commands_exist(root: Path, capsys) -> None:
    readme = (root / "README.md").read_text()
    found = re.findall(r"tuskml (postgres \w+) --database (\w+)$", readme, re.MULTILINE)
    assert {"postgres install", "postgres check"} <= {command for command, _ in found}
    for command, _ in found:
        assert main([*command.split(), "--help"]) == 0
