"""Folders of shards that last as long as a training: whose are removed, and whose are not."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tuskml
from tuskml.cluster.shards import temporary
from tuskml.cluster.shards.temporary import HOST, LOCK, PREFIX, temporary_folder

WAITING = """
import sys, time
from tuskml.cluster.shards.temporary import temporary_folder
with temporary_folder(sys.argv[1]) as folder:
    (folder / "shard.parquet").touch()
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with a folder there."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait()


def train(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes shards there, and removes them."""
    monkeypatch.setenv(temporary.FOLDER, str(folder))
    with tuskml.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i AS x, 2 * i AS y, i % 2 AS g FROM range(20) r(i)")
        given = {"label": "y", "features": ["x"], "group_by": "g", "cluster": "threads"}
        assert len(tuskml.train(con, "linear", source="t", **given)) == 2


@pytest.mark.nightly
def test_the_folder_of_a_killed_process_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: subprocess.Popen[str]
) -> None:
    """Not while it lives."""
    assert other.stdout is not None
    folder = Path(other.stdout.readline().strip())
    assert folder.parent == tmp_path
    train(tmp_path, monkeypatch)
    assert (folder / "shard.parquet").exists()
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert folder.exists(), "it could not"
    train(tmp_path, monkeypatch)
    assert list(tmp_path.iterdir()) == []


def test_nothing_else_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of another host, one without a lock, a link, a file, and one of this process."""
    elsewhere, unlocked = tmp_path / f"{PREFIX}elsewhere", tmp_path / f"{PREFIX}unlocked"
    for folder in (elsewhere, unlocked, tmp_path / "mine"):
        folder.mkdir()
    (elsewhere / LOCK).write_text("another host")
    (tmp_path / "mine" / LOCK).write_bytes(HOST.read_bytes())
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "mine")
    (tmp_path / f"{PREFIX}file").write_text("")
    before = set(tmp_path.rglob("*"))
    with temporary_folder(str(tmp_path)) as folder:
        train(tmp_path, monkeypatch)
        assert folder.exists()
    assert set(tmp_path.rglob("*")) == before


def test_without_locks_nothing_is_removed_and_all_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that has none."""

    def none(*_: int) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(temporary.fcntl, "flock", none)
    with temporary_folder(str(tmp_path)) as folder:
        train(tmp_path, monkeypatch)
        assert not (folder / LOCK).exists()
    assert list(tmp_path.iterdir()) == []
