"""`tuskml sql` without a script: a prompt on a terminal, standard input elsewhere."""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tuskml
from tuskml.commands.cli import main
from tuskml.commands.terminal.prompt import complete

SERIES = {"duckdb": "range(9)", "postgres": "generate_series(0, 8)"}


@pytest.fixture
def typed(monkeypatch) -> Callable[..., list[str]]:
    """Has a terminal on which lines are typed; KeyboardInterrupt is a Ctrl-C."""

    def type_in(*lines: Any) -> list[str]:
        left: Iterator[Any] = iter(lines)
        prompts: list[str] = []

        def read(prompt: str) -> str:
            prompts.append(prompt)
            line = next(left, EOFError)
            if isinstance(line, str):
                return line
            raise line

        monkeypatch.setattr("builtins.input", read)
        monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
        return prompts

    return type_in


@pytest.fixture(params=["duckdb", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "duckdb":
        yield str(tmp_path / "typed.duckdb")
        return
    cluster = request.getfixturevalue("cluster")
    cluster.create_database("tusk_prompt")
    yield f"postgresql://postgres@/tusk_prompt?host={cluster.folder}&port={cluster.port}"
    cluster.drop_database("tusk_prompt")


def test_statements_are_typed(address: str, typed: Callable[..., list[str]], capsys) -> None:
    kind = "postgres" if "://" in address else "duckdb"
    array = "ARRAY[x]" if kind == "postgres" else "[x]"
    prompts = typed(
        "CREATE TABLE rows AS SELECT x, 2 * x AS y",
        f"FROM {SERIES[kind]} AS t(x);",
        "",
        "SELECT no_such;",
        "SELECT 'forgotten",
        KeyboardInterrupt,
        "help",
        f"SELECT (train_model('linear', y, {array})).status AS ended FROM rows;",
        "\\q",
        "SELECT 'never';",
    )
    assert main(["sql", "--database", address]) == 0
    out, err = capsys.readouterr()
    assert "ended" in out
    assert "ok" in out
    assert "Ctrl-D" in out
    assert "never" not in out
    assert "tuskml: " in err
    assert "no_such" in err
    assert "line 1" not in err, "a prompt has no lines to count"
    assert prompts[:3] == ["tuskml> ", "   ...> ", "tuskml> "]


def test_the_end_of_input_leaves(typed: Callable[..., list[str]], capsys) -> None:
    typed("SELECT 7 AS seven")
    assert main(["sql", "--json"]) == 0
    assert capsys.readouterr().out == '[{"seven": 7}]\n', "the last statement needs no semicolon"


def test_a_database_in_the_place_of_a_script(
    address: str, typed: Callable[..., Any], capsys
) -> None:
    if "://" not in address:
        tuskml.connect(address).close()
    typed("SELECT 7 AS seven;")
    assert main(["sql", address]) == 0
    assert "seven" in capsys.readouterr().out
    assert main(["sql", address, "--database", "other.duckdb"]) == 1
    assert "is a database, and so is --database" in capsys.readouterr().err


def test_a_command_is_run(address: str, capsys) -> None:
    assert (
        main(
            ["sql", "-c", "SELECT 7 AS seven; SELECT 8 AS eight", "--json", "--database", address]
        )
        == 0
    )
    assert capsys.readouterr().out == '[{"seven": 7}]\n[{"eight": 8}]\n'
    assert main(["sql", "-c", "SELECT 1", "some.sql"]) == 1
    assert "-c and FILE are given, expected one" in capsys.readouterr().err


def test_without_a_terminal_standard_input_is_read(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 7 AS seven"))
    assert main(["sql", "--json"]) == 0
    assert capsys.readouterr().out == '[{"seven": 7}]\n'


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1 -- not; ", False),
        ("SELECT ';", False),
        ("SELECT ';'", False),
        ('SELECT "a;', False),
        ("SELECT $$;$$ /* ; */", False),
        ("SELECT 1;\n\n", True),
        ("DO $$ BEGIN\nPERFORM 1;", False),
        ("DO $body$ BEGIN PERFORM $1; END $body$;", True),
        ("DO $body$ BEGIN PERFORM $$;$$; END;", False),
        ("DO $$BEGIN PERFORM 1;", False),
        ("SELECT $1, a$b$c;", True),
        ("SELECT 1 /* one; ", False),
        ("SELECT 4 / 2;", True),
    ],
)
def test_where_a_statement_ends(text: str, whole: bool) -> None:
    assert complete(text) is whole
