"""What `tuskml postgres` says when something is missing; its good path is in tests/postgres."""

import os
import pwd
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tuskml.commands.cli import main
from tuskml.databases import postgres_connection
from tuskml.databases.extension import install as postgres
from tuskml.databases.extension import pgxs

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
Complaint = Callable[..., str]


class Fake:
    """A folder that looks like a server's installation, and its pg_config."""

    def __init__(self, folder: Path) -> None:
        self.pg_config = folder / "bin" / "pg_config"
        self.header = folder / "include" / "server" / "postgres.h"
        self.pgxs = folder / "lib" / "pgxs" / "pgxs.mk"
        self.control = folder / "share" / "extension" / "plpython3u.control"
        self.plpython = folder / "lib" / "plpython3.so"
        for file in (self.header, self.pgxs, self.control, self.plpython):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")
        self.plpython.write_bytes(b"\0libpython" + HERE.encode() + b".so.1.0\0")
        self.prints(
            "VERSION = PostgreSQL 15.20 (Debian 15.20-0+deb12u1)",
            f"BINDIR = {folder}/bin",
            f"PKGLIBDIR = {folder}/lib",
            f"SHAREDIR = {folder}/share",
            f"INCLUDEDIR-SERVER = {folder}/include/server",
            f"PGXS = {self.pgxs}",
            "CC = sh",
        )

    def prints(self, *lines: str) -> None:
        """Makes a pg_config that prints these lines."""
        self.pg_config.parent.mkdir(exist_ok=True)
        pgxs_alone = f'[ "$1" = --pgxs ] && exec echo "{self.pgxs}"'
        script = ["#!/bin/sh", pgxs_alone, "cat <<'END'", *lines, "END"]
        self.pg_config.write_text("\n".join(script) + "\n")
        self.pg_config.chmod(0o755)


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path / "postgres")


@pytest.fixture
def complaint(capsys: pytest.CaptureFixture[str], fake: Fake) -> Complaint:
    """The sentence with which `tuskml postgres install` fails on the fake server."""

    def run(*argv: str) -> str:
        given = argv or ("install", "--pg-config", str(fake.pg_config))
        assert main(["postgres", *given]) == 1
        err = capsys.readouterr().err
        assert err.startswith("tuskml: ")
        assert err.count("\n") == 1
        return err.removeprefix("tuskml: ").rstrip("\n")

    return run


def test_headers_are_missing(fake: Fake, complaint: Complaint) -> None:
    fake.header.unlink()
    assert complaint() == (
        f"the headers of PostgreSQL 15 are not installed: no {fake.header} "
        "(Debian: apt install postgresql-server-dev-15)"
    )


def test_the_build_files_are_missing(fake: Fake, complaint: Complaint) -> None:
    fake.pgxs.unlink()
    assert complaint().startswith(
        f"the headers of PostgreSQL 15 are not installed: no {fake.pgxs}"
    )


@pytest.mark.parametrize("missing", ["control", "plpython"])
def test_plpython_is_missing(fake: Fake, complaint: Complaint, missing: str) -> None:
    file = getattr(fake, missing)
    file.unlink()
    assert complaint() == (
        f"PL/Python of PostgreSQL 15 is not installed: no {file} "
        "(Debian: apt install postgresql-plpython3-15)"
    )


def test_plpython_is_another_python(fake: Fake, complaint: Complaint) -> None:
    fake.plpython.write_bytes(b"\0libpython3.7m.so.1.0\0")
    assert complaint() == (
        f"PL/Python of PostgreSQL 15 is Python 3.7, and this environment is Python {HERE}, "
        "expected the same: make one with python3.7 -m venv, and install tuskml there"
    )


def test_a_plpython_that_does_not_show_its_python_is_tried(fake: Fake) -> None:
    fake.plpython.write_bytes(b"")
    pgxs.check_python(pgxs.find(fake.pg_config))


def test_the_compiler_is_missing(fake: Fake, complaint: Complaint) -> None:
    text = fake.pg_config.read_text()
    fake.pg_config.write_text(text.replace("CC = sh", "CC = no-such-compiler -O2"))
    assert complaint() == (
        "the extension is compiled by make and a C compiler, and no-such-compiler was not found "
        "(Debian: apt install make gcc)"
    )


