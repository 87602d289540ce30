"""Nets of rows with categories by the command: trained, predicted, explained and reported."""

import json
from pathlib import Path

import pytest

import tuskml
from tuskml.commands.cli import main

GIVEN = [
    *("--task", "mlp", "--source", "t", "--label", "y", "--features", "a,k"),
    *("--option", "max_iter=30", "--option", "layers=[8]", "--option", "learning_rate=0.01"),
]


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "some.duckdb"
    some = "i % 3 AS g, 'k' || i % 5 AS k, i * 7919 % 1009 / 1009.0 AS a"
    label = "a * (k = 'k1' OR k = 'k3')::INT"
    with tuskml.connect(path) as con:
        rows = f"SELECT {some} FROM range(900) r(i)"
        con.execute(f"CREATE TABLE t AS SELECT *, {label} AS y FROM ({rows})")
    return str(path)


def test_a_model_per_group_predicts_and_is_reported(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", database, *GIVEN, "--group-by", "g", "--into", "models"]) == 0
    told = ["--models", "models", "--source", "t", "--features", "a,k", "--group-by", "g"]
    assert main(["predict", database, *told, "--into", "told", "--name", "m"]) == 0
    with tuskml.connect(database) as con:
        ((worst, off),) = con.execute(
            "SELECT max(abs(m - y)), avg((m - y)^2) FROM told"
        ).fetchall()
    assert off < 0.01
    assert worst < 1
    page = str(tmp_path / "report.html")
    assert main(["report", database, "--models", "models", "--output", page]) == 0
    text = Path(page).read_text(encoding="utf-8")
    assert "hidden layers 8 of relu" in text
    capsys.readouterr()


def test_an_explanation_has_seconds_and_bytes(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", database, *GIVEN, "--option", "format=json", "--json"]) == 0
    found = json.loads(json.loads(capsys.readouterr().out)["explanation"])
    one = found["candidates"][0]
    assert one["seconds"]["point"] > 0
    assert one["memory_bytes"] > 900 * 2 * 4
