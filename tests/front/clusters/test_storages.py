"""Shards on file systems of fsspec, which workers open for themselves."""

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
import sharded

import tuskml
from tuskml.cluster.shards import storages

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install fsspec")
LOCAL = "127.0.0.1"


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection that reads what lies in the memory of this process."""
    with tuskml.connect() as connection:
        connection.register_filesystem(fsspec.filesystem("memory"))
        sharded.table(connection, 20_000)
        yield connection


@pytest.fixture
def expected(con: duckdb.DuckDBPyConnection) -> tuskml.Models:
    return tuskml.train(con, "logistic", source="rows", **sharded.GIVEN)


def put(con: duckdb.DuckDBPyConnection, folder: Path, files: Any, where: str) -> None:
    """The rows as two shards in a folder of another file system."""
    for path in sorted(Path(sharded.shuffled(con, folder)).parent.glob("*.parquet")):
        files.pipe(f"{where}/{path.name}", path.read_bytes())


def test_shards_in_memory_have_the_models_of_a_table(
    con: duckdb.DuckDBPyConnection, expected: tuskml.Models, tmp_path: Path
) -> None:
    put(con, tmp_path / "s", fsspec.filesystem("memory"), "/shards")
    given = sharded.GIVEN | {"source": "memory://shards/*.parquet", "executor": "threads"}
    found = tuskml.train(con, "logistic", explain=True, **given)
    sharded.assert_same_bits(found, expected)
    assert found.execution is not None
    by_parts = tuskml.train(con, "logistic", placement="dp", **given)
    assert by_parts["g0"].coef == pytest.approx(expected["g0"].coef, rel=1e-3)


def test_a_class_of_the_program_s_own_is_opened_by_threads(
    con: duckdb.DuckDBPyConnection, expected: tuskml.Models, tmp_path: Path
) -> None:
    """In memory: where a file's seek gives up the GIL, DuckDB 2.0 reads at the wrong place."""

    class Own(type(fsspec.filesystem("memory"))):  # type: ignore[misc]
        protocol = "own"

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return str(super()._strip_protocol(path.replace("own://", "memory://", 1)))

    fsspec.register_implementation("own", Own, clobber=True)
    con.register_filesystem(fsspec.filesystem("own"))
    put(con, tmp_path / "s", fsspec.filesystem("own"), "/rows")
    given = sharded.GIVEN | {"source": "own://rows/*.parquet", "executor": "threads"}
    sharded.assert_same_bits(tuskml.train(con, "logistic", **given), expected)


def test_finished_groups_of_another_file_system_are_found_again(
    con: duckdb.DuckDBPyConnection, expected: tuskml.Models, tmp_path: Path
) -> None:
    put(con, tmp_path / "s", fsspec.filesystem("memory"), "/again")
    given = sharded.GIVEN | {"source": "memory://again/*.parquet", "executor": "threads"}
    written = []
    for _ in range(2):
        found = tuskml.train(con, "logistic", finished=tmp_path / "f", **given)
        sharded.assert_same_bits(found, expected)
        written.append({path: path.stat().st_mtime_ns for path in (tmp_path / "f").iterdir()})
    assert written[0] == written[1] != {}


@pytest.mark.parametrize(
    ("path", "names"), [("s3://bucket/a.parquet", ["memory"]), ("/data/a.parquet", [])]
)
def test_file_systems_of_duckdb_s_own_are_not_asked_of_workers(
    path: str, names: list[str]
) -> None:
    """As httpfs registers, which workers load by themselves; nor any for files of this machine."""
    there = ["HTTPFileSystem", "memory", "S3FileSystem"]
    connection: Any = SimpleNamespace(list_filesystems=lambda: there)
    assert storages.storages(connection, [path]) == names


def test_a_file_system_that_a_worker_lacks_is_a_sentence() -> None:
    with duckdb.connect() as connection:
        storages.register(connection, [])
        with pytest.raises(tuskml.ExtensionError, match="file system 'none-such', which this wo"):
            storages.register(connection, ["none-such"])


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server of S3 on this machine, which real requests over HTTP reach; its bucket.

    Where its packages are missing the tests are skipped, or fail if TUSKML_REQUIRE_S3 is set.
    """
    lacking = [name for name in ("moto", "s3fs") if importlib.util.find_spec(name) is None]
    if lacking:
        reason = f"{lacking[0]} is not installed: pip install 'moto[server]' s3fs"
        if os.environ.get("TUSKML_REQUIRE_S3"):
            pytest.fail(f"TUSKML_REQUIRE_S3 is set: {reason}")
        pytest.skip(reason)
    with socket.socket() as probe:
        probe.bind((LOCAL, 0))
        port = probe.getsockname()[1]
    code = "import sys; from moto.server import main; main(sys.argv[1:])"
    server = subprocess.Popen(
        [sys.executable, "-c", code, "-H", LOCAL, "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{LOCAL}:{port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "secret-of-the-storage")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex((LOCAL, port)) == 0:
                    break
            time.sleep(0.1)
        fsspec.filesystem("s3").mkdir("bucket")
        yield "bucket"
    finally:
        server.terminate()
        server.wait(10)


@pytest.mark.nightly
def test_shards_of_an_object_store_on_ray(
    con: duckdb.DuckDBPyConnection,
    expected: tuskml.Models,
    tmp_path: Path,
    s3: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Workers are other processes, and find keys in their own environment. Shards that `split`
    wrote there are known by their manifest."""
    ray = pytest.importorskip("ray")
    files = fsspec.filesystem("s3")
    con.register_filesystem(files)
    put(con, tmp_path / "s", files, f"/{s3}/rows")
    manifest = tuskml.split(con, source="rows", group_by="g", into=f"s3://{s3}/sorted")
    environment = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    ray.init(
        num_cpus=1, address="local", include_dashboard=False, log_to_driver=False,
        runtime_env={"env_vars": environment},
    )  # fmt: skip
    caplog.set_level("DEBUG", "tuskml")
    try:
        given = sharded.GIVEN | {"source": f"s3://{s3}/rows/*.parquet", "executor": "ray"}
        sharded.assert_same_bits(tuskml.train(con, "logistic", **given), expected)
        given = sharded.GIVEN | {"source": manifest.source, "executor": "ray"}
        sharded.assert_same_bits(tuskml.train(con, "logistic", **given), expected)
    finally:
        ray.shutdown()
    assert "secret-of-the-storage" not in caplog.text
