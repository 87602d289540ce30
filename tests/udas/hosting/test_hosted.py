"""Training in clients that are not Python: DuckDB's own command line, and a Python without tuskml.

The package's Python runs in the client's process or in a helper process.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import os
import pty
import re
import select
import shutil
import signal
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
OF_LIGHTGBM = Path(__file__).parents[2] / "front" / "model" / "lightgbm_recorded.txt"
ROWS = "CREATE TABLE r AS SELECT i % 3 AS g, sin(i) AS x, cos(7 * i) AS z, sin(i) + cos(3 * i) AS y, i % 5 < 2 AS b, ['red', 'blue', 'green'][1 + i % 3] AS colour, i FROM range(600) t(i)"
QUERIES = (
    "SELECT g, m.coef AS coef, m.intercept AS c, m.status AS s FROM (SELECT g, train_model('linear', y, [x, z]) AS m FROM r GROUP BY g) ORDER BY g",
    "SELECT m.coef AS coef, m.features AS f FROM (SELECT train_model('logistic', b, {'x': x, 'colour': colour}) AS m FROM r)",
    "SELECT sum(predict(m, [x, z])) AS p FROM r, (SELECT train_model('gbdt', y, [x, z], '{\"trees\": 5}') AS m FROM r)",
    "SELECT count(*) AS n FROM model_summary((SELECT train_model('linear', y, [x, z]) FROM r)) WHERE p_value < 0.5",
    "SELECT m.coef AS c, m.n_skipped AS n FROM (SELECT train_model('linear', y, sparse([g, 7 + g], [x::FLOAT, CASE WHEN z < 0.9 THEN z END::FLOAT])) AS m FROM r)",
    "SELECT m.coef AS c FROM (SELECT train_model('poisson', abs(round(3 * y)), [x::FLOAT, z::FLOAT], '{}', 1 + g, x) AS m FROM r)",
    "SELECT m.coef AS c, m.features AS f, m.class_names AS n FROM (SELECT train_model('logistic', CASE WHEN y > 0.5 THEN 'above' ELSE 'below' END, {'x': x, 'day': DATE '2026-01-01' + g::INT, 'who': chr((65 + i % 50)::INT) || 'name longer than eight'}) AS m FROM r)",
    "SELECT count(*) AS n, md5(string_agg(m.coef[1]::TEXT, ' ' ORDER BY h)) AS c, min(m.status) AS s FROM (SELECT h, train_model('linear', y, [x], '{\"deterministic\": true}') AS m FROM r, range(3000) k(h) WHERE i % 30 = h % 30 GROUP BY h)",
    "SELECT md5(m.payload) AS p, m.n_rows AS n FROM (SELECT train_model('lda', NULL, ['red', colour, 'x' || g], '{\"topics\": 2, \"max_iter\": 5}') AS m FROM r)",
    "SELECT explain_training('svm', b, [x, z]) LIKE '%dcd%' AS e, feature_frequencies([g, g + 1]) AS f, partition_model([g, 5000000000 + i]) AS p FROM r",
    f"SELECT predict_class(model_from(content), [1, 2, 3]) AS c, md5(model_from(content).payload) AS p FROM read_text('{OF_LIGHTGBM}')",
)  # fmt: skip
LONG = 'SELECT (train_model(\'logistic\', b, [x, z], \'{"algorithm": "bgd", "epsilon": 0, "max_iter": 100000000}\')).status AS s FROM r'


@pytest.fixture(params=["off", "on"], ids=["inside", "helper"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the package's Python runs."""
    monkeypatch.setenv("TUSKML_HELPER", request.param)
    monkeypatch.setenv("TUSKML_PYTHON", sys.executable)
    return str(request.param)


INSIDE = [
    pytest.param("off", id="inside"),
    pytest.param("on", id="helper", marks=pytest.mark.nightly),
]
"""Places, of which test_helper.py has quick tests of the second."""


def client(*statements: str, extension: Path | None = None, **environment: str) -> str:
    """What DuckDB's command line answers, as JSON lines, with its errors."""
    command = [str(CLIENT), "-unsigned", "-jsonlines"]
    load = f"LOAD '{extension or extension_path()}'"
    # Bits depend on how many threads there are, and those of the command line are the host's.
    text = ";\n".join(["SET threads = 2", load, *statements]) + ";\n"
    given = os.environ | {"TUSKML_PYTHON": sys.executable} | environment
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=given, check=False
    )
    return done.stdout + done.stderr


