"""What the tables of the limits page say of tasks is what trainings do."""

import re
from pathlib import Path

import duckdb
import pytest

from tuskml.errors import OptionError
from tuskml.learners.registry import TASKS, options_of, task_named

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "limits.md").read_text()
FEATURES = {
    "dense": "[x, z]",
    "sparse": "sparse([(i % 3)::INT, 3], [1.0, x])",
    "by name": "{'x': x, 'kind': kind}",
}
OWN = {"matrix_factorization": "[i % 5, i % 3]", "lda": "[kind, kind2]"}
CALLS = {"weights": "'{}', 1 + i % 2", "offset": "'{}', 1, 0.1 * (i % 2)"}
OPTIONS = {
    "class_weight": '"balanced"',
    "cluster": '"kind"',
    "store": '"s"',
    "validation": "0.2",
    "time": '"10s"',
    "warm_start": '{"coef": [1, 2], "intercept": 0}',
}
ROWS = """CREATE OR REPLACE TEMP TABLE rows AS
    SELECT i, 1 + i % 7 AS x, sin(i) AS z, 'k' || i % 2 AS kind, 'm' || i % 3 AS kind2,
           i * 7 % 5 > 1 AS y FROM range(60) AS t(i)"""


def tables() -> dict[str, dict[str, str]]:
    """By task, the cells of the two tables by their column."""
    found: dict[str, dict[str, str]] = {}
    for part in re.findall(r"<!-- generated: (?:features|places) -->\n(.*?)<!-- end", PAGE, re.S):
        head, _, *rows = [line for line in part.splitlines() if line.startswith("|")]
        columns = [cell.strip(" `") for cell in head.strip("|").split("|")]
        for row in rows:
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            for name in re.findall(r"`(\w+)`", cells[0]):
                if name in TASKS:  # and not another name of a task
                    found.setdefault(name, {}).update(zip(columns, cells, strict=True))
    return found


CELLS = tables()


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(ROWS)
    return con


def trains(con: duckdb.DuckDBPyConnection, task: str, features: str, more: str = "'{}'") -> bool:
    """Whether a training of a few rows is not refused."""
    label = "y::INT" if "classes" in CELLS[task]["labels"] else "1 + i % 4"
    label = "NULL" if CELLS[task]["labels"] == "none" else label
    try:
        con.execute(f"SELECT train_model('{task}', {label}, {features}, {more}) FROM rows")
    except (duckdb.InvalidInputException, duckdb.BinderException):
        return False
    return True


def test_every_task_is_in_both_tables() -> None:
    assert CELLS.keys() == TASKS.keys()
    assert all({"dense", "offset", "store", "GPU"} <= cells.keys() for cells in CELLS.values())


@pytest.mark.parametrize("task", TASKS)
def test_features_weights_and_offsets(task: str, rows: duckdb.DuckDBPyConnection) -> None:
    said = {name: CELLS[task][name] == "yes" for name in (*FEATURES, *CALLS)}
    found = {
        name: task != "matrix_factorization" and trains(rows, task, features)
        for name, features in FEATURES.items()
    }
    usual = OWN.get(task, FEATURES["dense"])
    found |= {name: trains(rows, task, usual, more) for name, more in CALLS.items()}
    assert found == said


@pytest.mark.parametrize("task", TASKS)
def test_options(task: str) -> None:
    for option, value in OPTIONS.items():
        said = CELLS[task][option] == "yes"
        if takes(task, option, value):  # class_weight and cluster also depend on the rows' labels
            assert said or option in ("class_weight", "cluster"), option
        else:
            assert not said, option


def takes(task: str, option: str, value: str) -> bool:
    """Whether the task's options have one."""
    try:
        options_of(task_named(task), f'{{"{option}": {value}}}')
    except OptionError:
        return False
    return True
