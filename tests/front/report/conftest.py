"""A report, as the command writes it."""

import shutil
import sys
from pathlib import Path

import pytest

import tuskml
from tuskml.commands.cli import main

sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database of three trainings and their page, by the command."""
    folder = tmp_path_factory.mktemp("report")
    database = folder / "some.duckdb"
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
    path = folder / "report.html"
    assert main(["report", str(database), "--features", "dose,age", "--output", str(path)]) == 0
    return folder


@pytest.fixture
def report(made: Path, tmp_path: Path) -> Path:
    """The page, in a copy of that folder, which a test may change."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "report.html"
