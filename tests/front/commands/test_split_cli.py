"""`tuskml split`, and `tuskml train --executor` on what it wrote."""

import json
from pathlib import Path

import duckdb
import pytest

from tuskml.commands.cli import main

ROWS = ["--source", "SELECT i % 3 AS g, i AS x, 2 * i + 1 AS y FROM range(90) t(i)"]
TRAIN = ["--task", "linear", "--label", "y", "--features", "x", "--group-by", "g", "--json"]


def test_rows_are_split_and_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "shards")
    split = ["split", ":memory:", *ROWS, "--group-by", "g", "--into", folder]
    assert main(split) == 0
    source = f"{folder}/*.parquet"
    assert capsys.readouterr().out == (
        f"90 rows of 3 groups in 1 shard of {folder}: train with --source '{source}'\n"
    )
    assert main(["train", ":memory:", "--source", source, "--executor", "threads", *TRAIN]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["key"] for line in lines] == [{"g": 0}, {"g": 1}, {"g": 2}]
    for line in lines:
        assert line["model"]["coef"] == pytest.approx([2])
    asked = ["--source", source, "--executor", "threads", "--workers", "2", *TRAIN]
    assert main(["explain", ":memory:", *asked]) == 0
    assert "GAP" in json.loads(capsys.readouterr().out)["explanation"]
    assert main([*split, "--json"]) == 1
    assert "already exists: give into another name" in capsys.readouterr().err
    assert main([*split, "--replace", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    size = Path(folder, "shard-000001.parquet").stat().st_size
    assert found == {"groups": 3, "rows": 90, "bytes": size, "shards": 1, "source": source}


def test_a_table_of_a_file_is_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.duckdb")
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE rows AS SELECT i % 2 AS g, i AS x FROM range(10) t(i)")
    given = ["--source", "rows", "--group-by", "g", "--into", str(tmp_path / "s"), "--json"]
    assert main(["split", path, *given]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == 2
    given[5] = str(tmp_path / "other")
    assert main(["split", str(tmp_path / "none.duckdb"), *given]) == 1
    assert "a file that does not exist" in capsys.readouterr().err
