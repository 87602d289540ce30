"""Trainings end when asked to, keep within limits, and leave nothing behind.

Bounds on time are generous, so that a loaded machine does not fail them; the promise is 200 ms.
"""

# ruff: noqa: E501, SQL is read better on one line

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

Connect = Callable[..., psycopg.Connection]

SOON = 2.0
ALGORITHMS = ("sgd", "mgd", "hogwild", "hogbatch", "svrg", "bgd", "lbfgs", "newton")
ROWS = """
CREATE TABLE t AS SELECT i % 7 AS g, (i::bigint * 7919) % 1000 < 400 AS y,
                         ARRAY[i * 31 % 97, i * 17 % 89, i % 83]::real[] AS x FROM generate_series(1, 60000) AS i
"""
GOOD = "SELECT (train_model('logistic', y, x)).n_rows FROM t"


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)
    pg.execute("ANALYZE t")


def endless(algorithm: str, task: str = "logistic", features: str = "x", **options: object) -> str:
    text = json.dumps({"algorithm": algorithm, "max_iter": 1000000000, "epsilon": 0} | options)
    return f"train_model('{task}', y, {features}, '{text}')"


STATEMENTS = {name: f"SELECT {endless(name)} FROM t" for name in ALGORITHMS} | {
    "in groups": f"SELECT g, {endless('sgd')} FROM t GROUP BY g",
    "newton in groups": f"SELECT g, {endless('newton')} FROM t GROUP BY g",
    "many groups": f"SELECT x[3], x[2], {endless('bgd')} FROM t GROUP BY x[3], x[2]",
    "alone in groups": f"SELECT g, {endless('bgd')}, count(DISTINCT y) FROM t GROUP BY g",
    "into a table": f"CREATE TABLE m AS SELECT g, {endless('sgd')} AS m FROM t GROUP BY g",
    "svm": f"SELECT {endless('mgd', 'svm')} FROM t",
    "sparse": f"SELECT {endless('sgd', features='sparse(ARRAY[0, 1, 2], x)')} FROM t",
    "deterministic": f"SELECT {endless('hogwild', deterministic=True)} FROM t",
    "while rows are packed": "SELECT train_model('linear', i, ARRAY[i, sqrt(i), sin(i), cos(i)]) FROM generate_series(1, 500000000) AS i",
}


def warm(connection: psycopg.Connection) -> psycopg.Connection:
    """After the imports of the first training."""
    assert connection.execute(GOOD).fetchall() == [(60000,)]
    return connection


def pid(connection: psycopg.Connection) -> int:
    return connection.info.backend_pid


def eventually(true: Callable[[], bool], within: float = SOON) -> bool:
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_gone(pg: psycopg.Connection, backend: int) -> bool:
    return pg.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", (backend,)
    ).fetchone() == (0,)


def temporary_files(pg: psycopg.Connection) -> list[tuple]:
    return pg.execute("SELECT name FROM pg_ls_tmpdir()").fetchall()


@contextlib.contextmanager
def later(seconds: float, action: Callable[[], Any]) -> Iterator[list[float]]:
    """Does something while the body waits for a statement; when it was done, by the clock.

    Again when that was too early or in vain, so that a statement without end has one.
    """
    done: list[float] = []
    over = threading.Event()

    def act() -> None:
        wait = seconds
        while not over.wait(wait):
            done.append(time.monotonic())
            action()
            wait = 2 * SOON

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def within(session: psycopg.Connection, milliseconds: int, sql: str) -> bool:
    """Whether the statement was done in time; the timeout is for it alone."""
    try:
        with session.transaction():
            session.execute(f"SET LOCAL statement_timeout = {milliseconds}")
            session.execute(sql)
            session.execute("SET LOCAL statement_timeout = 0")
    except psycopg.errors.QueryCanceled:
        return False
    return True


# --- asked to end ---


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement_timeout(connect: Connect, name: str) -> None:
    session = warm(connect())
    session.execute("SET statement_timeout = '300ms'")
    began = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled, match="due to statement timeout"):
        session.execute(STATEMENTS[name])
    assert time.monotonic() - began < 0.3 + SOON
    session.execute("RESET statement_timeout")
    assert temporary_files(warm(session)) == []


