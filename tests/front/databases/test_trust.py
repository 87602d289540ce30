"""DuckDB trusts the extension by its signature: plain connections after `tuskml install`."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import tuskml
from tuskml.commands.cli import main
from tuskml.databases import trust
from tuskml.udas.duckdb import extension_path

pytestmark = pytest.mark.skipif(
    not trust.is_possible(), reason="DuckDB 1.5 has no repositories with pinned keys"
)
TRAIN = "SELECT (train_model('linear', 2 * x, [x])).status FROM range(9) t(x)"
PLAIN = """
import duckdb, json, sys
said = []
with duckdb.connect() as con:
    for statement in sys.argv[1:]:
        try:
            said.append(con.execute(statement).fetchall())
        except duckdb.Error as error:
            said.append(str(error))
print()  # after DuckDB's progress
print(json.dumps(said))
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory, for this process and those that it starts."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "TUSKML_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        "tuskml.commands.host.install.notes",
        lambda: [tmp_path / ".local" / "share" / "tuskml" / "tuskml.python"],
    )
    trust.of_package.cache_clear()
    yield tmp_path
    trust.of_package.cache_clear()


def plain(*statements: str) -> list:
    """What a new process that opens DuckDB with no setting answers."""
    command = [sys.executable, "-c", PLAIN, *statements]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.nightly
def test_a_plain_connection_trains_after_install(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (before,) = plain("LOAD tuskml FROM tuskml")
    assert "not a known repository name" in before
    assert main(["install", "--dry-run"]) == 0
    assert not (home / ".duckdb").exists()
    foretold = capsys.readouterr().err
    assert str(home / ".duckdb" / "extension_repositories") in foretold
    assert trust.fingerprint() in foretold
    assert main(["install"]) == 0
    said = capsys.readouterr()
    assert said.out == "LOAD tuskml FROM tuskml;\n"
    assert said.err == foretold.replace("would change:", "changing:")
    loaded, trained, keys = plain(
        said.out, TRAIN, "SELECT keys FROM duckdb_extension_repositories() t(n, u, k, keys)"
        " WHERE n = 'tuskml'",
    )  # fmt: skip
    assert (loaded, trained, keys) == ([], [["ok"]], [[[trust.fingerprint()]]])
    assert main(["install", "--remove"]) == 0
    assert "not a known repository name" in plain("LOAD tuskml FROM tuskml")[0]
    left = [path for path in home.rglob("*") if path.is_file() and ".cache" not in path.parts]
    assert left == []


def test_a_damaged_file_is_refused(home: Path) -> None:
    user = trust.of_user()
    trust.make(user)
    file = user.extension_file(*trust.version_and_platform())
    damaged = bytearray(extension_path().read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.unlink()
    file.write_bytes(damaged)
    (said,) = plain("LOAD tuskml FROM tuskml")
    assert "signature is either missing or invalid" in said
    with duckdb.connect() as con, pytest.raises(tuskml.ExtensionError, match="tuskml install"):
        tuskml.load(con)


def test_a_plain_connection_and_ours_open_one_file(home: Path) -> None:
    """In one process, which DuckDB refuses where their settings differ."""
    trust.make(trust.of_user())
    path = home / "shop.duckdb"
    with duckdb.connect(str(path)) as con, tuskml.connect(path) as ours:
        tuskml.load(con)
        assert con.execute(TRAIN).fetchall() == ours.execute(TRAIN).fetchall() == [("ok",)]


def test_another_installation_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = home / "other" / "tuskml.duckdb_extension"
    copy.parent.mkdir()
    shutil.copy(extension_path(), copy)
    shutil.copy(trust.public_key_path(), copy.with_suffix(".pem"))
    with monkeypatch.context() as patched:
        patched.setattr(trust, "extension_path", lambda: copy)
        trust.make(trust.of_user())
    assert not trust.is_ready(trust.of_user())
    with (
        duckdb.connect() as con,
        pytest.raises(tuskml.ExtensionError, match="another installation"),
    ):
        tuskml.load(con)


def test_versions_of_clients(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--for", "2.9.1"]) == 0
    _, platform = trust.version_and_platform()
    other = trust.of_user().extension_file("v2.9.1", platform)
    assert other.samefile(extension_path())
    assert trust.information(other).is_file()
    capsys.readouterr()
    assert main(["install", "--for", "1.5.0"]) == 1
    assert (
        "--for is '1.5.0', expected a version of DuckDB from 2.0.0 on" in capsys.readouterr().err
    )


@pytest.mark.usefixtures("home")
def test_connect_needs_no_setting_and_leaves_the_users_folder_alone(home: Path) -> None:
    for _ in range(2):
        with tuskml.connect(lock_configuration=True) as con:
            assert con.execute(TRAIN).fetchall() == [("ok",)]
            unsigned = "SELECT current_setting('allow_unsigned_extensions')"
            assert con.execute(unsigned).fetchall() == [(False,)]
    assert not (home / ".duckdb").exists()
    assert len(list((home / ".cache" / "tuskml" / "trust").iterdir())) == 1


@pytest.mark.usefixtures("home")
def test_a_home_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with tuskml.connect() as con:
        assert con.execute(TRAIN).fetchall() == [("ok",)]


@pytest.mark.nightly
def test_processes_that_begin_at_once(home: Path) -> None:
    """Each finds or makes the same repository, also where a broken one lies."""
    with tuskml.connect():
        (made,) = (home / ".cache" / "tuskml" / "trust").iterdir()
    shutil.rmtree(made / "keys")
    script = f"import tuskml; print(tuskml.connect().execute({TRAIN!r}).fetchall())"
    begun = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [one.communicate()[0].strip() for one in begun]
    assert [text.endswith("[('ok',)]") for text in said] == [True] * 2, said
    assert list(made.parent.iterdir()) == [made]


@pytest.mark.usefixtures("home")
def test_what_the_user_sets_is_kept() -> None:
    settings = "SELECT current_setting('extension_directories')"
    with tuskml.connect(extension_directory="/somewhere") as con:
        assert con.execute(settings).fetchall()[0][0][0] == "/somewhere"
    with tuskml.connect(allow_unsigned_extensions=True) as con:
        assert con.execute(settings).fetchall() == [([],)]
