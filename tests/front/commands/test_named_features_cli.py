"""The command line on columns of text."""

from pathlib import Path

import pytest

import tuskml
from tuskml.commands.cli import main

ROWS = """
    CREATE TABLE visits AS
    SELECT i % 7 AS km, CASE i % 3 WHEN 0 THEN 'bus' WHEN 1 THEN 'car' ELSE 'foot' END AS means,
           CASE WHEN i * 7919 % 13 > 6 THEN 'late' ELSE 'on time' END AS came,
           'class ' || (i * 31 % 17 % 3) AS kind FROM range(500) AS t(i)"""


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = str(tmp_path / "visits.duckdb")
    with tuskml.connect(path) as con:
        con.execute(ROWS)
    return path


def test_coefficients_and_classes_have_their_names(database: str, capsys) -> None:
    given = ["--source", "visits", "--label", "came", "--features", "km, means", "--l2", "0.1"]
    assert main(["train", database, "--task", "logistic", *given]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    names = [line[0] for line in lines if line]
    assert ["classes", "late", "and", "on", "time"] in lines
    assert names[-4:] == ["km", "means[bus]", "means[car]", "means[foot]"]


def test_multinomial_is_logistic(database: str, capsys) -> None:
    given = ["--source", "visits", "--label", "kind", "--features", "km, means", "--l2", "0.1"]
    shown = []
    for task in ("logistic", "multinomial"):
        assert main(["train", database, "--task", task, *given]) == 0
        lines = capsys.readouterr().out.splitlines()
        shown.append([line for line in lines if "iterations" not in line])  # these have seconds
    assert shown[0] == shown[1]
    assert any("class 2: means[foot]" in line for line in shown[0])
