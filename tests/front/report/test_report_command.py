"""`tuskml report` as a command: tables of either database, stored models, what is refused."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from outline import Outline

from tuskml.api.model_tables import ModelTable, choose_keys
from tuskml.commands.cli import main
from tuskml.databases.sources import Source


def test_the_command_says_what_it_wrote(report: Path, capsys) -> None:
    database, output = str(report.with_name("some.duckdb")), str(report)
    capsys.readouterr()
    assert main(["report", database, "--output", output]) == 0
    assert capsys.readouterr().out == (
        f"{output}: 3 groups, {report.stat().st_size / 1024:,.0f} KiB\n"
    )
    assert main(["report", database, "--output", output, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["groups"] == 3
    assert facts["bytes"] == report.stat().st_size


@pytest.fixture(scope="module")
def postgres(cluster) -> Iterator[str]:
    cluster.create_database("tusk_report")
    with cluster.connect("tusk_report") as connection:
        connection.execute(
            "CREATE TABLE models AS SELECT g, 'v1' AS version, "
            "train_model('linear', i * g + i % 3, ARRAY[i]) AS model "
            "FROM generate_series(0, 99) AS a(i), generate_series(1, 3) AS b(g) GROUP BY g"
        )
    yield f"postgresql://postgres@/tusk_report?host={cluster.folder}&port={cluster.port}"
    cluster.drop_database("tusk_report")


def test_models_of_postgres(postgres: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert main(["report", postgres, "--group-by", "g", "--output", str(path)]) == 0
    found = Outline(path.read_text())
    assert "models in tusk_report" in found.text
    assert str(postgres) not in found.text
    keys = re.findall(r'data-one="\d">(.*?)<', path.read_text())
    assert sorted(keys) == ["1", "2", "3"]
    assert "version" not in found.text.split("Groups")[-1]


def test_stored_models_show_what_they_asked_of_their_store(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TUSKML_STORE_ROOT", str(tmp_path / "stores"))
    script = tmp_path / "train.sql"
    script.write_text(
        "CREATE TABLE t AS SELECT i, i % 2 = 0 AS y FROM range(2000) r(i);"
        "SELECT 1 AS one;"
        "SELECT train_model('logistic', y, sparse([i % 2, i * 7919 % 500]::INTEGER[], [1, 1.0]),"
        """ '{"store": "ads", "epsilon": 0.01}') AS m FROM t;"""
    )
    path = tmp_path / "page.html"
    assert main(["report", ":memory:", "--script", str(script), "--output", str(path)]) == 0
    text = path.read_text()
    row = re.search(r"What each training asked of its store.*?<tbody><tr>(.*?)</tr>", text)
    assert row is not None
    cells = re.findall(r"<td>(.*?)</td>", row[1])
    assert cells[0].startswith("ads@1:")
    features, *answered = [int(cell.replace(",", "")) for cell in cells[1:7]]
    assert features == sum(answered) > 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--models", "nothing"], "source 'nothing' does not exist"),
        (["--models", "SELECT 1 AS a"], "the query has no single column of models"),
        (["--models", "FROM models WHERE false"], "FROM models WHERE false has no models"),
        (["--group-by", "week"], "--group-by names column 'week', which table models does not"),
        (["--script", "no-such.sql"], "no-such.sql: No such file"),
        (["--output", "/no/such/folder.html"], "/no/such/folder.html cannot be written"),
    ],
)
def test_what_is_wrong_is_one_sentence(report: Path, capsys, given: list, message: str) -> None:
    capsys.readouterr()
    assert main(["report", str(report.with_name("some.duckdb")), *given]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tuskml: {message}")
    assert err.count("\n") == 1


def test_tables_of_dbt_name_their_groups_by_one_column():
    source = Source("late_models", "late_models")
    beside = [("carrier", "VARCHAR"), ("group_key", "VARCHAR"), ("version", "INTEGER")]
    assert choose_keys(ModelTable(source, "model", beside), []) == ["group_key"]
    assert choose_keys(ModelTable(source, "model", beside), ["Carrier"]) == ["carrier"]
    assert choose_keys(ModelTable(source, "model", beside[:1]), []) == ["carrier"]