def answers(text: str) -> list:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.nightly
@pytest.mark.parametrize("where", INSIDE, indirect=True)
@pytest.mark.usefixtures("where")
def test_numbers_are_those_of_python() -> None:
    """All bits: for the client the package's trainer runs, as it does in Python."""
    found = answers(client(ROWS, *QUERIES))
    with tuskml.connect(threads=2) as con:
        con.execute(ROWS)
        for query in QUERIES:
            rows = con.execute(query)
            names = [column[0] for column in rows.description]
            for row in rows.fetchall():
                assert found.pop(0) == dict(zip(names, row, strict=True)), query
    assert not found


@pytest.mark.parametrize("where", INSIDE, indirect=True)
@pytest.mark.usefixtures("where")
def test_errors_are_sentences_and_the_session_goes_on() -> None:
    said = client(
        ROWS,
        "SELECT train_model('linear', y, [x], '{\"algorithm\": \"nexton\"}') FROM r",
        "SELECT explain_training('linear', y, [x]) LIKE '%newton%' AS planned FROM r",
        "SELECT (train_model('linear', y, [x])).status AS s FROM r",
    )
    assert "train_model: option 'algorithm' is \"nexton\", expected" in said
    assert "did you mean 'newton'?" in said
    assert '{"planned":true}' in said
    assert '{"s":"ok"}' in said


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.usefixtures("where")
def test_a_model_in_a_store(tmp_path: Path) -> None:
    said = client(
        ROWS,
        "SELECT round(predict(m, sparse([1], [1.0])), 6) AS p FROM (SELECT train_model('linear', 2.0, sparse([1], [1.0]), '{\"store\": \"kept\"}') AS m FROM r)",
        TUSKML_STORE_ROOT=str(tmp_path),
    )
    assert answers(said) == [{"p": 2.0}]
    assert (tmp_path / "kept").is_dir()


