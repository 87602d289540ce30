"""Run with faults.c preloaded: spoils each call on DuckDB's file and looks which models it has.

    database_sweep.py FOLDER MODE FIRST STEP

As tests/kvstore/sweep.py, which it is made of.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb

import tuskml
import tuskml.groups.contract.trainer
from tuskml import registry
from tuskml.learners.registry import options_of, task_named

sys.path.append(str(Path(__file__).parents[2] / "kvstore"))

from sweep import spoil

MODELS = """
CREATE OR REPLACE TABLE models AS SELECT i % 40 AS g, train_model('linear', {} * i, [i]) AS m
FROM range(400) AS t(i) GROUP BY g
"""
REGISTER = """INSERT OR REPLACE INTO tuskml.models BY NAME
FROM register_model('m', '
    SELECT train_model(''linear'', {} * i, [i]) AS model FROM range(9) AS t(i)')"""
DEPLOY = "INSERT OR REPLACE INTO tuskml.models BY NAME FROM deploy('m')"
STATES = [(1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 2)]
"""What is done: the slope in the table, versions in the registry, and the one that answers."""


def opened(folder: Path) -> duckdb.DuckDBPyConnection:
    return tuskml.connect(folder / "models.duckdb", threads=1)


def make(folder: Path) -> None:
    """Models of slope 1 in a table and in the registry."""
    with opened(folder) as con:
        registry.create(con)
        for sql in (MODELS.format(1), REGISTER.format(1), DEPLOY, "CHECKPOINT"):
            con.execute(sql)


def replace(folder: Path, done: Callable[[], object]) -> None:
    """Models of slope 2 take their place."""
    con = opened(folder)
    for sql in (MODELS.format(2), REGISTER.format(2), DEPLOY):
        con.execute(sql)
        done()
    con.close()


def see(folder: Path, steps: int) -> None:
    """Asserts that what is there is the state after the steps that were done, or the next."""
    with opened(folder) as con:
        slopes = con.execute("SELECT DISTINCT round(predict(m, [1])) FROM models").fetchall()
        count = con.execute("SELECT count(*) FROM models").fetchall()[0][0]
        versions = con.execute("SELECT count(*) FROM tuskml.models").fetchall()[0][0]
        answer = con.execute("SELECT round(predict('m', [1]))").fetchall()[0][0]
    assert count == 40
    assert len(slopes) == 1, "models of two trainings"
    found = (int(slopes[0][0]), versions, int(answer))
    assert found in STATES[steps : steps + 2], f"{found} after {steps} steps"


def main() -> None:
    options_of(task_named("linear"), "{}")  # it imports what else each child would import anew
    numbers = int(sys.argv[3]), int(sys.argv[4])
    print(json.dumps(spoil(Path(sys.argv[1]), sys.argv[2], *numbers, make, replace, see)))


if __name__ == "__main__":
    main()
