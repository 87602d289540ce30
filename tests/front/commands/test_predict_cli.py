"""`tuskml predict` and `tuskml explain`: rows scored by the model of their group, plans shown."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tuskml
from tuskml.commands.cli import main

ROWS = """
CREATE TABLE t AS
SELECT CASE WHEN i % 3 < 2 THEN i % 3 END AS g, i % 20 AS x, 2 * (i % 20) + i % 3 AS y,
       i * 7 % 20 + i % 3 > 10 AS late
FROM {}(0, 89) AS r(i)
"""
TRAIN = ["--task", "linear", "--source", "t", "--label", "y", "--features", "x"]
GIVEN = ["--models", "models", "--source", "t", "--features", "x"]


@pytest.fixture(scope="module")
def postgres(cluster) -> Iterator[str]:
    """The URL of a database with rows and models."""
    cluster.create_database("tusk_predict")
    with cluster.connect("tusk_predict") as connection:
        connection.execute(ROWS.format("generate_series"))
    url = f"postgresql://postgres@/tusk_predict?host={cluster.folder}&port={cluster.port}"
    assert main(["train", url, *TRAIN, "--group-by", "g", "--into", "models"]) == 0
    yield url
    cluster.drop_database("tusk_predict")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the same."""
    path = tmp_path_factory.mktemp("predict") / "some.duckdb"
    with tuskml.connect(path) as con:
        con.execute(ROWS.format("generate_series"))
    assert main(["train", str(path), *TRAIN, "--group-by", "g", "--into", "models"]) == 0
    return path


@pytest.fixture
def duck(file: Path, tmp_path: Path) -> str:
    """A copy of it, which a test may change."""
    return str(shutil.copy(file, tmp_path))


@pytest.fixture(params=["duck", "postgres"])
def database(request: pytest.FixtureRequest, capsys) -> str:
    name = request.getfixturevalue(request.param)
    capsys.readouterr()
    return name


def lines(capsys) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_row_is_scored_by_its_group_s_model_that_of_nulls_too(database: str, capsys) -> None:
    assert main(["predict", database, *GIVEN, "--json"]) == 0
    rows = lines(capsys)
    assert len(rows) == 90
    assert {row["g"] for row in rows} == {0, 1, None}
    for row in rows:
        assert list(row) == ["g", "x", "y", "late", "prediction"]
        assert row["prediction"] == pytest.approx(row["y"])


def test_models_that_know_their_features_need_no_names(database: str, capsys) -> None:
    """Those of a list that was trained by column, and of rows with names."""
    assert main(["predict", database, *GIVEN, "--json"]) == 0
    wanted = lines(capsys)
    assert main(["predict", database, *GIVEN[:4], "--json"]) == 0
    assert lines(capsys) == wanted
    named = ["--task", "linear", "--source", "t", "--label", "y", "--features", "x,kind"]
    source = "SELECT t.*, 'k' || g AS kind FROM t WHERE g IS NOT NULL"
    named[3] = source
    assert main(["train", database, *named, "--into", "by_name", "--replace"]) == 0
    given = ["--models", "by_name", "--source", source, "--json"]
    capsys.readouterr()
    assert main(["predict", database, *given]) == 0
    assert all(row["prediction"] == pytest.approx(row["y"]) for row in lines(capsys))


@pytest.mark.nightly
def test_models_without_names_or_with_several_ask_for_them(database: str, capsys) -> None:
    mark = "ARRAY[x]" if database.startswith("postgresql") else "[x]"
    one = f"SELECT train_model('linear', y, {mark}) AS model FROM t"
    named = one.replace(f"{mark})", f"""{mark}, '{{"feature_names": ["y"]}}')""")
    several = (
        f"SELECT 0 AS g, model FROM ({one}) AS a UNION ALL SELECT 1, model FROM ({named}) AS b"
    )
    for models in (one, several):
        assert main(["predict", database, "--models", models, "--source", "t"]) == 1
        assert "--features is not given, and the model does not know" in capsys.readouterr().err


def test_a_group_without_a_model_gets_null(database: str, capsys) -> None:
    some = ["--models", "SELECT * FROM models WHERE g = 1", "--source", "t", "--features", "x"]
    assert main(["predict", database, *some, "--json"]) == 0
    assert {(row["g"], row["prediction"] is None) for row in lines(capsys)} == {
        (0, True),
        (1, False),
        (None, True),
    }


def test_keys_of_other_types_and_names(database: str, capsys) -> None:
    given = ["--group-by", "g::bigint AS g", "--name", "guess", "--json"]
    assert main(["predict", database, *GIVEN, *given]) == 0
    assert all(row["guess"] == pytest.approx(row["y"]) for row in lines(capsys))


def test_one_model_scores_all_rows(database: str, capsys) -> None:
    one = ["--models", "SELECT model FROM models WHERE g = 0", "--source", "t", "--features", "x"]
    assert main(["predict", database, *one, "--json"]) == 0
    for row in lines(capsys):
        assert row["prediction"] == pytest.approx(2 * row["x"])


@pytest.mark.nightly
def test_probabilities_are_sql_s(duck: str, capsys) -> None:
    more = ["--task", "logistic", "--label", "late", "--option", "l2=0.1", "--into", "risks"]
    assert main(["train", duck, *TRAIN, *more]) == 0
    capsys.readouterr()
    for output, function in (("probability", "predict_proba"), ("decision", "decision")):
        given = ["--models", "risks", "--source", "t", "--features", "x", "--output", output]
        assert main(["predict", duck, *given, "--json"]) == 0
        with tuskml.connect(duck) as con:
            truth = con.execute(f"SELECT x, {function}(model, [x]) FROM t, risks").fetchall()
        found = {row["x"]: row[output] for row in lines(capsys)}
        assert found == pytest.approx(dict(truth))