@pytest.mark.parametrize("name", STATEMENTS)
def test_cancel(connect: Connect, name: str) -> None:
    session = warm(connect())
    with (
        later(0.3, session.cancel_safe) as asked,
        pytest.raises(psycopg.errors.QueryCanceled, match="due to user request"),
    ):
        session.execute(STATEMENTS[name])
    assert time.monotonic() - asked[0] < SOON
    warm(session)


def test_cancel_while_packages_are_imported(connect: Connect) -> None:
    """The first training of a session; the next one imports what is missing."""
    for after in (0.0, 0.05, 0.1, 0.2):
        session = connect()
        with later(after, session.cancel_safe), pytest.raises(psycopg.errors.QueryCanceled):
            session.execute(STATEMENTS["sgd"])
        warm(session)


def test_cancel_in_a_subtransaction(connect: Connect) -> None:
    session = warm(connect())
    with session.transaction():
        session.execute("CREATE TEMP TABLE kept AS SELECT 1 AS one")
        assert not within(session, 200, STATEMENTS["in groups"])
        warm(session)
    assert session.execute("SELECT one FROM kept").fetchall() == [(1,)]


@pytest.mark.parametrize("name", [*ALGORITHMS, "while rows are packed"])
def test_terminate(pg: psycopg.Connection, connect: Connect, name: str) -> None:
    session = warm(connect())
    ask = "SELECT pg_terminate_backend(%s)"
    with (
        later(0.3, lambda: pg.execute(ask, (pid(session),))) as asked,
        pytest.raises(psycopg.errors.AdminShutdown),
    ):
        session.execute(STATEMENTS[name])
    assert time.monotonic() - asked[0] < SOON
    assert eventually(lambda: is_gone(pg, pid(session)))
    assert temporary_files(pg) == []


@pytest.mark.parametrize("name", [*ALGORITHMS, "in groups", "while rows are packed"])
def test_client_that_vanishes(pg: psycopg.Connection, connect: Connect, name: str) -> None:
    session = warm(connect())
    backend = pid(session)
    session.pgconn.send_query(STATEMENTS[name].encode())
    session.pgconn.flush()
    time.sleep(0.3)
    assert not is_gone(pg, backend)
    with socket.socket(fileno=os.dup(session.pgconn.socket)) as line:
        line.shutdown(socket.SHUT_RDWR)
    assert eventually(lambda: is_gone(pg, backend))
    session.close()


def test_time_limit(connect: Connect) -> None:
    began = time.monotonic()
    found = connect().execute(
        f"SELECT (m).status, (m).iterations > 0 FROM (SELECT {endless('sgd', time='0.3s')} AS m FROM t) AS s"
    )
    assert found.fetchall() == [("time limit", True)]
    assert time.monotonic() - began < 0.3 + SOON


