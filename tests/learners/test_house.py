"""A learner enters by its registration alone: SQL of both databases, Python, the report, the manual."""

# ruff: noqa: E501, SQL is read better on one line

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import psycopg
import pytest

import tuskml
from tuskml.commands.cli import main
from tuskml.learners import registry
from tuskml.udas.tasks import TASK_TABLE

LEARNER = Path(__file__).with_name("mean_learner.py")
MOST_LINES = 80
ROWS = "SELECT i % 3 AS g, i AS y, 2 * i AS x FROM generate_series(1, 60) AS t(i)"
MEANS = {0: 31.5, 1: 29.5, 2: 30.5}
"""Of 3, 6, ..., 60; of 1, 4, ..., 58; of 2, 5, ..., 59."""
PREDICTED = "SELECT g, predict(m, {x}) FROM (SELECT g, train_model('mean', y, {x}) AS m FROM t GROUP BY g) AS f JOIN (SELECT DISTINCT g AS h, 7 AS x FROM t) AS u ON g = h ORDER BY g"
GIVEN = "SELECT train_model('mean', y, {x}, '{{{given}}}') FROM t"
WITH_PRIOR = "SELECT predict(train_model('mean', y, {x}, '{{\"prior\": 60}}'), {x7}) FROM t"
EXPLAINED = "SELECT explain_training('mean', y, {x}) FROM t"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = runpy.run_path(str(LEARNER))["Mean"]()
    monkeypatch.setattr(registry, "ADDED", [learner])


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(f"CREATE TABLE t AS {ROWS}")
    return con


@pytest.fixture
def session(connect: Callable[..., Any], cluster: Any, served: Path) -> psycopg.Connection:
    """A superuser's, in whose server the learner is registered too."""
    line = "\nfrom tuskml.learners.registry import ADDED\n\nADDED.append(Mean())\n"
    (served / "mean_learner.py").write_text(LEARNER.read_text() + line)
    opened = connect()
    opened.execute(f"SET tuskml.python_path = '{cluster.python_path}:{served}'")
    opened.execute("SET tuskml.modules = 'mean_learner'")
    opened.execute(f"CREATE TEMP TABLE t AS {ROWS}")
    return opened


def test_it_is_small() -> None:
    assert len(LEARNER.read_text().splitlines()) < MOST_LINES


def test_it_trains_and_predicts_in_duckdb(rows: duckdb.DuckDBPyConnection) -> None:
    assert dict(rows.execute(PREDICTED.format(x="[x]")).fetchall()) == MEANS


def test_it_trains_and_predicts_in_postgres(session: psycopg.Connection) -> None:
    assert dict(session.execute(PREDICTED.format(x="ARRAY[x]")).fetchall()) == MEANS


def test_its_own_option_is_in_force(
    rows: duckdb.DuckDBPyConnection, session: psycopg.Connection
) -> None:
    """60 rows, whose mean is 30.5, beside 60 with 0."""
    assert rows.execute(WITH_PRIOR.format(x="[x]", x7="[7]")).fetchall() == [(15.25,)]
    there = session.execute(WITH_PRIOR.format(x="ARRAY[x]", x7="ARRAY[7]")).fetchall()
    assert there == [(15.25,)]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("given", "sentence"), [
    ('"l2": 1', "option 'l2' is not available with task 'mean', which has prior, format, feature_names"),
    ('"store": "means"', "option 'store' is not available with task 'mean', which has prior, format, feature_names"),
    ('"prior": -1', "option 'prior' is -1, expected a number of at least 0"),
    ('"pior": 1', "unknown option 'pior', expected one of prior, format, feature_names, missing, invalid, max_categories, min_count, unseen, levels, categories, dates, interactions, text, text_bits, histogram; did you mean 'prior'?"),
])  # fmt: skip
def test_wrong_options_have_a_sentence(
    rows: duckdb.DuckDBPyConnection, session: psycopg.Connection, given: str, sentence: str
) -> None:
    with pytest.raises(duckdb.Error, match=re.escape(sentence)):
        rows.execute(GIVEN.format(x="[x]", given=given)).fetchall()
    with pytest.raises(psycopg.Error, match=re.escape(sentence)):
        session.execute(GIVEN.format(x="ARRAY[x]", given=given))


def test_other_learners_refuse_its_option(rows: duckdb.DuckDBPyConnection) -> None:
    sentence = "option 'prior' is not available with task 'linear', which has algorithm, max_iter,"
    with pytest.raises(duckdb.Error, match=sentence):
        rows.execute("SELECT train_model('linear', y, [x], '{\"prior\": 1}') FROM t").fetchall()


def test_it_is_explained(rows: duckdb.DuckDBPyConnection, session: psycopg.Connection) -> None:
    here = rows.execute(EXPLAINED.format(x="[x]")).fetchall()[0][0]
    there = session.execute(EXPLAINED.format(x="ARRAY[x]")).fetchone()
    assert here.startswith("mean: minimise mean 1/2 (m - y)^2\n  rows      60 x 1 features")
    assert there is not None
    assert there[0].splitlines()[0] == here.splitlines()[0]


def test_python_trains_and_predicts_with_it(
    rows: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    models = tuskml.train(rows, "mean", source="t", label="y", features=["x"], group_by="g")
    assert {key: model.predict([[5.0]]).tolist() for key, model in models.items()} == {
        key: [mean] for key, mean in MEANS.items()
    }
    rows.execute(
        "CREATE TABLE models AS SELECT g, train_model('mean', y, [x]) AS model FROM t GROUP BY g"
    )
    page = tmp_path / "report.html"
    rows.execute(
        f"ATTACH '{tmp_path}/f.duckdb' AS f; CREATE TABLE f.models AS FROM models; DETACH f"
    )
    assert main(["report", str(tmp_path / "f.duckdb"), "--output", str(page)]) == 0
    assert "mean" in page.read_text()


def test_it_is_in_the_manual(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its folder and its row of the table of tasks, as tuskml's own learners are."""
    folder = SimpleNamespace(LEARNERS=tuple(registry.ADDED))
    monkeypatch.setitem(sys.modules, "tuskml.learners.mean.learner", folder)
    monkeypatch.setattr(registry, "ADDED", [])
    row = TASK_TABLE["linear"]._replace(learner="mean")
    monkeypatch.setitem(TASK_TABLE, "mean", row)
    monkeypatch.syspath_prepend(root / "scripts" / "docs")
    pages = runpy.run_path(str(root / "scripts" / "docs" / "reference.py"))
    assert "| `mean` | `1/2 (m - y)^2` | numbers |" in pages["tasks_page"]()
    assert "## Options of `mean`\n" in pages["options_page"]()
    assert "| `prior` | 0 | >= 0 |" in pages["options_page"]()
