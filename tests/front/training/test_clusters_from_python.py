"""Clusters from Python and the shell: no label, predictions, files of models, a summary."""

import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

import tuskml
from tuskml.commands.cli import main

POINTS = """CREATE TABLE points AS SELECT i, i % 2 AS g, i % 4 * 10 + sin(i) AS a,
    i % 4 % 3 * 25 + cos(7 * i) AS b FROM range(200) AS t(i)"""


@pytest.fixture
def points(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(POINTS)
    return con


def test_train_and_predict_need_no_label(points: duckdb.DuckDBPyConnection) -> None:
    model = tuskml.train(points, "kmeans", source="points", features=["a", "b"], clusters=4)
    assert (model.status, model.task, model.label, model.n_features) == ("ok", "kmeans", None, 2)
    found = tuskml.predict(points, model, source="points", columns="i", returns="numpy")
    places = {tuple(sorted(set(found["i"][found["prediction"] == k] % 4))) for k in range(1, 5)}
    assert places == {(0,), (1,), (2,), (3,)}
    assert "kmeans" in repr(model) or "kmeans" in str(model)
    assert model._repr_html_().count("kmeans") > 0


def test_models_by_group_and_in_files(points: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    models = tuskml.train(
        points, "kmeans", source="points", features=["a", "b"], group_by="g", clusters=2
    )
    assert list(models) == [0, 1]
    models[0].save(tmp_path / "centres.json")
    again = tuskml.Model.load(tmp_path / "centres.json")
    assert again.payload == models[0].payload
    x = np.array([[0.0, 0.0], [20.0, 50.0]])
    assert sorted(again.predict(x)) == [1, 2]
    assert again.decision(x) == pytest.approx(models[0].decision(x))


def test_what_models_without_labels_have_not(points: duckdb.DuckDBPyConnection) -> None:
    given = {"source": "points", "features": ["a", "b"]}
    with pytest.raises(tuskml.TuskError, match="and task 'kmeans' has none: leave it out"):
        tuskml.train(points, "kmeans", label="i", **given)
    model = tuskml.train(points, "kmeans", clusters=2, **given)
    with pytest.raises(tuskml.TuskError, match="task 'kmeans' has no labels with which"):
        tuskml.evaluate(points, model, source="points")
    with pytest.raises(tuskml.TuskError, match="which has no classes"):
        model.predict_proba(np.zeros((1, 2)))


def test_the_shell_trains_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "points.duckdb")
    with duckdb.connect(path) as made:
        made.execute(POINTS)
    given = ["train", path, "--task", "kmeans", "--source", "points", "--features", "a, b"]
    assert main([*given, "--json", "--option", "clusters=4"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["task"], shown["status"], shown["options"]["clusters"]) == ("kmeans", "ok", 4)
