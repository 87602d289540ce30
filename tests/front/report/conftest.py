"""A report, as the command writes it."""

import sys
from pathlib import Path

import pytest

import tuskml
from tuskml.commands.cli import main

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """The page of three trainings of a database, by the command."""
    database = tmp_path / "some.duckdb"
    with tuskml.connect(database) as con:
        con.execute("""
            CREATE TABLE models AS
            SELECT ['small', 'middle', 'large'][g + 1] AS size,
                   train_model('logistic', y, [x, z], '{"algorithm": "svrg", "threads": 1}')
                       FILTER (WHERE i < 600 * (1 + g * g * 4)) AS model
            FROM (SELECT i, i % 3 AS g, sin(i) AS x, cos(i * 7) AS z,
                         sin(i) + g * cos(i * 7) + sin(i * 3.3) > 0.2 AS y FROM range(9000) t(i))
            GROUP BY g
        """)
    path = tmp_path / "report.html"
    assert main(["report", str(database), "--features", "dose,age", "--output", str(path)]) == 0
    return path
