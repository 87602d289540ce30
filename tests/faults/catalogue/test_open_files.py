"""No file can be opened any more: one sentence, and afterwards all works, in both databases."""

# ruff: noqa: E501, SQL is read better on one line

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tried import Tally, some

pytestmark = pytest.mark.fault(family="open files")

WORK = {
    "rows that spill": "SELECT train_model('linear', i, [i % 7]).n_rows FROM range(30000) t(i)",
    "many groups": "SELECT count(m) FROM (SELECT train_model('linear', i, [i % 7]) AS m FROM range(3000) t(i) GROUP BY i % 50)",
    "a store": """SELECT train_model('logistic', i % 3 = 0, sparse([i % 50, 60], [1, 1]), '{"store": "ads", "max_iter": 2}').n_rows FROM range(3000) t(i)""",
    "a net": """SELECT train_model('mlp', i % 3, [i % 7], '{"max_iter": 2, "layers": [3]}').n_rows FROM range(300) t(i)""",
}
CHILD = """
import json, os, resource, sys
import duckdb, tuskml
folder, work, spare = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
con = tuskml.connect(threads=2)
con.execute("SET enable_progress_bar = false")
con.execute("SELECT tuskml_set_memory(0, ?)", [folder]).fetchall()
con.execute("SELECT tuskml_set_store_root(?)", [folder + "/stores"]).fetchall()
most = resource.getrlimit(resource.RLIMIT_NOFILE)
tell = []
for name, sql in work.items():
    for more in spare:
        # The next file gets the lowest number that is free.
        used = max(map(int, os.listdir("/proc/self/fd"))) + 1
        fill = [os.open("/dev/null", os.O_RDONLY) for _ in range(used - len(os.listdir("/proc/self/fd")))]
        used = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, most[1]))
        try:
            con.execute(sql).fetchall()
            found = ""
        except duckdb.Error as error:
            found = str(error)
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
        for each in fill:
            os.close(each)
        tell.append([name, more, found])
    tell.append([name, None, con.execute(sql).fetchall()[0][0]])
print(json.dumps(tell))
"""


def test_in_duckdb(tmp_path: Path, tally: Tally) -> None:
    spare = some(range(40), 1)
    command = [sys.executable, "-c", CHILD, str(tmp_path), json.dumps(WORK), json.dumps(spare)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    tally.down = int(done.returncode != 0)
    assert done.returncode == 0, done.stderr[-2000:]
    refused = 0
    for name, more, found in json.loads(done.stdout.splitlines()[-1]):
        tally.tried += 1
        if more is None:
            good = found in (30000, 50, 3000, 300)
        else:
            good = not found or is_one_sentence(found)
            refused += bool(found)
        tally.wrong += not good
        assert good, (name, more, found)
    assert refused > 0


def is_one_sentence(text: str) -> bool:
    """Of DuckDB's own there may be more in front."""
    inner = ("internal error", "Traceback", "Error: Error")
    return text.isprintable() and not any(word in text for word in inner)


QUERIES = (
    "SELECT train_model('linear', i, ARRAY[i % 7]) FROM generate_series(1, 30000) AS i",
    "SELECT i % 50, train_model('linear', i, ARRAY[i % 7]) FROM generate_series(1, 3000) AS i GROUP BY 1",
    """SELECT train_model('logistic', i % 3 = 0, sparse(ARRAY[i % 50, 60], ARRAY[1, 1]::float8[]), '{"store": "files", "max_iter": 2}') FROM generate_series(1, 3000) AS i""",
)


@pytest.fixture
def spare_files(cluster: Any) -> Callable[[psycopg.Connection, int | None], None]:
    """Limits how many files a session's process may open beyond those that it has."""
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not installed (Debian: apt install util-linux)")

    def limit(session: psycopg.Connection, more: int | None) -> None:
        backend = session.info.backend_pid
        most = max(int(name.name) for name in Path(f"/proc/{backend}/fd").iterdir())
        allowed = 1024 if more is None else most + 1 + more
        command = ["prlimit", f"--pid={backend}", f"--nofile={allowed}:"]
        subprocess.run(command, check=True, **cluster.as_user())

    return limit


def is_refused(session: psycopg.Connection, sql: str, more: int, wrong: list[tuple]) -> bool:
    """Whether a query fails; wrong: gets errors that are not of class 53 or 58."""
    try:
        session.execute(sql)
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if state[:2] not in ("53", "58"):
            wrong.append((sql, more, state, str(error)))
        return True
    return False


@pytest.mark.nightly
def test_in_postgres(
    cluster: Any, database: str, spare_files: Callable[..., None], tally: Tally
) -> None:
    """Of sessions that have trained."""
    refused, wrong = 0, list[tuple]()
    for more in some(range(20), 0):
        with cluster.connect(database) as session:
            session.execute("SET tuskml.memory_limit = '64kB'")
            for sql in QUERIES:
                session.execute(sql)
                spare_files(session, more)
                tally.tried += 1
                refused += is_refused(session, sql, more, wrong)
                spare_files(session, None)
                assert session.execute(f"SELECT count(*) FROM ({sql}) AS s").fetchone() is not None
    tally.wrong = len(wrong)
    assert wrong == []
    assert refused > 0


def test_in_postgres_before_python_starts(
    cluster: Any, database: str, spare_files: Callable[..., None], tally: Tally
) -> None:
    """Python would end the process: PL/Python's own functions lose the connection."""
    refused, wrong = 0, list[tuple]()
    for sql in QUERIES:
        for more in (0, 1, *some(range(2, 20), 0)):
            with cluster.connect(database) as session:
                spare_files(session, more)
                tally.tried += 1
                refused += is_refused(session, sql, more, wrong)
                if session.broken:
                    continue
                spare_files(session, None)
                assert session.execute(f"SELECT count(*) FROM ({sql}) AS s").fetchone() is not None
    tally.wrong = len(wrong)
    assert wrong == []
    assert refused >= 2 * len(QUERIES)
