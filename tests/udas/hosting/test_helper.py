"""The helper process that trains for a client: its life, its end, and what it leaves behind."""

# ruff: noqa: E501, SQL is read better on one line

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tuskml
from tuskml.commands.cli import main
from tuskml.udas.duckdb import extension_path

duckdb_cli = pytest.importorskip("duckdb_cli")
CLIENT = Path(duckdb_cli.__file__).parent / "duckdb"
TRAIN = "SELECT (train_model('linear', 2 * x, [x])).status FROM range(9) t(x)"
LONG = 'SELECT (train_model(\'logistic\', x > 4, [x], \'{"algorithm": "bgd", "epsilon": 0, "max_iter": 100000000}\')).status FROM range(9) t(x)'
HOST = """
import duckdb, json, os, signal, sys, threading, time
from pathlib import Path
TRAIN, LONG = sys.argv[2:4]
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute("SET enable_progress_bar = false")
con.execute(f"LOAD '{sys.argv[1]}'")

def asked(statement, at=con):
    try:
        return at.execute(statement).fetchall()[0][0]
    except duckdb.Error as error:
        return str(error)

def helpers():
    "Children of this process, those that nobody waited for among them."
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")")[-1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == os.getpid():
            found.append(int(stat.parent.name))
    return found

def descriptors(pid="self"):
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}").split(":")[0])
        except FileNotFoundError:  # closed meanwhile, as that of the listing itself
            pass
    return sorted(names)

def wait_for(said, seconds=120):
    end = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < end
        time.sleep(0.01)

def busy(pid):
    "Whether the helper has used a tenth of a second more than now, as it does when it trains."
    used = lambda: sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[11:13]))
    before = used()
    return lambda: used() > before + os.sysconf("SC_CLK_TCK") / 10

def in_thread(statement):
    "Starts a statement in a connection of its own; returns the thread and the list it answers to."
    said, other = [], con.cursor()
    thread = threading.Thread(target=lambda: said.append(asked(statement, other)))
    thread.start()
    return thread, said
"""


def host(program: str, *arguments: str, **environment: str) -> list:
    """What a process without tuskml's package prints, a JSON value a line."""
    command = [sys.executable, "-c", HOST + program, str(extension_path()), TRAIN, LONG]
    given = {"TUSKML_HELPER": "on", "TUSKML_PYTHON": sys.executable, **environment}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, env=os.environ | given, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


TOGETHER = {
    "many": """
before, there = descriptors(), descriptors(pid)
for _ in range(30):
    assert asked(TRAIN) == "ok"
assert helpers() == [pid]
wait_for(lambda: len(descriptors(pid)) <= len(there))  # it closes a batch's once it has answered
print(json.dumps(before == descriptors()))
""",
    "cancelled": """
for n in (1, 2):
    begun = [in_thread(LONG) for _ in range(n)]
    wait_for(busy(pid))
    time.sleep(0.2)
    asked("SELECT tuskml_cancel()")
    for thread, said in begun:
        thread.join()
        assert "the training was interrupted" in said[0], said
    assert asked(TRAIN) == "ok"
print(json.dumps(helpers() == [pid]))
""",
    "at once": """
train = '''SELECT (train_model('logistic', x % 3 = {}, [x, x * x % 7], '{{"deterministic": true}}')).coef::TEXT FROM range(999) t(x)'''
alone = [asked(train.format(i % 3)) for i in range(12)]
begun = [in_thread(train.format(i % 3)) for i in range(12)]
for thread, _ in begun:
    thread.join()
print(json.dumps([[said[0] for _, said in begun] == alone, len(set(alone))]))
""",
}
"""What one process does with one helper, `pid`, one after the other: to start both takes a second."""


@pytest.fixture(scope="module")
def answers() -> dict[str, object]:
    """What each of them prints."""
    begin = "asked(TRAIN)\n(pid,) = helpers()\n"
    return dict(zip(TOGETHER, host(begin + "".join(TOGETHER.values())), strict=True))


def test_one_process_trains_for_all_statements_and_leaves_nothing_open(
    answers: dict[str, object],
) -> None:
    assert answers["many"] is True


@pytest.mark.nightly
def test_nothing_of_the_client_is_open_in_the_helper(tmp_path: Path) -> None:
    file = tmp_path / "of_the_client"
    file.write_text("")
    program = f"""
for _ in range(3):
    os.set_inheritable(os.open({str(file)!r}, os.O_RDONLY), True)
asked(TRAIN)
print(json.dumps([{str(file)!r} in descriptors(), {str(file)!r} in descriptors(helpers()[0])]))
"""
    assert host(program) == [[True, False]]


def test_a_helper_that_is_killed_ends_one_statement() -> None:
    program = """
asked(TRAIN)
(first,) = helpers()
thread, said = in_thread(LONG)
wait_for(busy(first))
os.kill(first, signal.SIGKILL)
thread.join()
print(json.dumps(said[0]))
print(json.dumps([asked(TRAIN), len(helpers()), helpers() != [first]]))
second = helpers()[0]
os.kill(second, signal.SIGKILL)
wait_for(lambda: not helpers())
print(json.dumps([asked(TRAIN), len(helpers()), helpers() != [second]]))
"""
    said, then, between = host(program)
    assert "the helper process that trained was ended by signal 9, Killed: run the" in said
    assert then == between == ["ok", 1, True]


def test_cancel_ends_the_trainings_and_not_those_after_it(answers: dict[str, object]) -> None:
    assert answers["cancelled"] is True