def test_pg_config_is_not_there(complaint: Complaint, tmp_path: Path) -> None:
    path = tmp_path / "no-pg_config"
    assert complaint("install", "--pg-config", str(path)) == (
        f"--pg-config is {path}, which cannot be run (No such file or directory): expected a "
        "server's pg_config, such as /usr/lib/postgresql/15/bin/pg_config"
    )


def test_pg_config_is_something_else(fake: Fake, complaint: Complaint) -> None:
    fake.prints("hello")
    assert complaint() == (
        f"--pg-config is {fake.pg_config}, which printed no PostgreSQL version and folders: "
        "expected a server's pg_config, such as /usr/lib/postgresql/15/bin/pg_config"
    )


@pytest.mark.parametrize(
    ("installed", "package"), [([], "all"), (["9.6", "15"], "15"), (["14", "9.6"], "14")]
)
def test_no_pg_config_names_the_package(
    complaint: Complaint, monkeypatch, tmp_path: Path, installed: list[str], package: str
) -> None:
    for version in installed:
        (tmp_path / version / "bin").mkdir(parents=True)
    monkeypatch.setattr(pgxs, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert complaint("install") == (
        "pg_config was not found: install the server's headers (Debian: apt install "
        f"postgresql-server-dev-{package}), or say where it is by --pg-config PATH"
    )


def test_the_newest_server_is_found(monkeypatch, tmp_path: Path) -> None:
    for version in ("9.6", "14", "15"):
        (tmp_path / version / "bin").mkdir(parents=True)
    (tmp_path / "14" / "bin" / "pg_config").touch()
    monkeypatch.setattr(pgxs, "DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pgxs.search() == tmp_path / "14" / "bin" / "pg_config"


def test_folders_that_may_not_be_written(fake: Fake, complaint: Complaint, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    monkeypatch.setattr(pgxs, "check_readable", lambda path, user: None)
    assert complaint() == (
        f"{fake.plpython.parent} may not be written by this user: sudo {sys.executable} -m tuskml "
        f"postgres install --pg-config {fake.pg_config}"
    )


def test_a_build_that_fails_is_one_sentence(fake: Fake, complaint: Complaint, monkeypatch) -> None:
    monkeypatch.setattr(pgxs, "check_readable", lambda path, user: None)
    fake.pgxs.write_text("$(error error: this is no PostgreSQL)\n")
    found = complaint()
    assert found.startswith("building the extension for PostgreSQL 15.20 failed: ")
    assert found.endswith("error: this is no PostgreSQL.  Stop.")


@pytest.mark.parametrize("folder", ["/home/ann/my env", "/opt/it's", "/opt/$x"])
def test_a_path_that_make_cannot_pass_on(monkeypatch, folder: str) -> None:
    class Found:
        def locate_file(self, _: str) -> Path:
            return Path(folder)

    monkeypatch.setattr("importlib.metadata.distributions", lambda **_: [Found()])
    with pytest.raises(pgxs.ExtensionError, match="expected a path without spaces and quotes"):
        pgxs.python_path()


def test_the_python_path_leads_to_tuskml_and_numpy() -> None:
    folders = [Path(folder) for folder in pgxs.python_path().split(":")]
    assert any((folder / "numpy").is_dir() for folder in folders)
    assert all(any(folder.glob(pattern)) for folder in folders[:1] for pattern in ["tuskml-*"])


def other_user() -> pwd.struct_passwd:
    """A user who is neither root nor this one, nor in this one's groups."""
    return pwd.struct_passwd(("nobody", "x", 65534, 65534, "", "/", "/bin/sh"))


@pytest.fixture
def env() -> Iterator[Path]:
    """A folder that all may enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name).resolve() / "env"


def test_a_folder_that_the_server_cannot_enter(env: Path) -> None:
    site = env / "site-packages"
    site.mkdir(parents=True)
    seen = []
    for env_mode, site_mode in [(0o755, 0o755), (0o700, 0o755), (0o711, 0o755), (0o755, 0o711)]:
        env.chmod(env_mode)
        site.chmod(site_mode)
        seen.append(pgxs.shut_to(site, other_user()))
    assert seen == [None, env, None, site]


def test_an_environment_that_the_server_cannot_read(monkeypatch) -> None:
    monkeypatch.setattr(pgxs, "shut_to", lambda path, user: Path("/root"))
    with pytest.raises(pgxs.ExtensionError) as caught:
        pgxs.check_readable("/root/env/lib", other_user())
    assert str(caught.value) == (
        "the server's user nobody cannot read /root/env/lib, because /root lets no others in: "
        "chmod o+rx /root, or install tuskml in another environment, such as one made by "
        "python3 -m venv /opt/tuskml"
    )


def test_psycopg_is_missing(complaint: Complaint, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert complaint("check") == (
        "a connection to PostgreSQL needs psycopg: pip install 'tuskml[postgres]'"
    )


def test_no_server_answers(complaint: Complaint, tmp_path: Path) -> None:
    assert "Is the server running" in complaint("check", "--database", f"host={tmp_path}")


def test_the_server_is_another_version(fake: Fake) -> None:
    class Info:
        server_version = 140003

    class Connection:
        info = Info()

    with pytest.raises(pgxs.ExtensionError) as caught:
        postgres.check_same(Connection(), pgxs.find(fake.pg_config))  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"the database's server is PostgreSQL 14, and {fake.pg_config} is of PostgreSQL 15, "
        "expected the same: give --pg-config /usr/lib/postgresql/14/bin/pg_config"
    )


def test_the_server_does_not_see_the_files(fake: Fake) -> None:
    """Another installation of the same version, whose pg_available_extensions has no tuskml."""

    class Connection:
        class info:
            server_version = 150020

        def execute(self, query: str, given: dict[str, str]) -> "Connection":
            assert "pg_available_extensions" in query
            return self

        def fetchone(self) -> tuple[None, None]:
            return (None, None)

    with pytest.raises(pgxs.ExtensionError, match="the database's server does not see the files"):
        postgres.check_same(Connection(), pgxs.find(fake.pg_config))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("", ""),
        ("flights", "dbname=flights"),
        ("postgresql://ann@h/d", "postgresql://ann@h/d"),
        ("host=h dbname=d", "host=h dbname=d"),
    ],
)
def test_what_names_a_database(given: str, meant: str) -> None:
    assert postgres_connection.conninfo(given) == meant


@pytest.mark.parametrize("target", ["host=h", "user=ann", "postgresql://ann@/d"])
def test_connections_with_a_user_or_a_host_are_made_as_oneself(target: str, monkeypatch) -> None:
    monkeypatch.setattr(os, "seteuid", lambda user: pytest.fail("changed the user"))
    with postgres_connection.as_local_user(target):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can change its user")
def test_root_connects_as_postgres(monkeypatch) -> None:
    monkeypatch.setattr(postgres_connection, "account", lambda name: 65534)
    monkeypatch.delenv("PGUSER", raising=False)
    monkeypatch.delenv("PGHOST", raising=False)
    with postgres_connection.as_local_user("dbname=d"):
        assert os.geteuid() == 65534
    assert os.geteuid() == 0


def test_uninstall_of_nothing(fake: Fake, capsys) -> None:
    assert main(["postgres", "uninstall", "--pg-config", str(fake.pg_config)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split(maxsplit=1) == [
        "removed",
        "nothing, no file of tuskml was there",
    ]


@pytest.mark.parametrize("argv", [[], ["instal"], ["check", "--pg-config", "x"]])
def test_wrong_usage(argv: list[str], capsys) -> None:
    assert main(["postgres", *argv]) == 2
    assert capsys.readouterr().err.startswith("tuskml")


def test_every_file_of_the_extension_is_in_the_sources() -> None:
    folder = pgxs.sources()
    assert {"Makefile", "exports.txt", "tuskml.c"} <= {path.name for path in folder.iterdir()}
    assert list((folder.parent / "rowblock").glob("*.c"))
    assert shutil.which("make")
