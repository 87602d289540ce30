"""The tutorials are one text for both databases, and end in the same table in both."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tuskml.commands.cli import main

TUTORIALS = (
    "first_model",
    "model_per_group",
    "choose_penalty",
    "sparse_text",
    "film_recommender",
    "feature_layout",
)
Table = list[dict[str, Any]]


def in_duckdb(path: Path, capsys) -> list[Table]:
    """What `tuskml sql` prints, a table a result."""
    assert main(["sql", str(path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


def in_postgres(path: Path, cluster, database: str) -> list[Table]:
    """What `psql -f` prints; NULLs and all else as text."""
    done = subprocess.run(
        [
            str(cluster.server.folder("BINDIR") / "psql"),
            *("--dbname", cluster.conninfo(database), "--no-psqlrc", "--quiet"),
            *("--set", "ON_ERROR_STOP=1", "--no-align", "--field-separator", "\x1f"),
            *("--record-separator", "\x1e", "--file", "-"),
        ],
        input=path.read_text(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr
    tables = []
    for printed in re.split(r"\x1e\(\d+ rows?\)\n", done.stdout)[:-1]:
        names, *rows = [record.split("\x1f") for record in printed.split("\x1e")]
        tables.append([dict(zip(names, row, strict=True)) for row in rows])
    return tables


@pytest.fixture(scope="module")
def database(cluster):
    cluster.create_database("tusk_tutorials")
    yield "tusk_tutorials"
    cluster.drop_database("tusk_tutorials")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def same(ours: Any, text: str) -> bool:
    """Whether a value of DuckDB's JSON is the text that psql prints."""
    if ours is None:
        return text == ""
    if isinstance(ours, bool):
        return text == ("t" if ours else "f")
    if isinstance(ours, int | float) or is_number(ours):
        return float(text) == pytest.approx(float(ours), rel=1e-6, abs=1e-9)
    return ours == text


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", TUTORIALS)
def test_the_last_table_is_the_same_in_both(name: str, root: Path, cluster, database, capsys):
    path = root / "sql" / "examples" / f"{name}.sql"
    here, there = in_duckdb(path, capsys), in_postgres(path, cluster, database)
    assert len(here) == len(there) > 2
    assert len(here[-1]) == len(there[-1]) >= 1
    assert [list(row) for row in here[-1]] == [list(row) for row in there[-1]]
    for ours, theirs in zip(here[-1], there[-1], strict=True):
        different = {n: (v, theirs[n]) for n, v in ours.items() if not same(v, theirs[n])}
        assert different == {}


def test_the_command_runs_them_in_postgres_too(root: Path, cluster, database, capsys) -> None:
    path = root / "sql" / "examples" / "first_model.sql"
    url = f"postgresql://postgres@/{database}?host={cluster.folder}&port={cluster.port}"
    assert main(["sql", str(path), "--database", url, "--json"]) == 0
    there = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    here = in_duckdb(path, capsys)
    assert len(here) == len(there)
    assert here[-1] == [
        {name: pytest.approx(value) for name, value in row.items()} for row in there[-1]
    ]


def test_statements_in_postgres_fail_by_line(cluster, database, tmp_path: Path, capsys) -> None:
    url = f"postgresql://postgres@/{database}?host={cluster.folder}&port={cluster.port}"
    path = tmp_path / "script.sql"
    for text, line, message in (
        ("SELECT 1 AS one; -- a ; comment\n\nSELECT ';' || $a$;$a$,\n nofun(1);", 3, "nofun"),
        ("SELECT 1;\n\\copy t FROM 'x'", 2, "\\copy is a command of psql's"),
        ("/* ; */\nSELECT 1 / 0", 2, "division by zero"),
    ):
        path.write_text(text)
        assert main(["sql", str(path), "--database", url]) == 1
        err = capsys.readouterr().err
        assert err.startswith(f"tuskml: {path}, line {line}: ")
        assert message in err
        assert err.count("\n") == 1


def test_a_penalty_is_chosen_by_how_many_rows_there_are(root: Path, capsys) -> None:
    tables = in_duckdb(root / "sql" / "examples" / "choose_penalty.sql", capsys)
    last = {row["country"]: row for row in tables[-1]}
    assert last["Andorra"]["l2"] > last["Spain"]["l2"]
    # 36 rows cannot tell 12 coefficients: without a penalty it does worse than tossing a coin
    assert last["Andorra"]["loss_with"] < 0.69 < last["Andorra"]["loss_without"]
    for name, truth in (("signal_1", 2), ("signal_2", -1.5), ("signal_3", 1)):
        assert last["Spain"][name] == pytest.approx(truth, abs=0.3)
    assert last["Spain"]["noise"] < 0.2


def test_films_are_of_the_kind_that_is_loved(root: Path, capsys) -> None:
    tables = in_duckdb(root / "sql" / "examples" / "film_recommender.sql", capsys)
    score, recommended = tables[-2][0], tables[-1]
    # the noise is uniform on 1.6 stars, and stars are rounded: sqrt(1.6^2 / 12 + 1 / 12) = 0.54
    assert 0.54 < score["by_taste"] < 0.7
    assert score["by_taste"] < 0.6 * score["the_film_s_mean"]
    assert len(recommended) == 9
    first = [row for row in recommended if row["place"] == 1]
    likes = {"space": "crime", "crime": "romance", "romance": "space"}
    assert all(row["kind"] in (row["loves"], likes[row["loves"]]) for row in recommended)
    assert sum(row["kind"] == row["loves"] for row in first) >= 2