@pytest.mark.nightly
def test_a_helper_that_does_not_hear_a_cancel_is_ended() -> None:
    program = """
asked(TRAIN)
(pid,) = helpers()
thread, said = in_thread(LONG)
wait_for(busy(pid))
os.kill(pid, signal.SIGSTOP)
asked("SELECT tuskml_cancel()")
thread.join()
print(json.dumps([said[0], asked(TRAIN), len(helpers()), helpers() != [pid]]))
"""
    ((said, *then),) = host(program)
    assert "the training was interrupted" in said
    assert then == ["ok", 1, True]


def test_it_ends_with_its_client() -> None:
    """However that ends, even while it trains."""
    program = """
asked(TRAIN)
(pid,) = helpers()
print(json.dumps(pid), flush=True)
thread, said = in_thread(LONG)
wait_for(busy(pid))
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", HOST + program, str(extension_path()), TRAIN, LONG]
    given = os.environ | {"TUSKML_HELPER": "on", "TUSKML_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, env=given, check=False)
    assert done.returncode == -9, done.stderr
    end = time.monotonic() + 60
    while is_alive(int(done.stdout)):
        assert time.monotonic() < end, "the helper lives on"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is not just waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_connections_train_at_once(answers: dict[str, object]) -> None:
    """With the bits of one after the other."""
    assert answers["at once"] == [True, 3]


@pytest.mark.nightly
def test_rows_beyond_the_limit(tmp_path: Path) -> None:
    """They are handed over by temp_directory, and nothing stays there."""
    train = "SELECT (train_model('linear', sin(i), [cos(i * (k + 1)) FOR k IN range(16)], '{\"deterministic\": true}')).coef::TEXT FROM range(200000) t(i)"
    settings = f"SET memory_limit = '24MiB'; SET temp_directory = '{tmp_path}'; SET threads = 1;"
    program = f"""
other = duckdb.connect(config={{"allow_unsigned_extensions": "true"}})
other.execute("{settings}").execute("SET enable_progress_bar = false")
other.execute(f"LOAD '{{sys.argv[1]}}'")
print(json.dumps([asked(sys.argv[4], other), other.execute("SELECT tuskml_memory().resident").fetchall()[0][0]]))
"""
    with tuskml.connect(threads=1) as con:
        (wanted,) = con.execute(train).fetchone()
    ((found, left),) = host(program, train)
    assert found == wanted
    assert left <= 64 << 20
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_models_beyond_the_limit_are_refused_as_in_python() -> None:
    train = "SELECT train_model('linear', 1 + x, sparse([10000000::INT, 3], [x, 1.0])) FROM range(9) t(x)"
    program = """
other = duckdb.connect(config={"allow_unsigned_extensions": "true"})
other.execute("SET memory_limit = '64MiB'").execute("SET enable_progress_bar = false")
other.execute(f"LOAD '{sys.argv[1]}'")
print(json.dumps(asked(sys.argv[4], other)))
"""
    said = {mode: host(program, train, TUSKML_HELPER=mode) for mode in ("on", "off")}
    assert "memory_limit is 67 MB" in said["on"][0]
    assert said["on"] == said["off"]


@pytest.mark.nightly
def test_a_note_without_libpython_starts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a note is what `tuskml install` writes where the Python has no shared library."""
    copy = copied(tmp_path, "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("tuskml.commands.host.install.extension_path", lambda: copy)
    monkeypatch.setattr("tuskml.commands.host.install.libpython", lambda: "")
    assert main(["install", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["libpython"] == ""
    assert (tmp_path / "tuskml.python").read_text() == f"{sys.executable}\n\n"
    assert '"ok"' in client(copy, TRAIN)
    assert "has no shared libpython, which training in this process needs" in client(
        copy, TRAIN, TUSKML_HELPER="off"
    )


@pytest.mark.nightly
def test_a_library_that_cannot_be_loaded_starts_it(tmp_path: Path) -> None:
    copy = copied(tmp_path, f"{sys.executable}\n{tmp_path}/libpython.so\n")
    assert '"ok"' in client(copy, TRAIN)
    assert "is no libpython of a version that tuskml supports" in client(
        copy, TRAIN, TUSKML_HELPER="off"
    )


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        ("/nowhere/python", "/nowhere/python does not start as the helper process that trains (No such file or directory): run `tuskml install`"),
        ("/bin/true", "/bin/true does not start as the helper process that trains (it ended at once): run `tuskml install`"),
        (os.path.realpath(sys.executable), "No module named 'tuskml'"),
    ],
)  # fmt: skip
def test_pythons_that_do_not_start(python: str, sentence: str, tmp_path: Path) -> None:
    said = client(copied(tmp_path, f"{python}\n\n"), TRAIN, "SELECT 7 AS after")
    assert sentence in said
    assert '{"after":7}' in said


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    copy = copied(tmp_path, f"{sys.executable}\n\n")
    said = client(copy, TRAIN, TUSKML_HELPER="yes")
    assert "TUSKML_HELPER is yes, expected on, off or auto" in said


def copied(folder: Path, note: str) -> Path:
    """The extension with a note beside it."""
    copy = folder / "tuskml.duckdb_extension"
    copy.write_bytes(extension_path().read_bytes())
    (folder / "tuskml.python").write_text(note)
    return copy


def client(extension: Path, *statements: str, **environment: str) -> str:
    """What DuckDB's command line answers, as JSON lines, with its errors."""
    command = [str(CLIENT), "-unsigned", "-jsonlines"]
    text = ";\n".join([f"LOAD '{extension}'", *statements]) + ";\n"
    given = os.environ | {"TUSKML_PYTHON": "", "TUSKML_HELPER": ""} | environment
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=given, check=False
    )
    return done.stdout + done.stderr