def test_settings_are_those_at_load() -> None:
    """DuckDB's C interface shows no settings later."""
    read = "SELECT tuskml_memory().budget AS budget"
    text = f"SET memory_limit = '300MiB'; LOAD '{extension_path()}'; {read};"
    command = [str(CLIENT), "-unsigned", "-jsonlines"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    (found,) = answers(done.stdout)
    assert found == {"budget": 300 << 20}


@pytest.mark.sample(1)
@pytest.mark.usefixtures("where")
def test_ctrl_c_ends_the_training() -> None:
    """In a terminal, where the client's own handler of the signal goes on with the next statement."""
    ours, theirs = pty.openpty()
    command = [str(CLIENT), "-unsigned", "-jsonlines", "-dark-mode"]
    given = os.environ | {"TUSKML_PYTHON": sys.executable, "TERM": "dumb"}
    ends = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    with subprocess.Popen(command, env=given, start_new_session=True, **ends) as process:
        try:
            assert seen(ours, b"D $")
            short = LONG.replace("100000000", "1").replace("AS s", "AS short")
            os.write(ours, f"LOAD '{extension_path()}'; {ROWS}; {short};\n".encode())
            assert seen(ours, b'"short":.*D $'), "the prompt is there again"
            os.write(ours, f"{LONG};\n".encode())
            assert seen(ours, b"FROM r;\r\n")
            end = time.monotonic() + 120
            while not seen(ours, b"D $", 1):
                assert time.monotonic() < end, "the training goes on"
                process.send_signal(signal.SIGINT)
            os.write(ours, b"SELECT 7 AS after;\n")
            assert seen(ours, b'"after":7')
        finally:
            process.kill()
            os.close(ours)
            os.close(theirs)


def seen(terminal: int, pattern: bytes, seconds: float = 120) -> bool:
    """Waits until the terminal shows a text; False where it does not within so many seconds."""
    shown = b""
    while not re.search(pattern, shown, re.DOTALL):
        if not select.select([terminal], [], [], seconds)[0]:
            return False
        shown += os.read(terminal, 1 << 16)
    return True


PLAIN = """
import duckdb, sys, threading
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute("SET enable_progress_bar = false")
con.execute(f"LOAD '{sys.argv[1]}'")
for statement in sys.argv[2:]:
    try:
        print(con.execute(statement).fetchall())
    except duckdb.Error as error:
        print(error)
"""


def plain(*statements: str, extension: Path, **environment: str) -> list[str]:
    """Answers in a Python that only loads the file."""
    command = [sys.executable, "-c", PLAIN, str(extension), *statements]
    given = os.environ | environment
    done = subprocess.run(command, capture_output=True, text=True, env=given, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("where", INSIDE, indirect=True)
@pytest.mark.usefixtures("where")
def test_a_python_that_only_loads_the_file_trains() -> None:
    train = "SELECT (train_model('linear', 2 * x, [x])).coef FROM range(9) t(x)"
    with tuskml.connect() as con:
        wanted = str(con.execute(train).fetchall())
    assert plain(train, train, extension=extension_path()) == [wanted] * 2


@pytest.mark.nightly
@pytest.mark.parametrize("where", INSIDE, indirect=True)
@pytest.mark.usefixtures("where")
def test_cancel_from_another_connection() -> None:
    script = """
import duckdb, sys, threading
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute("SET enable_progress_bar = false")
con.execute(f"LOAD '{sys.argv[1]}'")
con.execute(sys.argv[2])
con.execute("SELECT train_model('linear', y, [x]) FROM r").fetchall()
def train():
    try:
        print(con.execute(sys.argv[3]).fetchall())
    except duckdb.Error as error:
        print(error)
thread = threading.Thread(target=train)
thread.start()
other = con.cursor()
while thread.is_alive():
    assert other.execute("SELECT tuskml_cancel()").fetchall() == [(True,)]
    thread.join(0.05)
"""
    command = [sys.executable, "-c", script, str(extension_path()), ROWS, LONG]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "the training was interrupted" in done.stdout


@pytest.mark.nightly
def test_a_copy_finds_the_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """`tuskml install` writes the note and prints the statement; without one the client says how."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    copy = tmp_path / "tuskml.duckdb_extension"
    shutil.copy(extension_path(), copy)
    train = "SELECT (train_model('linear', 2 * x, [x])).status AS s FROM range(9) t(x)"
    before = client(train, extension=copy, TUSKML_PYTHON="")
    assert "run `pip install tuskml` and once `tuskml install`" in before
    monkeypatch.setattr("tuskml.commands.host.install.extension_path", lambda: copy)
    assert main(["install", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["load_unsigned"] == f"LOAD '{copy}';"
    for note in (copy.with_name("tuskml.python"), tmp_path / ".local/share/tuskml/tuskml.python"):
        assert answers(client(train, extension=copy, TUSKML_PYTHON="")) == [{"s": "ok"}]
        note.unlink()
    assert "run `pip install tuskml`" in client(train, extension=copy, TUSKML_PYTHON="")


@pytest.mark.nightly
def test_a_note_that_others_could_have_written_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its Python would run as this account; `tuskml install` makes a new note."""
    monkeypatch.setenv("HOME", str(tmp_path))
    copy = tmp_path / "tuskml.duckdb_extension"
    shutil.copy(extension_path(), copy)
    note = tmp_path / "tuskml.python"
    note.write_text(f"{sys.executable}\n{tmp_path}/libpython.so\n")
    train = "SELECT (train_model('linear', 2 * x, [x])).status AS s FROM range(9) t(x)"
    refused = f"{note} is not started from, since others than the owner of the extension may"
    note.chmod(0o666)
    assert refused in client(train, extension=copy, TUSKML_PYTHON="")
    if os.geteuid() == 0:
        note.chmod(0o644)
        os.chown(note, 65534, 65534)
        assert refused in client(train, extension=copy, TUSKML_PYTHON="")
    monkeypatch.setattr("tuskml.commands.host.install.extension_path", lambda: copy)
    assert main(["install"]) == 0
    capsys.readouterr()
    assert answers(client(train, extension=copy, TUSKML_PYTHON="")) == [{"s": "ok"}]


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        ("off", "run `pip install tuskml` and once `tuskml install`"),
        ("/nowhere/python", "the environment variable TUSKML_PYTHON is /nowhere/python, expected the Python executable"),
        (shutil.which("false") or "/bin/false", "expected the Python executable"),
    ],
)  # fmt: skip
def test_pythons_that_do_not_train(python: str, sentence: str) -> None:
    said = client(
        "SELECT train_model('linear', 1, [1.0])", "SELECT 7 AS after", TUSKML_PYTHON=python
    )
    assert sentence in said
    assert '{"after":7}' in said
