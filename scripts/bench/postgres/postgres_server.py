"""The server of the PostgreSQL benchmarks: its start, its tables, sessions on it.

TUSKML_BENCH_POSTGRES names a server with the extension installed (a conninfo); without it a
private one is started (tests/postgres/cluster.py) and stopped. What is loaded lies in a schema of
its own, which goes at the end.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import data
import duckdb
import numpy as np
import postgres_rows
from contender import Outcome, Settings
from load import BATCH
from postgres_rows import Columns
from worker import NotConnected, reset_peak, resident

NEEDS = ("tuskml", "psycopg")
SERVER = "TUSKML_BENCH_POSTGRES"
PROBLEM = "TUSKML_BENCH_POSTGRES_PROBLEM"
SCHEMA = "tuskml_bench"
TRAIN_LITTLE = "SELECT train_model('linear', 1, ARRAY[1.0])"
Options = Mapping[str, str | int]
CLUSTER = Path(__file__).parents[3] / "tests" / "postgres" / "cluster.py"
TUNED = {"shared_buffers": "2GB", "max_wal_size": "16GB", "autovacuum": "off"}
TOLD = (
    "shared_buffers",
    "work_mem",
    "jit",
    "max_parallel_workers_per_gather",
    "tuskml.memory_limit",
)
ALONE: Options = {
    "max_parallel_workers_per_gather": 0
}  # the session's settings for a plan without workers
DENSE: Columns = {"g": "integer", "y": "boolean", "x": data.DIM}
TWENTY: Columns = {
    "g": "integer",
    "y": "real",
    "late": "boolean",
    "a": "real",
    "b": "real",
    "c": "real",
}


# --- the server ---


@contextmanager
def serve(settings: Settings) -> Iterator[Sequence[str]]:
    """For `around`: a server whose name is in the environment of the contenders' processes."""
    if running():
        _make_schema()
        yield _notes()
        _drop_schema()
        return
    with ExitStack() as stack:
        yield _start(settings, stack)


def running() -> bool:
    """Returns whether there is a server; without one its contenders report the reason."""
    return bool(os.environ.get(SERVER))


def _start(settings: Settings, stack: ExitStack) -> Sequence[str]:
    try:
        module = _cluster_module()
        cluster = stack.enter_context(module.private_cluster(settings.data_dir / "postgres-build"))
    except Exception as problem:
        os.environ[PROBLEM] = f"no PostgreSQL: {problem}".splitlines()[0]
        return ()
    cluster.restart(**TUNED)
    os.environ[SERVER] = cluster.conninfo(module.TEMPLATE)
    stack.callback(os.environ.pop, SERVER)
    _make_schema()
    return _notes()


def _cluster_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cluster", CLUSTER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _make_schema() -> None:
    _drop_schema()
    with connect() as con:
        con.execute("CREATE EXTENSION IF NOT EXISTS tuskml_train CASCADE")
        con.execute(f"CREATE SCHEMA {SCHEMA}")


def _drop_schema() -> None:
    with connect() as con:
        con.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def _notes() -> Sequence[str]:
    with connect() as con:
        con.execute(TRAIN_LITTLE)  # loads the library, which brings its settings
        version = con.execute("SELECT version()").fetchone()[0].split(" on ")[0]
        shown = [f"{name} {con.execute(f'SHOW {name}').fetchone()[0]}" for name in TOLD]
    return (
        f"{version}, {', '.join(shown)}.",
        "Peak MB of a PostgreSQL contender is its backend's, without shared_buffers and without "
        "parallel workers.",
    )


# --- tables ---


def load(path: Path, table: str, columns: Columns) -> None:
    """Copies a table of a DuckDB file into PostgreSQL; a no-op without a server."""
    if not running():
        return
    types = {name: kind if isinstance(kind, str) else "float8[]" for name, kind in columns.items()}
    sql = ", ".join(f"{name} {kind}" for name, kind in types.items())
    with connect() as con:
        con.execute(f"CREATE TABLE {table} ({sql})")
        copy_rows(con, path, table, columns)
        con.execute(f"VACUUM (ANALYZE, FREEZE) {table}")
        con.execute("CHECKPOINT")


def copy_rows(con: Any, path: Path, table: str, columns: Columns) -> None:
    """COPY FROM STDIN of the rows of a DuckDB file's table of the same name."""
    copy = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT binary)"
    with duckdb.connect(str(path), read_only=True) as source, con.cursor().copy(copy) as rows:
        rows.write(postgres_rows.HEADER)
        wanted = source.sql(f"SELECT {', '.join(columns)} FROM {table}")
        for batch in wanted.to_arrow_reader(BATCH):
            made = postgres_rows.empty(columns, batch.num_rows)
            for name, kind in columns.items():
                values = batch.column(name)
                if isinstance(kind, str):
                    made[name] = values.to_numpy(zero_copy_only=False)
                else:
                    made[name]["value"] = values.flatten().to_numpy().reshape(-1, kind)
            rows.write(made.tobytes())
        rows.write(postgres_rows.TRAILER)


# --- sessions ---


def connect(**options: str | int) -> Any:
    """A psycopg connection that commits each statement; options: the session's settings."""
    import psycopg

    if not running():
        raise NotConnected(os.environ.get(PROBLEM, f"no PostgreSQL: {SERVER} is not set"))
    set_by = {"search_path": f"{SCHEMA},public", **options}
    words = " ".join(f"-c {name}={value}" for name, value in set_by.items())
    return psycopg.connect(os.environ[SERVER], autocommit=True, options=words)


class Session:
    """A session whose statements are timed, and whose server process's memory is watched."""

    def __init__(self, settings: Settings, **options: str | int) -> None:
        from psycopg.types.composite import CompositeInfo, register_composite

        self.connection = connect(**options, **{"tuskml.threads": settings.threads})
        self.pid = str(self.connection.info.backend_pid)
        info = CompositeInfo.fetch(self.connection, "tuskml_model")
        assert info is not None
        register_composite(info, self.connection)
        self.connection.execute(TRAIN_LITTLE)  # imports, which are no part of a later training

    def timed(self, sql: str) -> tuple[list[Any], Outcome]:
        """The statement's rows, in Python's hands, and the outcome without a quality."""
        self.reset_peak()
        start = time.perf_counter()
        cursor = self.connection.execute(sql)
        rows = cursor.fetchall() if cursor.description else []
        return rows, Outcome(time.perf_counter() - start, peak_bytes=self.peak())

    def reset_peak(self) -> None:
        """The peak counts from here, where the server runs on this machine."""
        self._before = 0
        if Path(f"/proc/{self.pid}").exists():
            reset_peak(self.pid)
            self._before = resident("VmRSS", self.pid) - resident("RssShmem", self.pid)

    def peak(self) -> int:
        """The rise of the backend's private memory over its previous value."""
        if not Path(f"/proc/{self.pid}").exists():
            return 0
        most = resident("VmHWM", self.pid) - resident("RssShmem", self.pid)
        return max(0, most - self._before)


def weights(model: Any) -> tuple[Any, float]:
    """Coefficients and intercept of a model that a session has read."""
    return np.asarray(model.coef), model.intercept
