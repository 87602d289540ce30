"""A disk that is full: trainings say so, what was there answers, and with space all works again."""

# ruff: noqa: E501, SQL is read better on one line

import shutil
from pathlib import Path

import duckdb
import numpy as np
import pytest
from tried import Tally, times

import tuskml
from tuskml.errors import StoreError
from tuskml.kvstore import StoreRoot
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.fault(family="full disks")


def fill(folder: Path, leave: int) -> Path:
    """Takes all space of the disk but so many bytes."""
    file = folder / "ballast"
    free = shutil.disk_usage(folder).free
    file.write_bytes(b"x" * max(0, free - leave))
    return file


def test_a_store(small_disk: Path, tally: Tally) -> None:
    """Checkpoints, publishing and importing, with more and more space."""
    root = StoreRoot(small_disk / "stores")
    root.publish_weights("m", np.ones(1000))
    refused = 0
    for case in range(times(60)):
        tally.tried += 1
        ballast = fill(small_disk, 4096 * case)
        try:
            with root.create("n", IndexMap.by_rule(64), "float64") as store:
                store.put(np.arange(300), np.full((300, 64), 2.0))
                store.checkpoint({"epoch": 1})
                root.publish(store)
                store.discard()
        except StoreError as error:
            refused += 1
            tally.wrong += "\n" in str(error)
        tally.lost += root.open("m").nonzero != 1000
        assert root.open("m").nonzero == 1000
        ballast.unlink()
        version = root.publish_weights("m", np.ones(1000))
        assert root.open(version.reference).nonzero == 1000
        for path in root.working("n") if "n" in root.names() else ():
            shutil.rmtree(path)
    assert tally.wrong == 0
    assert refused > 0


@pytest.mark.nightly
def test_a_database_of_models(small_disk: Path, tally: Tally) -> None:
    """CREATE TABLE AS and the registry's INSERT, with more and more space."""
    refused = 0
    fit = "SELECT i % 200 AS g, train_model('linear', 2 * i, [i]) AS m FROM range(1000) t(i) GROUP BY g"
    for case in range(times(40)):
        tally.tried += 1
        file = small_disk / f"{case}.duckdb"
        with tuskml.connect(file, threads=1) as con:
            con.execute(f"CREATE TABLE kept AS {fit}")
            con.execute("CHECKPOINT")
        ballast = fill(small_disk, 16384 * case)
        try:
            with tuskml.connect(file, threads=1) as con:
                con.execute(f"CREATE TABLE more AS {fit}")
                con.execute("CHECKPOINT")
        except duckdb.Error as error:
            refused += 1
            tally.wrong += "INTERNAL" in str(error)
        ballast.unlink()
        with tuskml.connect(file, threads=1) as con:
            assert con.execute(
                "SELECT count(*), count(DISTINCT round(predict(m, [1]))) FROM kept"
            ).fetchall() == [(200, 1)]
            con.execute(f"CREATE OR REPLACE TABLE more AS {fit}")
            assert con.execute("SELECT count(m) FROM more").fetchall() == [(200,)]
        file.unlink()
    assert tally.wrong == 0
    assert refused > 0


TRAININGS = {
    "weights that travel": """train_model('logistic', i % 7 < 3, sparse([i * 37 % 50000, i * 91 % 50000], [1.0, 0.5]),
        '{"store": "a", "algorithm": "hogbatch", "max_iter": 2, "l2": 1e-4}')""",
    "a key for each feature": """train_model('logistic', i % 7 < 3, sparse([i * 37 % 9000, i * 91 % 9000], [1.0, 0.5]),
        '{"store": "a", "algorithm": "hogbatch", "max_iter": 2, "l2": 1e-4, "partition": 0}')""",
    "factorization": """train_model('matrix_factorization', i % 7, [i % 2000, i % 1999],
        '{"store": "a", "max_iter": 2, "rank": 8}')""",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(one, marks=pytest.mark.nightly if one.startswith("a key") else ())
        for one in TRAININGS
    ],
)
def test_trainings_in_a_store(small_disk: Path, tally: Tally, name: str) -> None:
    """They end, wherever space ends, and leave what was there; the costs of a store cannot be
    measured on a disk as small as this one.
    """
    root, asked = StoreRoot(small_disk / "stores"), TRAININGS[name]
    with tuskml.connect(store_root=root.path, threads=2) as con:
        train, old = (
            f"SELECT ({asked}).store FROM range(10000) t(i)",
            asked.replace('"a"', '"old"'),
        )
        con.execute(f"CREATE TABLE kept AS SELECT {old} AS m FROM range(10000) t(i)")
        x = "[3, 5]" if name == "factorization" else "sparse([37, 91], [1.0, 2.0])"
        predicted = con.execute(f"SELECT decision(m, {x}) FROM kept").fetchall()
        refused = 0
        for leave in range(0, 600_000, 600_000 // (5 * times(20))):
            tally.tried += 1
            ballast = fill(small_disk, leave)
            try:
                con.execute(train).fetchall()
            except duckdb.Error as error:
                refused += 1
                tally.wrong += "internal error" in str(error) or "\n" in str(error)
            assert con.execute(f"SELECT decision(m, {x}) FROM kept").fetchall() == predicted
            assert "a" not in root.names() or root.working("a") == []
            assert not list(small_disk.rglob(".*"))
            ballast.unlink()
        assert con.execute(train).fetchone()[0].startswith("a@")
    assert tally.wrong == 0
    assert refused > 0