def test_sessions_side_by_side(connect: Connect) -> None:
    """A cancel ends the training of its session, no other."""
    sessions = [warm(connect()) for _ in range(3)]
    ended: dict[int, str] = {}

    def train(place: int) -> None:
        try:
            sessions[place].execute(f"SELECT {endless('sgd', time='1.5s')} FROM t")
            ended[place] = "trained"
        except psycopg.errors.QueryCanceled:
            ended[place] = "cancelled"

    threads = [threading.Thread(target=train, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    sessions[1].cancel_safe()
    for thread in threads:
        thread.join(30)
    assert ended == {0: "trained", 1: "cancelled", 2: "trained"}


# --- parallel plans ---


PARALLEL = "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 2"
LARGE = """
CREATE TABLE large AS SELECT i % 2 AS g, i % 3 = 0 AS y, ARRAY[i * 31 % 97, i * 17 % 89, i % 83, i % 79]::float8[] AS x
FROM generate_series(1, 150000) AS i
"""


@pytest.fixture(scope="module")
def large(pg: psycopg.Connection) -> str:
    """A query whose workers hand over files, in all some megabytes."""
    pg.execute(LARGE)
    pg.execute("ANALYZE large")
    return f"SELECT g, {endless('newton', max_iter=3)} FROM large GROUP BY g"


def test_cancelled_parallel_queries_leave_no_files(connect: Connect, large: str) -> None:
    session = warm(connect())
    session.execute(PARALLEL)
    ended = []
    for after in range(5, 165, 8):
        ended.append(within(session, after, large))
        assert temporary_files(session) == [], f"after {after} ms"
    assert False in ended
    warm(session)


def test_terminated_workers_leave_no_files(
    pg: psycopg.Connection, connect: Connect, large: str
) -> None:
    session = warm(connect())
    session.execute(PARALLEL)
    session.execute("SET parallel_leader_participation = off")
    workers = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE leader_pid = %s"
    stopped = 0

    def stop_workers() -> None:
        nonlocal stopped
        stopped = (pg.execute(workers, (pid(session),)).fetchone() or (0,))[0]

    for after in (0.0, 0.01, 0.02, 0.04):
        with later(after, stop_workers), contextlib.suppress(psycopg.Error):
            session.execute(large)
        assert not session.closed
        assert temporary_files(session) == []
    warm(session)


@pytest.mark.parametrize("after", [0.01, 0.03, 0.06])
def test_terminated_leader_leaves_no_files(
    pg: psycopg.Connection, connect: Connect, large: str, after: float
) -> None:
    session = warm(connect())
    session.execute(PARALLEL)
    ask = "SELECT pg_terminate_backend(%s)"
    with (
        later(after, lambda: pg.execute(ask, (pid(session),))),
        contextlib.suppress(psycopg.Error),
    ):
        session.execute(large)
        session.execute("SELECT pg_sleep(0.2)")
    assert eventually(lambda: is_gone(pg, pid(session)))
    assert temporary_files(pg) == []


# --- nothing is left ---


def status(backend: int, field: str) -> int:
    """A number of /proc/PID/status, such as VmRSS in kB."""
    found = re.search(rf"^{field}:\s*(\d+)", Path(f"/proc/{backend}/status").read_text(), re.M)
    assert found is not None
    return int(found[1])


def held(backend: int) -> tuple[int, int]:
    """Open files and threads."""
    return len(os.listdir(f"/proc/{backend}/fd")), status(backend, "Threads")


def test_nothing_leaks_over_cancelled_trainings(pg: psycopg.Connection, connect: Connect) -> None:
    session = connect()
    pg.execute("CREATE TABLE few AS SELECT * FROM t LIMIT 3000")
    statements = [
        re.sub(r"\bt\b(?= GROUP|$)", "few", STATEMENTS[name])
        for name in STATEMENTS
        if name
        not in ("into a table", "many groups")  # of so few rows each, it would end by itself
    ]

    def cancel(times: int) -> int:
        done = 0
        for number in range(times):
            session.execute(f"SET tuskml.memory_limit = {64 if number % 3 == 0 else -1}")
            done += within(session, 8 + number % 13, statements[number % len(statements)])
        return times - done

    warm(session)
    cancel(60)
    before, files = status(pid(session), "VmRSS"), held(pid(session))
    assert cancel(300) > 290
    grown = status(pid(session), "VmRSS") - before
    print(f"{grown} kB more")
    assert grown < 6000
    assert held(pid(session)) == files
    assert temporary_files(session) == []
    warm(session)


def test_nothing_leaks_over_trainings_and_errors(connect: Connect) -> None:
    session = connect()
    statements = [
        "SELECT train_model('linear', i, ARRAY[i, 1]) FROM generate_series(1, 100) AS i",
        "SELECT i % 50, train_model('linear', i, ARRAY[i, i % 7]) FROM generate_series(1, 1000) AS i GROUP BY i % 50",
        "SELECT train_model('logistic', i, ARRAY[i]) FROM generate_series(1, 100) AS i",
        "SELECT train_model('linear', i, ARRAY[i], '{\"l3\": 1}') FROM generate_series(1, 100) AS i",
        "SELECT train_model('linear', i, ARRAY[1 / (50 - i)]) FROM generate_series(1, 100) AS i",
        "SELECT explain_training('svm', i > 50, ARRAY[i]) FROM generate_series(1, 100) AS i",
        "SELECT train_model('linear', i, sparse(ARRAY[i], ARRAY[1.0])) FROM generate_series(1, 100) AS i",
    ]

    def go(times: int) -> None:
        for number in range(times):
            with contextlib.suppress(psycopg.DataError):
                session.execute(statements[number % len(statements)])

    go(300)
    before, files = status(pid(session), "VmRSS"), held(pid(session))
    go(1400)
    grown = status(pid(session), "VmRSS") - before
    print(f"{grown} kB more")
    assert grown < 6000
    assert held(pid(session)) == files


def test_threads_leave_signals_to_the_server(connect: Connect) -> None:
    session = connect()
    session.execute("SET tuskml.threads = 4")
    wanted = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1,
              signal.SIGUSR2, signal.SIGCHLD, signal.SIGURG, signal.SIGPIPE}  # fmt: skip
    seen = set()
    loud = []

    def look() -> None:
        for _ in range(20):
            for task in Path(f"/proc/{pid(session)}/task").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    blocked = int(
                        re.search(r"SigBlk:\s*(\w+)", (task / "status").read_text())[1], 16
                    )  # type: ignore[index]
                    if task.name != str(pid(session)):
                        seen.add(task.name)
                        loud.extend(s for s in wanted if not blocked >> (s - 1) & 1)
            time.sleep(0.02)

    for algorithm in ("hogwild", "bgd"):
        with later(0.1, look):
            session.execute(f"SELECT {endless(algorithm, time='0.7s')} FROM t")
    assert len(seen) >= 3
    assert loud == []


# --- progress ---


def watched(
    pg: psycopg.Connection, session: psycopg.Connection, sql: str
) -> tuple[list[str], set[str]]:
    """Notices, and application names seen meanwhile."""
    notices: list[str] = []
    session.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
    names: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            found = pg.execute(
                "SELECT application_name FROM pg_stat_activity WHERE pid = %s", (pid(session),)
            ).fetchone()
            names.update(found or ())
            time.sleep(0.05)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            session.execute(sql)
    finally:
        over.set()
        thread.join()
    return notices, names


NAME = "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"


@pytest.mark.parametrize("end", ["finished", "cancelled"])
def test_progress(pg: psycopg.Connection, connect: Connect, end: str) -> None:
    session = warm(connect(application_name="my report"))
    if end == "cancelled":
        session.execute("SET statement_timeout = '2500ms'")
    notices, names = watched(pg, session, f"SELECT {endless('sgd', time='2.5s')} FROM t")
    assert 1 <= len(notices) <= 3
    for notice in notices:
        assert re.fullmatch(r"train_model: iteration \d+, objective \d\.\d+", notice)
    assert {notice.removeprefix("train_model: ") for notice in notices} >= names - {"my report"}
    assert len(names) >= 2
    assert session.execute(NAME).fetchall() == [("my report",)]
    assert session.execute("SHOW application_name").fetchall() == [("my report",)]


def test_progress_of_groups(pg: psycopg.Connection, connect: Connect) -> None:
    session = warm(connect(application_name="my report"))
    sql = f"SELECT g, {endless('sgd', time='1.5s')} FROM t GROUP BY g"
    notices, _ = watched(pg, session, sql)
    assert 1 <= len(notices) <= 3
    assert session.execute(NAME).fetchall() == [("my report",)]


def test_no_progress_when_it_is_off(pg: psycopg.Connection, connect: Connect) -> None:
    session = warm(connect(application_name="my report"))
    session.execute("SET tuskml.progress = off")
    notices, names = watched(pg, session, f"SELECT {endless('sgd', time='1.5s')} FROM t")
    assert notices == []
    assert names == {"my report"}


@pytest.mark.parametrize("milliseconds", [987, 990, 993, 999])
def test_cancel_as_the_first_notice_is_sent(connect: Connect, milliseconds: int) -> None:
    """A NOTICE looks for interrupts itself: its error must not jump over Python's frames."""
    session = warm(connect())
    session.execute("CREATE TEMP TABLE few AS SELECT * FROM t LIMIT 3000")
    sql = f"SELECT g, {endless('newton')} FROM few GROUP BY g"
    assert not within(session, milliseconds, sql)
    warm(session)


def test_no_notice_of_short_trainings(pg: psycopg.Connection, connect: Connect) -> None:
    assert watched(pg, connect(), GOOD)[0] == []


# --- limits ---


EXACT = "train_model('logistic', y, x, '{\"deterministic\": true}')"
WIDE = "(SELECT i % 3 = 0 AS y, array_fill((i % 89)::float8, ARRAY[20]) AS x FROM generate_series(1, 200000) AS i) AS wide"


def fitted(session: psycopg.Connection, key: str = "g") -> list[tuple]:
    sql = f"SELECT key, (m).coef, (m).intercept, (m).n_rows, (m).plan FROM (SELECT {key} AS key, {EXACT} AS m FROM t GROUP BY {key}) AS s ORDER BY key"
    return session.execute(sql).fetchall()


def spilled(backend: int) -> bool:
    """Whether rows lie in a file without a name in PostgreSQL's temporary folder."""
    maps = Path(f"/proc/{backend}/maps").read_text()
    return any("pgsql_tmp" in line and "(deleted)" in line for line in maps.splitlines())


def test_rows_beyond_the_limit_spill(connect: Connect) -> None:
    session = connect()
    for key in ("g", "g < 0", "x[1]"):
        session.execute("SET tuskml.memory_limit = '1GB'")
        usual = fitted(session, key)
        session.execute("SET tuskml.memory_limit = 0")
        seen = []
        with later(0.0, lambda: seen.append(eventually(lambda: spilled(pid(session)), 1.0))):  # noqa: B023
            assert fitted(session, key) == usual
        assert temporary_files(session) == []


def test_memory_of_the_rows_is_bounded(connect: Connect) -> None:
    """200,000 rows of 20 double are 32 MB; what is spilled is the kernel's to keep or to drop."""
    session = warm(connect())
    session.execute("SET tuskml.memory_limit = '4MB'")
    before = status(pid(session), "RssAnon")
    most = [0]

    def look() -> None:
        while most[-1] >= 0:
            most.append(status(pid(session), "RssAnon"))
            time.sleep(0.005)

    with later(0.0, look):
        found = session.execute(
            f"SELECT (train_model('logistic', y, x)).n_rows FROM {WIDE}"
        ).fetchall()
        most.append(-1)
    assert found == [(200000,)]
    assert max(most) - before < 24000


def test_temp_file_limit(connect: Connect) -> None:
    session = warm(connect())
    session.execute("SET tuskml.memory_limit = '1MB'; SET temp_file_limit = '4MB'")
    with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="temp_file_limit"):
        session.execute(f"SELECT train_model('logistic', y, x) FROM {WIDE}")
    assert temporary_files(session) == []
    warm(session)


