"""The tutorials are one text for both databases, and end in the same table in both."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tuskml.cli import main

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
        timeout=120,
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