def test_rows_are_kept_in_a_table(database: str, capsys) -> None:
    assert main(["predict", database, *GIVEN, "--into", "scored"]) == 0
    assert capsys.readouterr().out == "90 rows in table scored\n"
    again = ["--models", "models", "--source", "scored", "--features", "x", "--json"]
    assert main(["predict", database, *again, "--name", "again"]) == 0
    for row in lines(capsys):
        assert row["again"] == row["prediction"]
    assert main(["predict", database, *GIVEN, "--into", "scored"]) == 1
    assert "exists" in capsys.readouterr().err


def test_a_person_sees_the_first_rows(duck: str, capsys) -> None:
    capsys.readouterr()
    assert main(["predict", duck, *GIVEN]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["g", "x", "y", "late", "prediction"]
    assert len(out.splitlines()) == 92
    twice = ["--models", "models", "--features", "x", "--source", "FROM t UNION ALL FROM t"]
    assert main(["predict", duck, *twice]) == 0
    assert capsys.readouterr().out.splitlines()[-1].strip().startswith("(the first 100 rows;")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--models", "t"], "table t has no single column of models"),
        (["--models", "tt"], "source 'tt' does not exist"),
        (["--models", "SELECT model FROM models"], "the query has several models and no column"),
        (["--models", "FROM models UNION ALL FROM models"], "the query has several models with"),
        (["--source", "SELECT x FROM t"], "table models has a column 'g', which the query does"),
        (["--group-by", "h"], "--group-by names key 'h', which table models does not have"),
        (["--features", "z"], "features names column 'z'"),
        (["--name", "Late"], "table t has a column 'Late' already"),
        (["--model-column", "m"], "table models has no column of models named 'm'"),
    ],
)
def test_what_is_wrong_is_one_sentence(duck: str, capsys, wrong: list, message: str) -> None:
    capsys.readouterr()
    assert main(["predict", duck, *GIVEN, *wrong]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tuskml: {message}")
    assert err.count("\n") == 1


@pytest.mark.nightly
def test_plans_are_explained_by_group(database: str, capsys) -> None:
    assert main(["explain", database, *TRAIN, "--group-by", "g", "--json"]) == 0
    found = lines(capsys)
    assert [line["key"] for line in found] == [{"g": 0}, {"g": 1}, {"g": None}]
    assert all("plan      newton" in line["explanation"] for line in found)
    assert main(["explain", database, *TRAIN, "--option", "algorithm=lbfgs"]) == 0
    out = capsys.readouterr().out
    assert "90 x 1 features" in out
    assert "plan      lbfgs" in out


@pytest.mark.nightly
def test_a_server_s_training_is_shown_to_a_terminal(postgres: str, capfd, monkeypatch) -> None:
    endless = ["algorithm=sgd", "epsilon=0", "max_iter=100000000", "time=2s"]
    options = [word for option in endless for word in ("--option", option)]
    given = ["train", postgres, *TRAIN, "--group-by", "g", *options, "--json"]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(given) == 0
    out, err = capfd.readouterr()
    assert "time limit" in out
    assert "training: " in err
    assert "iteration=" in err


@pytest.mark.nightly
def test_ctrl_c_ends_a_training_in_a_server(postgres: str, tmp_path: Path, cluster) -> None:
    script = tmp_path / "endless.sql"
    script.write_text(
        "SELECT 'ready' AS word;\nSELECT train_model('logistic', i % 3 = 0, ARRAY[i, i % 7], "
        """'{"algorithm": "sgd", "epsilon": 0, "max_iter": 100000000, "time": "60s"}') """
        "FROM generate_series(1, 30000) AS t(i) -- endless"
    )
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "tuskml", "sql", str(script), "--database", postgres],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while "ready" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "tuskml: interrupted\n")
    with cluster.connect("tusk_predict") as connection:
        running = (
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE query LIKE '%generate_series(1, 30000)%' AND state = 'active' "
            "AND pid <> pg_backend_pid()"
        )
        deadline = time.monotonic() + 60
        while connection.execute(running).fetchone() != (0,):
            assert time.monotonic() < deadline


def test_nothing_is_explained_of_a_wrong_option(duck: str, capsys) -> None:
    capsys.readouterr()
    assert main(["explain", duck, *TRAIN, "--option", "l3=1"]) == 1
    assert capsys.readouterr().err.startswith("tuskml: unknown option 'l3'")


@pytest.mark.nightly
def test_intervals_are_objects(database: str, capsys) -> None:
    options = ["--option", "intervals=covariance", "--group-by", "g", "--into", "sure"]
    assert main(["train", database, *TRAIN, *options]) == 0
    given = ["--models", "sure", "--source", "t", "--features", "x", "--json"]
    capsys.readouterr()
    assert main(["predict", database, *given, "--output", "interval", "--level", "0.5"]) == 0
    for row in lines(capsys):
        found = row["interval"]
        assert found["fit"] == pytest.approx(row["y"])
        assert found["prediction_lower"] <= found["lower"] <= found["fit"] <= found["upper"]
    assert main(["predict", database, *given, "--level", "0.5"]) == 1
    assert "level is given for predict" in capsys.readouterr().err