def test_temp_file_limit_of_parallel_workers(connect: Connect, large: str) -> None:
    session = warm(connect())
    session.execute(PARALLEL)
    session.execute("SET temp_file_limit = '1MB'")
    with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match="temp_file_limit"):
        session.execute(large)
    assert temporary_files(session) == []
    session.execute("RESET temp_file_limit")
    assert len(session.execute(large).fetchall()) == 2


Spare = Callable[[psycopg.Connection, int | None], None]


@pytest.fixture
def spare_memory(cluster: Any) -> Spare:
    """Limits what a session's process may take beyond what it has, in MB, or no more.

    RLIMIT_AS has malloc and mmap fail, as on a machine that has no memory left. Only who the
    process belongs to may set it.
    """
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not installed (Debian: apt install util-linux)")

    def limit(session: psycopg.Connection, megabytes: int | None) -> None:
        backend = pid(session)
        allowed = (
            "unlimited"
            if megabytes is None
            else status(backend, "VmSize") * 1024 + (megabytes << 20)
        )
        command = ["prlimit", f"--pid={backend}", f"--as={allowed}:"]
        subprocess.run(command, check=True, **cluster.as_user())

    return limit


MANY_WIDE = "SELECT train_model('linear', i % 7, array_fill((i % 11)::float8, ARRAY[4000])) FROM generate_series(1, 1000) AS i"


