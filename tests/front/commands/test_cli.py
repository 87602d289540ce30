"""The `tuskml` command: scripts, tables, JSON, exit statuses."""

import argparse
import io
import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import duckdb
import pytest

from tuskml.commands.cli import main, parser
from tuskml.commands.terminal.usage import Parser
from tuskml.text.table import table
from tuskml.version import VERSION


@pytest.fixture
def script(tmp_path: Path):
    """Writes a script and returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "script.sql"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.smoke
def test_a_script_trains_and_prints(script, capsys) -> None:
    text = """
        CREATE TABLE t AS SELECT train_model('linear', 2 * x + 1, [x]) AS model FROM range(9) r(x);
        SELECT round(model.coef[1], 6) AS slope, model.status FROM t;
    """
    assert main(["sql", script(text)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines() == ["  slope  status", "  ─────  ──────", "      2  ok"]


def test_json_prints_one_array_a_result(script, capsys) -> None:
    text = "SELECT 1 AS a, 'nan'::DOUBLE AS b, [1, NULL] AS c; CREATE TABLE t (x INT); FROM t;"
    assert main(["sql", "--json", script(text)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [[{"a": 1, "b": None, "c": [1, None]}], []]


def test_values_of_every_kind_become_json(script, capsys) -> None:
    text = "SELECT DATE '2013-01-01' AS d, 1.5 AS n, MAP {1: 'a'} AS m, true AS b, {'x': 1} AS s"
    assert main(["sql", "--json", script(text)]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"d": "2013-01-01", "n": "1.5", "m": {"1": "a"}, "b": True, "s": {"x": 1}}
    ]


def test_standard_input_is_a_script(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 7 AS seven"))
    assert main(["sql", "-"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "      7"


def test_a_database_file_keeps_tables(script, tmp_path: Path, capsys) -> None:
    database = str(tmp_path / "some.duckdb")
    assert main(["sql", script("CREATE TABLE kept AS SELECT 5 AS x"), "--database", database]) == 0
    assert main(["sql", script("FROM kept"), "--database", database]) == 0
    assert capsys.readouterr().out.split() == ["x", "─", "5"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "SELECT 1;\n-- no such\nSELECT train_modle(1);",
            "line 3: Scalar Function with name train_modle does not exist; did you mean "
            "'train_model'?",
        ),
        ("SELECT 1;\nSELCT 1", 'line 2: syntax error at or near "SELCT"'),
        (
            "SELECT train_model('linaer', x, [x]) FROM range(3) t(x)",
            "line 1: train_model: task is 'linaer', expected 'linear', 'logistic', 'svm', "
            "'squared_hinge', 'poisson', 'negative_binomial', 'gamma', 'tweedie', "
            "'inverse_gaussian', 'huber', 'quantile', 'ordinal', "
            "'matrix_factorization', 'gbdt', 'random_forest', 'mlp', 'lasso', "
            "'elastic_net', 'sparse_logistic', 'lda', 'kmeans' or 'fm'; did you mean 'linear'?",
        ),
    ],
)
def test_a_wrong_statement_is_one_sentence(script, capsys, text: str, message: str) -> None:
    path = script(text)
    assert main(["sql", path]) == 1
    assert capsys.readouterr().err == f"tuskml: {path}, {message}\n"


def test_results_before_the_wrong_statement_are_printed(script, capsys) -> None:
    assert main(["sql", script("SELECT 1 AS one; SELECT nofun(1);")]) == 1
    assert "one" in capsys.readouterr().out


def test_a_missing_file_is_named(capsys) -> None:
    assert main(["sql", "no-such-file.sql"]) == 1
    assert capsys.readouterr().err == "tuskml: no-such-file.sql: No such file or directory\n"


def test_text_that_is_no_text(tmp_path: Path, capsys) -> None:
    path = tmp_path / "latin.sql"
    path.write_bytes(b"SELECT '\xe4'")
    assert main(["sql", str(path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("argv", [[], ["dmeo"], ["sql", "a", "b"], ["demo", "--rows", "0"]])
def test_wrong_usage_is_2(argv: list[str], capsys) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("tuskml")
    assert err.count("\n") == 1


def test_wrong_usage_names_what_is_near(capsys) -> None:
    assert main(["dmeo"]) == 2
    assert "did you mean 'demo'? see tuskml -h" in capsys.readouterr().err
    assert main(["demo", "--rows", "none"]) == 2
    assert capsys.readouterr().err == (
        "tuskml demo: argument --rows: 'none' is not a whole number; see tuskml demo -h\n"
    )


def subcommands(parser: Parser) -> Iterator[Parser]:
    """Every command that does something, at any depth."""
    below = [a for a in parser.complete()._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield parser
    for action in below:
        for command in action.choices.values():
            yield from subcommands(command)


COMMANDS = {command.prog: command for command in subcommands(parser())}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_by_examples_and_speaks_json(name: str, capsys) -> None:
    assert main([*name.split()[1:], "--help"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 100
    examples = out.split("\nexamples:\n")[1]
    assert name in examples
    assert "--json" in out or name == "tuskml completion"


def commands_of(examples: str) -> list[list[str]]:
    """The command lines of tuskml in a text of examples, as a shell takes them apart."""
    joined = examples.replace("\\\n", " ")
    found = re.findall(r"^ *(?:sudo |echo .*\| )?tuskml (.*)$", joined, re.MULTILINE)
    words = [shlex.split(line) for line in found]
    return [list(takewhile(lambda word: word not in ("|", ">"), line)) for line in words]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_help_are_right_usage(name: str) -> None:
    found = commands_of((COMMANDS[name].epilog or "").split("options for")[0])
    assert found
    for line in found:
        assert callable(parser().parse_args(line).run)


def test_the_top_says_what_exit_statuses_mean(capsys) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for status in ("0    done", "1    the job failed", "2    wrong usage", "130  ended by Ctrl-C"):
        assert status in out


@pytest.mark.parametrize("argv", [["--version"], ["version"]])
def test_version(argv: list[str], capsys) -> None:
    assert main(argv) == 0
    assert capsys.readouterr().out == f"tuskml {VERSION}\n"


def test_ctrl_c_is_130(script, monkeypatch, capsys) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tuskml.commands.sql.connect", interrupt)
    assert main(["sql", script("SELECT 1")]) == 130
    assert capsys.readouterr().err == "tuskml: interrupted\n"


def test_versions_as_json(capsys) -> None:
    assert main(["version", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["tuskml"], found["duckdb"]) == (VERSION, duckdb.__version__)


@pytest.mark.smoke
def test_the_module_is_the_command(script) -> None:
    command = [sys.executable, "-m", "tuskml", "sql", script("SELECT nofun(1)")]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1


def test_ctrl_c_ends_a_training(script) -> None:
    path = script(
        "SELECT 1 AS ready;\nSELECT train_model('logistic', x % 3 = 0, [x, x % 7], "
        """'{"algorithm": "sgd", "epsilon": 0, "max_iter": 100000000, "time": "60s"}') """
        "FROM range(30000) t(x);"
    )
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "tuskml", "sql", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (130, "tuskml: interrupted\n")


@pytest.mark.nightly
def test_a_closed_pipe_is_quiet(script) -> None:
    path = script("SELECT repeat('x', 80) FROM range(100);\n" * 50)
    with subprocess.Popen(
        [sys.executable, "-m", "tuskml", "sql", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_tables_fit_the_terminal() -> None:
    text = table(["id", "text"], [(1, "x" * 300), (2, "short")], width=60)
    assert max(len(line) for line in text.splitlines()) <= 60
    assert "…" in text


def test_numbers_stand_on_their_points_and_text_left() -> None:
    assert table(["n", "t"], [(1.5, "a"), (20.25, None)], width=60).splitlines() == [
        "      n  t",
        "  ─────  ────",
        "   1.5   a",
        "  20.25  NULL",
    ]


def test_long_lists_and_many_lines_are_readable() -> None:
    lines = table(["l", "s"], [(list(range(100)), "one\ntwo")], width=80).splitlines()
    assert lines[2:] == ["  [0, 1, 2, 3, … 100 in all]  one", " " * 30 + "two"]


def test_wide_characters_keep_columns_straight() -> None:
    lines = table(["t", "n"], [("表", 1), ("ab", 2)], width=60).splitlines()
    assert lines[2:] == ["  表  1", "  ab  2"]


def test_many_rows_are_counted_not_printed(script, capsys) -> None:
    assert main(["sql", script("FROM range(1000)")]) == 0
    out = capsys.readouterr().out
    assert out.endswith("(100 of 1000 rows; --json prints all)\n")


def test_a_single_struct_stands_field_by_field(script, capsys) -> None:
    assert main(["sql", script("SELECT {'a': 1, 'b': [1, 2]} AS s")]) == 0
    assert [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:]] == [
        ["a", "1"],
        ["b", "[1, 2]"],
    ]
