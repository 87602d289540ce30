"""Files of models and reports: whole or as before, and nothing else is left."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from short_files import short_files

import tuskml
from tuskml.commands.cli import main
from tuskml.model.model import Model

pytestmark = pytest.mark.fault(family="full disks")

LIMIT = 500
"""Bytes of a file, fewer than any of these."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a table of models."""
    path = tmp_path_factory.mktemp("models") / "models.duckdb"
    with tuskml.connect(path) as con:
        con.execute(
            "CREATE TABLE m AS SELECT train_model('linear', i * 7 % 11, [i, sqrt(i)]) AS model "
            "FROM range(50) t(i)"
        )
    return path


def save_model(models: Path, path: Path) -> None:
    with tuskml.connect(models, read_only=True) as con:
        [[value]] = con.execute("SELECT model FROM m").fetchall()
    Model.of(value).save(path)


def save_lightgbm(models: Path, path: Path) -> None:
    with tuskml.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i * 7 % 11 AS y, i AS x FROM range(50) r(i)")
        model = tuskml.train(con, "gbdt", source="t", label="y", features="x", trees=3)
    tuskml.export_lightgbm(model, path)


def save_report(models: Path, path: Path) -> None:
    assert main(["report", str(models), "--models", "m", "--output", str(path)]) in (0, 1)


SAVERS = {"model": save_model, "lightgbm": save_lightgbm, "report": save_report}


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", SAVERS)
def test_a_file_that_cannot_be_written(
    models: Path, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save: Callable[[Path, Path], None] = SAVERS[kind]
    path = tmp_path / "kept"
    save(models, path)
    before = path.read_bytes()
    assert len(before) > LIMIT
    with short_files(LIMIT):
        try:
            save(models, path)
            told = capsys.readouterr().err  # as a command says it
        except tuskml.TuskError as error:
            told = str(error)
    assert f"{path} cannot be written: File too large" in told
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", SAVERS)
def test_a_pipe_stays_one(models: Path, tmp_path: Path, kind: str) -> None:
    """So do /dev/null and /dev/stdout."""
    plain, pipe = tmp_path / "plain", tmp_path / "pipe"
    read: list[bytes] = []
    SAVERS[kind](models, plain)
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    SAVERS[kind](models, pipe)
    assert pipe.is_fifo()
    reader.join(60)
    assert len(read[0]) == len(plain.read_bytes())