@pytest.mark.parametrize("sql", [f"SELECT train_model('logistic', y, x) FROM {WIDE}", MANY_WIDE])
def test_no_more_memory(connect: Connect, spare_memory: Spare, sql: str) -> None:
    session = warm(connect())
    session.execute("SET tuskml.memory_limit = '1GB'")
    for spare in (0, 1, 2, 4):
        spare_memory(session, spare)
        with pytest.raises(psycopg.Error) as caught:
            session.execute(sql)
        assert (caught.value.sqlstate or "")[:2] == "53"  # insufficient resources
        assert session.execute("SELECT 1").fetchall() == [(1,)]
    spare_memory(session, None)
    warm(session)
    assert temporary_files(session) == []


@pytest.mark.parametrize("algorithm", ["newton", "hogwild", "sgd"])
def test_no_memory_for_the_kernels(connect: Connect, spare_memory: Spare, algorithm: str) -> None:
    """Of the copy of the rows, of the threads, of what the kernels need."""
    session = warm(connect())
    session.execute("SET tuskml.threads = 4; SET tuskml.memory_limit = '1GB'")
    for spare in (*range(24), *range(24, 120, 8)):
        spare_memory(session, spare)
        try:
            session.execute(f"SELECT {endless(algorithm, max_iter=2, deterministic=True)} FROM t")
        except psycopg.errors.OutOfMemory:
            continue
        finally:
            assert session.execute("SELECT 1").fetchall() == [(1,)]
    spare_memory(session, None)
    warm(session)


