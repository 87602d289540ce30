"""Searches from Python and from the shell: what `train_model` takes, `tuskml.train` takes too."""

import json
from pathlib import Path

import duckdb
import pytest

import tuskml
from tuskml import registry
from tuskml.commands.cli import main
from tuskml.errors import OptionError

SOURCE = """
SELECT i AS x, 2 * i + 9 * sin(i) AS y, i % 2 AS g, ['a', 'b'][1 + i % 3 // 2] AS k,
       CASE WHEN sin(i) > 0.2 * (i % 3) THEN 'up' ELSE 'down' END AS s
FROM range(120) AS r(i)
"""


def test_lists_of_values_are_a_search(con: duckdb.DuckDBPyConnection) -> None:
    model = tuskml.train(
        con, "linear", source=SOURCE, label="y", features=["x", "k"], l2=[1, 0.1], folds=3
    )
    sql = f"""SELECT train_model('linear', y, {{'x': x, 'k': k}}, '{{"l2": [1, 0.1], "folds": 3}}')
              FROM ({SOURCE})"""
    same = tuskml.Model.of(con.execute(sql).fetchall()[0][0])
    assert model.trials is not None
    assert same.trials is not None
    assert model.coef == same.coef
    assert [one["metric"] for one in model.trials["trials"]] == [
        one["metric"] for one in same.trials["trials"]
    ]
    assert model.options["l2"] == [1, 0.1][model.trials["chosen"]]


def test_a_search_sees_all_rows_where_its_candidates_would_stream(
    tmp_path: Path, con: duckdb.DuckDBPyConnection
) -> None:
    path = tmp_path / "rows.parquet"
    con.execute(f"COPY ({SOURCE}) TO '{path}'")
    model = tuskml.train(
        con,
        "linear",
        source=path,
        label="y",
        features="x",
        l2=[1, 0.1],
        algorithm="sgd",
        epsilon=0.1,
    )
    assert model.n_rows == 120
    assert model.trials is not None


def test_tasks_compete_per_group_and_are_registered(con: duckdb.DuckDBPyConnection) -> None:
    models = tuskml.train(
        con,
        "auto",
        source=SOURCE,
        label="s",
        features=["x", "k"],
        group_by="g",
        tasks=["logistic", {"task": "gbdt", "trees": [5, 10]}],
        folds=3,
    )
    assert set(models) == {0, 1}
    registry.create(con)
    registry.register(con, "m", models)
    registry.deploy(con, "m")
    for g, model in models.items():
        assert model is not None
        assert model.trials is not None
        assert [one["configuration"]["task"] for one in model.trials["trials"]] == [
            "logistic",
            "gbdt",
            "gbdt",
        ]
        assert registry.model(con, "m", str(g)).trials == model.trials
        count = f"SELECT count(*) FROM model_trials(deployed_model('m', '{g}'))"
        assert con.execute(count).fetchall() == [(12,)]
    kept = tuskml.train(
        con, "auto", source=SOURCE, label="s", features="x", tasks=["logistic"], into="kept"
    )
    assert kept == 1


def test_what_cannot_be_searched_is_refused_before_rows_are_read(
    con: duckdb.DuckDBPyConnection,
) -> None:
    with pytest.raises(OptionError, match="unknown option 'fold'; did you mean 'folds'"):
        tuskml.train(con, "linear", source=SOURCE, label="y", features="x", l2=[1, 0.1], fold=3)
    with pytest.raises(OptionError, match="task 'auto' needs option 'tasks'"):
        tuskml.train(con, "auto", source=SOURCE, label="y", features="x")


@pytest.mark.nightly
def test_searches_from_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "rows.duckdb")
    with tuskml.connect(path) as con:
        con.execute(f"CREATE TABLE t AS {SOURCE}")
    rows = [path, "--source", "t", "--features", "x,k"]
    main(["train", *rows, "--task", "linear", "--label", "y", "--l2", "[1, 0.1]", "--json"])
    assert json.loads(capsys.readouterr().out)["trials"]["metric"] == "rmse"
    tasks = ["--tasks", '["logistic", "gbdt"]', "--folds", "3"]
    main(["train", *rows, "--task", "auto", "--label", "s", *tasks, "--json"])
    assert len(json.loads(capsys.readouterr().out)["trials"]["trials"]) == 2
    main(["explain", *rows, "--task", "auto", "--label", "s", *tasks])
    assert "2 candidates on 3 folds" in capsys.readouterr().out


def test_a_column_of_folds_need_not_be_a_feature(con: duckdb.DuckDBPyConnection) -> None:
    """Rows of one customer are in one fold, whose label no other customer tells."""
    source = """SELECT i % 10 AS customer, DATE '2024-01-01' + i::INTEGER AS day, sin(i) AS x,
                       10 * (i % 10) + sin(i) AS y FROM range(200) AS r(i)"""
    given = {"source": source, "label": "y", "features": ["x"], "l2": [0.0, 1.0]}
    apart = tuskml.train(con, "linear", **given, fold_by="customer")
    later = tuskml.train(con, "linear", **given, time_by="day", folds=3)
    for model, folds in ((apart, 5), (later, 3)):
        assert model.features == ("x",)
        assert model.trials is not None
        assert len(model.trials["trials"][0]["folds"]) == folds
    with pytest.raises(tuskml.DataError, match=r"option 'fold_by'.*did you mean 'customer'"):
        tuskml.train(con, "linear", **given, fold_by="custumer")
