"""Topics from Python and the shell: no label, words as features, predictions, files of models."""

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

import tuskml
from tuskml.commands.cli import main

DOCS = """CREATE TABLE docs AS SELECT i, i % 2 AS g,
    list_transform(range(12), lambda j: CAST((hash(i * 31 + j) % 5 + (i % 2) * 5) AS VARCHAR)) AS t
    FROM range(120) r(i)"""


@pytest.fixture
def docs(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(DOCS)
    return con


def test_train_and_predict_need_no_label(docs: duckdb.DuckDBPyConnection) -> None:
    model = tuskml.train(docs, "lda", source="docs", features="t", topics=2, seed=1)
    assert (model.status, model.task, model.label, model.n_features) == ("ok", "lda", None, 10)
    found = tuskml.predict(docs, model, source="docs", kind="predict_topics", returns="numpy")
    theta = np.stack(found["topics"])
    assert theta.sum(axis=1) == pytest.approx(1)
    assert (theta[::2].argmax(axis=1) != theta[1::2].argmax(axis=1)).all()
    ((same,),) = docs.execute(
        """SELECT bool_and(payload = ?) FROM (SELECT unnest([train_model('lda', NULL, t,
        '{"topics": 2, "seed": 1}').payload]) AS payload FROM docs)""",
        [model.payload],
    ).fetchall()
    assert same


def test_models_by_group_and_in_files(docs: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    models = tuskml.train(docs, "lda", source="docs", features="t", group_by="g", topics=1)
    assert list(models) == [0, 1]
    model = models[0]
    model.save(tmp_path / "topics.json")
    assert tuskml.Model.load(tmp_path / "topics.json").payload == model.payload
    assert model.payload != models[1].payload


def test_a_label_is_for_tasks_that_have_one(docs: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(tuskml.TuskError) as caught:
        tuskml.train(docs, "lda", source="docs", label="i", features="t")
    assert str(caught.value) == "label is 'i', and task 'lda' has none: leave it out"
    with pytest.raises(tuskml.TuskError) as caught:
        tuskml.train(docs, "linear", source="docs", features="g")
    told = "label is not given, expected a column or an SQL expression for task 'linear'"
    assert str(caught.value) == told


def test_the_shell_trains_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "docs.duckdb")
    with duckdb.connect(path) as made:
        made.execute(DOCS)
    given = ["train", path, "--task", "lda", "--source", "docs", "--features", "t", "--json"]
    assert main([*given, "--option", "topics=3", "--option", "max_iter=5"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["task"], shown["status"], shown["options"]["topics"]) == ("lda", "ok", 3)