def test_no_memory_for_the_packages(connect: Connect, spare_memory: Spare) -> None:
    """The first training of a session, when numpy cannot be loaded."""
    session = connect()
    for spare in (1, 5, 10):
        spare_memory(session, spare)
        with pytest.raises(psycopg.Error):
            session.execute(GOOD)
        assert session.execute("SELECT 1").fetchall() == [(1,)]
    spare_memory(session, None)
    warm(session)


@pytest.fixture
def small_disk(cluster: Any) -> Iterator[None]:
    """PostgreSQL's temporary folder is a file system of 8 MB."""
    folder = cluster.data / "base" / "pgsql_tmp"
    account = folder.parent.stat()
    folder.mkdir(exist_ok=True)
    options = f"size=8m,uid={account.st_uid},gid={account.st_gid},mode=700"
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], capture_output=True, check=False
    ).returncode == 0  # fmt: skip
    if not mounted:
        pytest.skip("mounting a small file system needs root")
    yield
    subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("parallel", [False, True])
def test_disk_is_full(small_disk: None, connect: Connect, parallel: bool) -> None:
    session = warm(connect())
    source = WIDE
    session.execute("SET tuskml.memory_limit = '1MB'")
    if parallel:
        session.execute(
            f"CREATE TABLE wide AS SELECT * FROM {WIDE}; ANALYZE wide; SET tuskml.memory_limit = '1GB'"
        )
        session.execute(PARALLEL)
        source = "wide"
    with pytest.raises(psycopg.errors.DiskFull):
        session.execute(f"SELECT train_model('logistic', y, x) FROM {source}")
    assert temporary_files(session) == []
    warm(session)


@pytest.mark.slow
def test_a_group_of_more_than_a_gigabyte(connect: Connect) -> None:
    session = connect()
    session.execute("SET tuskml.memory_limit = '256MB'")
    array = ", ".join(f"(i * {k} % 101)::float8" for k in range(3, 31))
    sql = f"SELECT train_model('linear', (i * 3 % 101) + 1, ARRAY[{array}]) FROM generate_series(1, 5000000::bigint) AS i"
    found = session.execute(
        f"SELECT (m).n_rows, (m).coef[1], (m).intercept FROM ({sql}) AS s(m)"
    ).fetchone()
    assert found is not None
    assert found[0] == 5000000
    assert found[1:] == pytest.approx((1.0, 1.0), abs=1e-6)
    assert temporary_files(session) == []
