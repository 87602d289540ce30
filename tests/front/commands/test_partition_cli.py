"""`tuskml partition explain`."""

import json
from pathlib import Path

import duckdb
import pytest

from tuskml.commands.cli import main

QUERY = "SELECT [i % 50, 50 + i % 50, 7] AS ids FROM range(1000) AS t(i)"


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    assert main(["partition", "explain", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["partition", "explain", *arguments]) == 1
    return capsys.readouterr().err


def test_a_query(capsys: pytest.CaptureFixture[str]) -> None:
    """Feature i % 50 always meets 50 + i % 50: where payloads are dear, fifty pairs remain."""
    found = explained(capsys, QUERY, "--top", "101", "--seek", "1", "--unit", "500")
    assert (found["rows_seen"], found["entries"]) == (1_000, 3_000)  # 7 twice in 20 rows
    assert found["by_feature"]["requests"] == pytest.approx(2.98)
    pairs = {tuple(one["features"]) for one in found["partitions"]}
    assert {(i, 50 + i) for i in range(50) if i != 7} <= pairs
    assert found["cost"] == {"t_seek": 1e-6, "t_unit": pytest.approx(5e-7)}


def test_a_table_of_a_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.duckdb")
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE clicks AS SELECT [1, 2]::INTEGER[] AS ids")
        con.execute("INSERT INTO clicks VALUES (NULL), ([]), ([3])")
    found = explained(capsys, "FROM clicks;", "--database", path)
    assert (found["rows_seen"], found["entries"]) == (3, 3)


def test_a_libsvm_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.svm"
    file.write_text("1 qid:3 3:1 5:0.5 # 9:1\n\n-1 5:2e-1\n0\n+1 3:1 5:-1 700000:1")
    found = explained(capsys, str(file), "--top", "2")
    assert (found["rows_seen"], found["entries"]) == (4, 6)
    assert [one["features"] for one in found["partitions"]] == [[3, 5]]


def test_real_rows(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """a9a has 32,560 rows of 13 to 14 binary features out of 123."""
    assert main(["partition", "explain", str(data / "a9a.svm")]) == 0
    shown = capsys.readouterr().out
    assert "32,560, of which 10,000 are counted" in shown
    assert "451,578; a feature's frequency errs by 0 at most" in shown
    assert "frequent ones merged" in shown


def test_many_partitions_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["partition", "explain", QUERY, "--seek", "1", "--unit", "500"]) == 0
    assert "(20 of 49 shared keys)" in capsys.readouterr().out


def test_what_cannot_be_partitioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n1,2\n3;4 x\n")
    assert "rows.csv is no LIBSVM file: a line begins with '3;4 x'" in refused(capsys, str(file))
    assert "no/file: No such file or directory" in refused(capsys, "no/file")
    assert "one column of id lists, got 1 INTEGER" in refused(capsys, "SELECT 1")
    assert "holds a NULL" in refused(capsys, "SELECT [1, NULL]")
    assert "must be from 0 to 2^62 - 1, got -1" in refused(capsys, "SELECT [-1]")
    assert "block must be from 1 to" in refused(capsys, QUERY, "--block", "0")
    assert "syntax error" in refused(capsys, "SELEC [1] x")
