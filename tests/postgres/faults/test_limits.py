"""Trainings keep within memory, temporary files and disk, and say what was too little."""

# ruff: noqa: E501, SQL is read better on one line

import functools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cluster import SANITIZE
from sessions import (
    GOOD,
    LARGE,
    PARALLEL,
    ROWS,
    Connect,
    endless,
    eventually,
    later,
    pid,
    status,
    temporary_files,
    warm,
)
from tried import WHOLE

pytestmark = pytest.mark.fault(family="memory limits")


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)
    pg.execute("ANALYZE t")


@pytest.fixture(scope="module")
def large(pg: psycopg.Connection) -> str:
    """A query whose workers hand over files, in all some megabytes."""
    pg.execute(LARGE)
    pg.execute("ANALYZE large")
    return f"SELECT g, {endless('newton', max_iter=3)} FROM large GROUP BY g"


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
    session, seen = connect(), []
    for key in ("g", "g < 0", "x[1]"):
        session.execute("SET tuskml.memory_limit = '1GB'")
        usual = fitted(session, key)
        session.execute("SET tuskml.memory_limit = 0")
        with later(0.0, lambda: seen.append(eventually(lambda: spilled(pid(session)), 1.0))):
            assert fitted(session, key) == usual
        assert temporary_files(session) == []
    assert any(seen), "a look may miss one"


def test_memory_of_the_rows_is_bounded(connect: Connect) -> None:
    """200,000 rows of 20 double are 32 MB; what is spilled is the kernel's to keep or to drop."""
    session = warm(connect())
    session.execute("SET tuskml.memory_limit = '4MB'")
    before = status(pid(session), "RssAnon")
    most = [0]
    look = functools.partial(status, pid(session), "RssAnon")
    with later(0.0, lambda: most.append(look()), again=0.005):
        found = session.execute(
            f"SELECT (train_model('logistic', y, x)).n_rows FROM {WIDE}"
        ).fetchall()
    assert found == [(200000,)]
    assert len(most) > 10
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
    if SANITIZE:
        pytest.skip("AddressSanitizer itself needs the memory, and ends the process without it")
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


@pytest.mark.sample(1)
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


NIGHTLY = [pytest.param(name, marks=pytest.mark.nightly) for name in ("hogwild", "sgd")]


@pytest.mark.nightly
@pytest.mark.parametrize("algorithm", ["newton", *NIGHTLY])
def test_no_memory_for_the_kernels(connect: Connect, spare_memory: Spare, algorithm: str) -> None:
    """Of the copy of the rows, of the threads, of what the kernels need."""
    session = warm(connect())
    session.execute("SET tuskml.threads = 4; SET tuskml.memory_limit = '1GB'")
    step = 1 if WHOLE else 2
    for spare in (*range(0, 24, step), *range(24, 120, 8 * step)):
        spare_memory(session, spare)
        try:
            session.execute(f"SELECT {endless(algorithm, max_iter=2, deterministic=True)} FROM t")
        except psycopg.errors.OutOfMemory:
            continue
        finally:
            assert session.execute("SELECT 1").fetchall() == [(1,)]
    spare_memory(session, None)
    warm(session)


@pytest.mark.nightly
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
@pytest.mark.fault(family="full disks")
def test_disk_is_full(small_disk: None, connect: Connect, parallel: bool) -> None:
    session = warm(connect())
    source = WIDE
    session.execute("SET tuskml.memory_limit = '1MB'")
    if parallel:
        session.execute(
            f"DROP TABLE IF EXISTS wide; CREATE TABLE wide AS SELECT * FROM {WIDE}; ANALYZE wide; SET tuskml.memory_limit = '1GB'"
        )
        session.execute(PARALLEL)
        source = "wide"
    apart = '{"seed": 1}'  # rows that repeat are not merged
    with pytest.raises(psycopg.errors.DiskFull):
        session.execute(f"SELECT train_model('logistic', y, x, '{apart}') FROM {source}")
    assert temporary_files(session) == []
    warm(session)


@pytest.mark.nightly
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
