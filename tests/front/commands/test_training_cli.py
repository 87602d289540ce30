"""`tuskml train`: tables, JSON, exit statuses."""

import json
from pathlib import Path

import pytest

import tuskml
from tuskml.commands.cli import main

GIVEN = ["--task", "linear", "--source", "t", "--label", "2 * x + g", "--features", "x"]


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "some.duckdb"
    with tuskml.connect(path) as con:
        con.execute("CREATE TABLE t AS SELECT x, x % 2 AS g, x > 4 AS late FROM range(30) r(x)")
    return str(path)


@pytest.mark.smoke
def test_models_by_group_are_a_table(database: str, capsys) -> None:
    assert main(["train", database, *GIVEN, "--group-by", "g"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    head, _, *lines = out.splitlines()
    assert head.split() == [
        "g",
        "rows",
        "skipped",
        "loss",
        "iterations",
        "status",
        "intercept",
        "coef",
    ]
    assert [line.split()[:3] for line in lines] == [["0", "15", "0"], ["1", "15", "0"]]


def test_one_model_shows_its_coefficients_by_name(database: str, capsys) -> None:
    given = ["--label", "2 * x + 3 * g", "--features", "x, g*2"]
    assert main(["train", database, *GIVEN, *given]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["x"] == "2"
    assert shown["g*2"] == "1.5"
    assert shown["status"] == "ok"


def test_json_is_one_object_a_model(database: str, capsys) -> None:
    assert main(["train", database, *GIVEN, "--group-by", "g AS odd", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["key"] for line in lines] == [{"odd": 0}, {"odd": 1}]
    assert lines[1]["model"]["coef"] == pytest.approx([2])
    assert main(["train", database, *GIVEN, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_rows"] == 30


def test_options_are_json_or_text(database: str, capsys) -> None:
    more = ["--option", "l2=0.5", "--option", "algorithm=bgd", "--option", "fit-intercept=false"]
    assert main(["train", database, *GIVEN, *more, "--json"]) == 0
    options = json.loads(capsys.readouterr().out)["options"]
    assert (options["l2"], options["algorithm"], options["fit_intercept"]) == (0.5, "bgd", False)


def test_what_was_read_is_shown(tmp_path: Path, capsys) -> None:
    path = str(tmp_path / "rows.parquet")
    with tuskml.connect() as con:
        rows = "SELECT i AS x, i % 7 AS z, i % 7 > 2 AS late FROM range(500000) t(i)"
        con.execute(f"COPY ({rows}) TO '{path}' (ROW_GROUP_SIZE 10000)")
    given = ["--task", "logistic", "--source", path, "--label", "late", "--features", "x,z"]
    more = ["--option", "algorithm=sgd", "--option", "epsilon=0.05", "--option", "l2=0.01"]
    assert main(["train", ":memory:", *given, *more]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["status"] == "ok"
    assert "of 500,000 rows, " in shown["read"]
    assert shown["read"].endswith("row groups")


def test_models_are_kept(database: str, capsys) -> None:
    assert main(["train", database, *GIVEN, "--group-by", "g", "--into", "models"]) == 0
    assert capsys.readouterr().out == "2 models in table models\n"
    with tuskml.connect(database) as con:
        found = con.execute("SELECT predict(model, [x]) FROM t JOIN models USING (g) WHERE x = 3")
        assert found.fetchone()[0] == pytest.approx(7)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--label", "y"], "label names column 'y', which table t does not have"),
        (["--option", "l3=1"], "unknown option 'l3'"),
        (["--option", "l2=1", "--option", "l2=2"], "--option l2 is given twice"),
        (["--source", "tt"], "source 'tt' does not exist"),
        (["--features", "x,"], "features is 'x,', expected a column"),
    ],
)
def test_what_is_wrong_is_one_sentence(database: str, capsys, wrong: list, message: str) -> None:
    assert main(["train", database, *GIVEN, *wrong]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tuskml: {message}")
    assert err.count("\n") == 1


def test_a_database_that_does_not_exist(capsys) -> None:
    assert main(["train", "no-such.duckdb", *GIVEN]) == 1
    assert "a file that does not exist" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [[], ["x.duckdb"], ["x.duckdb", *GIVEN, "--option", "l2"]])
def test_wrong_usage_is_2(wrong: list, capsys) -> None:
    assert main(["train", *wrong]) == 2
    assert capsys.readouterr().err.startswith("tuskml train: ")


def test_a_task_that_does_not_exist_is_wrong_usage(database: str, capsys) -> None:
    assert main(["train", database, *GIVEN, "--task", "linaer"]) == 2
    assert "did you mean 'linear'?" in capsys.readouterr().err


@pytest.mark.nightly
def test_a_bar_is_for_terminals(database: str, capfd, monkeypatch) -> None:
    assert main(["train", database, *GIVEN, "--group-by", "g"]) == 0
    assert capfd.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(["train", database, *GIVEN, "--group-by", "g"]) == 0
    out, err = capfd.readouterr()
    assert "training: 100%" in err
    assert "2/2" in err
    assert "training" not in out


def test_the_help_teaches_by_examples(capsys) -> None:
    assert main(["train", "--help"]) == 0
    out = capsys.readouterr().out
    for word in ("--group-by SQL", "examples:", "postgresql:///shop", ":memory:", "class_weight"):
        assert word in out


def test_an_option_is_a_flag_of_its_own(database: str, capsys) -> None:
    """In either spelling; of truth values the flag alone says true."""
    given = ["--l2", "0.5", "--algorithm=bgd", "--fit-intercept", "false", "--deterministic"]
    assert main(["train", database, *GIVEN, *given, "--max_iter", "9", "--json"]) == 0
    options = json.loads(capsys.readouterr().out)["options"]
    names = ("l2", "algorithm", "fit_intercept", "deterministic", "max_iter")
    assert [options[name] for name in names] == [0.5, "bgd", False, True, 9]
    assert main(["explain", database, *GIVEN, "--algorithm", "lbfgs"]) == 0
    assert "plan      lbfgs" in capsys.readouterr().out
    assert main(["train", database, *GIVEN, "--l2", "much"]) == 1
    assert "option 'l2' is \"much\", expected a number" in capsys.readouterr().err
    assert main(["train", database, *GIVEN, "--l2", "1", "--option", "l2=2"]) == 1
    assert "--option l2 is given twice" in capsys.readouterr().err


FLAGS = {
    ("--epsilom", "1"): "unrecognized arguments: --epsilom 1; did you mean --epsilon?",
    ("--max-itr", "1"): "unrecognized arguments: --max-itr 1; did you mean --max-iter?",
    ("--C", "1"): "unrecognized arguments: --C 1; scikit-learn's C is l2 = 1 / (C * n) here",
    ("--reg-lambda", "1"): "unrecognized arguments: --reg-lambda 1; XGBoost's reg_lambda is l2",
    ("--featurs", "x"): "unrecognized arguments: --featurs x; did you mean --features?",
    ("--qqq",): "unrecognized arguments: --qqq; see tuskml train -h",
    ("--l2",): "argument --l2: expected one argument; see tuskml train -h",
}


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_a_flag_that_there_is_not_has_a_hint(
    database: str, capsys, flags: tuple[str, ...]
) -> None:
    assert main(["train", database, *GIVEN, *flags]) == 2
    err = capsys.readouterr().err
    assert FLAGS[flags] in err
    assert err.startswith("tuskml train: ")
    assert err.count("\n") == 1
