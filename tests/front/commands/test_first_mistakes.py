"""What goes wrong at first, in each interface: one sentence that says what to do, and all goes on."""

# ruff: noqa: E501, SQL is read better on one line

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuskml
from tuskml import TuskError
from tuskml.commands.cli import main
from tuskml.plots import models_by_name

ROWS = "CREATE TABLE flights AS SELECT i % 3 AS carrier, i % 50 AS dep_delay, i % 70 AS distance, (i * 7919 % 61) - 20 + i % 50 AS arr_delay, CASE WHEN i % 2 = 0 THEN 'yes' ELSE 'no' END AS word FROM {} AS t(i)"
SERIES = {"duckdb": "range(600)", "postgres": "generate_series(0, 599)"}


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def flights(request: pytest.FixtureRequest, make_place: Callable[[str], Any]) -> Any:
    place = make_place(request.param)
    place.sql(ROWS.format(SERIES[request.param]))
    return place


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What should be refused, and is not, writes here."""
    monkeypatch.chdir(tmp_path)


TRAIN: dict[str, Any] = {"source": "flights", "label": "arr_delay", "features": ["dep_delay"]}
IN_PYTHON = {
    "a label that is text": ({"label": "word"}, r"label 'word' is of type \w+, expected a number or a boolean"),
    "a wrong column": ({"features": ["dep_dealy"]}, "did you mean 'dep_delay'"),
    "a wrong label": ({"label": "arr_dely"}, "its columns are .*did you mean 'arr_delay'"),
    "a wrong key": ({"group_by": "carier"}, "group_by names column 'carier'.*did you mean 'carrier'"),
    "a missing table": ({"source": "flihgts"}, "source 'flihgts' does not exist.*did you mean 'flights'"),
    "a wrong option": ({"max_itr": 3}, "unknown option 'max_itr'.*did you mean 'max_iter'"),
    "a wrong argument": ({"groupby": "carrier"}, "no argument and no option 'groupby'; did you mean 'group_by'"),
    "a wrong value": ({"l2": -1}, "option 'l2' is -1, expected a number of at least 0"),
    "a value of another type": ({"l2": "much"}, "option 'l2' is \"much\", expected a number"),
    "features that are no text": ({"features": 3}, "features is or has a int, expected the names of columns"),
    "a feature that is no text": ({"features": ["dep_delay", 1]}, "features is or has a int, expected the names"),
    "no features": ({"features": []}, "features is an empty list, expected columns"),
    "a source that is no text": ({"source": [1, 2]}, "source is a list that has a int, expected the paths"),
    "a source that is called as a variable of ours": ({"source": "sql"}, "source 'sql' does not exist, expected a table"),
    "another one": ({"source": "names"}, "source 'names' does not exist, expected a table"),
    "a query on such a source": ({"source": "SELECT * FROM self"}, r"(Table with name self|relation .self.) does not exist"),
    "no source": ({"source": None}, "source is a NoneType, expected a table, a query"),
    "an array": ({"source": np.zeros((3, 2))}, "source is a numpy ndarray, expected .*; of arrays a frame, or tuskml.estimators"),
    "all columns": ({"features": "*"}, r"features has '\*', which is (several columns|neither a column .* nor an SQL expression).*carrier, dep_delay"),
    "a query of a missing table": ({"source": "SELECT * FROM flihgts"}, "flihgts.* does not exist; did you mean 'flights'"),
    "a missing CSV file": ({"source": "days.csv"}, "source 'days.csv' does not exist, expected a table"),
    "into that is no text": ({"into": 3}, "into is 3, expected the name of a new table"),
    "into a file of another kind": ({"into": "models.json"}, r"into is 'models.json', expected a table's name or a file that ends in .parquet or .csv"),
    "models into CSV": ({"into": "models.csv"}, "into is 'models.csv', but models are kept in a table or a Parquet file"),
    "regression": ({"task": "regression"}, "task is 'regression', expected .*; regression of a number is 'linear'"),
    "classification": ({"task": "Classifier"}, "task is 'Classifier', expected .*; two classes are 'logistic' or 'svm'"),
    "ridge": ({"task": "ridge"}, "task is 'ridge', expected .*; ridge regression is 'linear' with the option l2"),
    "lambda": ({"lambda_": 1}, "unknown option 'lambda_'.*; lambda is l2 or l1 here"),
    "an option dict": ({"options": {"l2": 1}}, "train has no argument 'options': options are arguments of their own, such as l2=0.1"),
    "a target": ({"target": "arr_delay"}, "train has no argument 'target'; did you mean label"),
    "a table": ({"table": "flights"}, "train has no argument 'table'; did you mean source"),
    "a data frame": ({"data": "flights"}, "train has no argument 'data'; did you mean source"),
    "a key": ({"by": "carrier"}, "train has no argument 'by'; did you mean group_by"),
    "X": ({"X": ["dep_delay"]}, "train has no argument 'X'; did you mean features"),
    "a condition": ({"where": "carrier = 1"}, "train has no argument 'where': source may be a query, 'SELECT ... WHERE ...'"),
    "a label that is NULL": ({"label": "arr_delay + NULL"}, "has no row whose label and features are not NULL"),
    "more than two classes": ({"task": "svm", "invalid": "error"}, "'svm' needs two classes"),
    "a wrong task": ({"task": "lineer"}, "task is 'lineer', expected .*did you mean 'linear'"),
    "a task that is no text": ({"task": 7}, r"task is of type int, expected .*train\(connection, task"),
}  # fmt: skip


@pytest.mark.sample(9)
@pytest.mark.parametrize("what", IN_PYTHON)
def test_in_python(flights: Any, what: str) -> None:
    given, sentence = IN_PYTHON[what]
    arguments = {"task": "linear", **TRAIN, **given}
    with pytest.raises(TuskError, match=sentence) as raised:
        tuskml.train(flights.connection, arguments.pop("task"), **arguments)
    assert "\n" not in str(raised.value)
    assert flights.sql("SELECT count(*) FROM flights") == [(600,)]


USAGE = r"train\(connection, task, source=\.\.\., features=\.\.\.\)"
LACKING = {
    f"train lacks source and features: {USAGE}": lambda con, _: tuskml.train(con, "linear"),
    f"train lacks task: {USAGE}": lambda con, _: tuskml.train(con, **TRAIN),
    "label is not given, expected a column .* for task 'linear'": lambda con, _: tuskml.train(
        con, "linear", source="flights", features="distance"
    ),
    "train has no argument 'y'; did you mean label": lambda con, _: tuskml.train(
        con, "linear", source="flights", y="arr_delay", features="distance"
    ),
    f"train takes connection and task by place, all else by name: {USAGE}": lambda con, _: (
        tuskml.train(con, "linear", "flights", "arr_delay")
    ),
    r"predict lacks source: predict\(connection, model, source=\.\.\.\)": tuskml.predict,
    "predict has no argument 'table'; did you mean source": lambda con, model: tuskml.predict(
        con, model, table="flights"
    ),
    "evaluate has no argument 'metric', expected .*features, weight, offset, group_by or curves": (
        lambda con, model: tuskml.evaluate(con, model, source="flights", metric="r2")
    ),
    "evaluate has no argument 'by'; did you mean group_by": lambda con, model: tuskml.evaluate(
        con, model, source="flights", by="carrier"
    ),
}
"""By the sentence: a call with a connection and a model."""


def test_calls_that_lack_something(flights: Any) -> None:
    """What Python would refuse by a TypeError is a sentence that shows the whole call."""
    model = tuskml.train(flights.connection, "linear", **TRAIN)
    for sentence, call in LACKING.items():
        with pytest.raises(tuskml.OptionError, match=sentence):
            call(flights.connection, model)


def test_a_group_without_a_model(flights: Any) -> None:
    with pytest.raises(KeyError, match="no group 'AA': the groups are 0, 1, 2"):
        tuskml.train(flights.connection, "linear", **TRAIN, group_by="carrier")["AA"]


CONNECTIONS = {
    "no.duckdb": "connection is 'no.duckdb', a file that does not exist; expected a DuckDB file",
    "mysql://u@h/d": r"connection is the URL mysql://\.\.\.; expected a DuckDB file, .* postgresql://",
    "postgresql+psycopg2://u:secret@h/d": r"connection is the URL postgresql\+psycopg2://\.\.\.; expected",
    3: r"connection is of type builtins\.int, expected a DuckDB connection or file",
}


@pytest.mark.parametrize("given", CONNECTIONS)
def test_connections(given: Any) -> None:
    with pytest.raises(TuskError, match=CONNECTIONS[given]) as raised:
        tuskml.train(given, "linear", **TRAIN)
    assert "secret" not in str(raised.value)


def test_models_in_python(flights: Any) -> None:
    model = tuskml.train(
        flights.connection, "linear", **TRAIN | {"features": ["dep_delay", "distance"]}
    )
    for rows, sentence in (
        (np.zeros((3, 1)), "the model has 2 features, X has 1 columns"),
        (np.zeros(3), "X has 1 dimensions, expected two: rows and features"),
        ("abc", "X is no array of numbers"),
    ):
        with pytest.raises(TuskError, match=sentence):
            model.predict(rows)
    with pytest.raises(TuskError, match="which gives no probabilities"):
        model.predict_proba(np.zeros((3, 2)))
    with pytest.raises(TuskError, match=r"the model is not valid JSON .* Model.to_json wrote"):
        tuskml.Model.from_json("{")
    for given, kind in (("late", "str"), ([3], "int"), (None, "NoneType")):
        with pytest.raises(TypeError, match=f"models is or has a {kind}, expected a model"):
            models_by_name(given)
    assert list(models_by_name({"a": model, "b": None})) == ["a"], (
        "a group without a model has no curve"
    )


IN_SQL = {
    "a label that is text": ("SELECT train_model('linear', word, {d}) FROM flights", r"train_model(: label is text such as '\w+', task 'linear' needs numbers| got \(VARCHAR, VARCHAR, )"),
    "features that are no list": ("SELECT train_model('linear', arr_delay, dep_delay) FROM flights", r"train_model got \(.*the features a row with names.* an? (list|array) of numbers such as (ARRAY)?\[a, b\]"),
    "a list of text": ("SELECT train_model('linear', arr_delay, {w}) FROM flights", r"train_model(: features is text\[\]| got \(VARCHAR, BIGINT, VARCHAR\[\]\)), expected"),
    "text beside numbers": ("SELECT train_model('linear', arr_delay, {m}) FROM flights", r"an array has items of the types \w+ and \w+, expected numbers: a boolean becomes one by b::(int|INT), text becomes"),
    "a feature too many": ("SELECT predict(model, 1, 2) FROM (SELECT train_model('linear', arr_delay, {d}) AS model FROM flights) AS m", r"predict got .*expected \(model, features\)"),
    "a script's table called as a variable": ("SELECT * FROM text", r"(Table with name text|relation .text.) does not exist"),
    "predict with no list": ("SELECT predict(model, 1) FROM (SELECT train_model('linear', arr_delay, {d}) AS model FROM flights) AS m", r"predict got \((tuskml_)?model, [\w ]+\), expected \(model, features\)"),
    "scores of text": ("SELECT auc(word, 1) FROM flights", r"auc: label is text, expected its positive class as the third argument|auc got \(\w+, \w+\), expected \(label, score \[, positive\] \[, weight\]\): the label a boolean"),
    "scores of text without a score": ("SELECT lift(word, 1) FROM flights", r"lift: label is text, expected its positive class as the third argument|lift got \(\w+, \w+\), expected \(label, score \[, positive\] \[, weight\]\): the label a boolean"),
    "an average that is no text": ("SELECT f1_score(word, word, 1.5) FROM flights", r"f1_score got \(.*expected \(label, predicted \[, average \[, positive\] \[, weight\]\]\): both numbers or booleans, or both text"),
    "a wrong column": ("SELECT train_model('linear', arr_dely, {d}) FROM flights", "arr_dely.*(did you mean 'arr_delay'|Perhaps you meant .*arr_delay)"),
    "a missing table": ("SELECT count(*) FROM flihgts", "flihgts.* does not exist"),
    "predictions by a name": ("SELECT predict('late', {d}) FROM flights", r"predict: the database has no registry of models.*(tuskml models create|create_registry)"),
    "options that are no JSON": ("SELECT train_model('linear', arr_delay, {d}, 'l2=1') FROM flights", "options are not valid JSON at character 1: 'l2=1', expected"),
}  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("what", IN_SQL)
def test_in_scripts(flights: Any, what: str, tmp_path: Path, monkeypatch, capsys) -> None:
    """`tuskml sql`, which ends with one sentence and its line."""
    query, sentence = IN_SQL[what]
    array = "[{}]" if flights.kind == "duckdb" else "ARRAY[{}]"
    script = "SELECT 1 AS one;\n" + query.format(
        d=array.format("dep_delay"), w=array.format("word"), m=array.format("dep_delay, word")
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO(script))
    if flights.kind == "duckdb":
        address = str(tmp_path / "flights.duckdb")
        with tuskml.connect(address) as connection:
            connection.execute(ROWS.format(SERIES["duckdb"]))
    else:
        address = flights.address
    assert main(["sql", "-", "--database", address]) == 1
    told = capsys.readouterr().err
    assert told.startswith("tuskml: standard input, line 2: ")
    assert told.count("\n") == 1
    assert re.search(sentence, told), told


FLIGHTS = (
    "train",
    "{}",
    "--task",
    "linear",
    "--source",
    "flights",
    "--label",
    "arr_delay",
    "--features",
    "dep_delay",
)
SHELL = {
    ("trian", "{}"): (2, "did you mean 'train'?"),
    ("train", "{}"): (2, "the following arguments are required: --task"),
    ("train", "{}", "--task", "logistc", "--source", "f", "--label", "y", "--features", "x"): (2, "did you mean 'logistic'?"),
    ("train", "{}", "--task", "linear", "--source", "f", "--label", "y", "--features", "x", "--option", "l2"): (2, "'l2' is not NAME=VALUE"),
    ("help",): (0, ""),
    ("train", "{}", "--task", "regression", "--source", "f", "--label", "y", "--features", "x"): (2, "; regression of a number is 'linear'; see tuskml train -h"),
    (*FLIGHTS, "--by", "carrier"): (2, "unrecognized arguments: --by carrier; did you mean --group-by?"),
    (*FLIGHTS, "--where", "carrier = 1"): (2, "; --source may be a query, 'SELECT ... WHERE ...'; see"),
    (*FLIGHTS, "--target", "y"): (2, "; did you mean --label?"),
    (*FLIGHTS, "--table", "y"): (2, "; did you mean --source?"),
    (*FLIGHTS, "--output", "y"): (2, "; did you mean --into?"),
    (*FLIGHTS, "--features", "*"): (1, "features has '*', which is several columns"),
    (*FLIGHTS, "--into", "x.json"): (1, "into is 'x.json', expected a table's name or a file that ends in .parquet or .csv"),
    (*FLIGHTS, "--source", "days.csv"): (1, "source 'days.csv' does not exist"),
    ("predict", "{}", "--models", "models", "--source", "flights", "--features", "dep_delay", "--replace"): (1, "replace is True without into"),
    ("sql", "SELECT 1"): (1, "FILE is 'SELECT 1', a statement and no script's name: tuskml sql -c 'SELECT ...' runs it"),
    ("sql", "a.sql", "{}"): (2, "unrecognized arguments: flights.duckdb; did you mean --database flights.duckdb?"),
    ("sql", "a.sql", "--db", "{}"): (2, "; did you mean --database?"),
    ("sql", "-c", "SELECT no", "--database", "{}"): (1, "tuskml: command, line 1: "),
    ("train", "no.duckdb", "--task", "linear", "--source", "f", "--label", "y", "--features", "x"): (1, "a file that does not exist"),
    ("predict", "{}", "--models", "flights", "--source", "flights", "--features", "x"): (1, "has no single column of models"),
    ("report", "{}", "--models", "models", "--features", "a,b,c"): (1, "--features has 3 names, but the models have 1 features"),
    ("report", "{}", "--models", "nothing"): (1, "source 'nothing' does not exist"),
    ("models", "list", "{}"): (1, "has no registry of models: tuskml models create"),
    ("models", "register", "{}", "late"): (2, "the following arguments are required: --models"),
    ("store", "verify", "--root", "/no/such/folder"): (1, "--root is /no/such/folder, which does not exist"),
    ("store", "gc", "--older-than", "3x"): (2, "'3x' is not an age such as 90s"),
    ("completion", "tcsh"): (2, "choose from 'bash', 'zsh', 'fish'"),
    ("sql", "no.sql"): (1, "no.sql: No such file or directory"),
}  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("arguments", SHELL, ids=" ".join)
def test_in_the_shell(arguments: tuple[str, ...], tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    with tuskml.connect("flights.duckdb") as connection:
        connection.execute(ROWS.format(SERIES["duckdb"]))
        connection.execute(
            "CREATE TABLE models AS SELECT carrier, train_model('linear', arr_delay, [dep_delay]) AS model FROM flights GROUP BY carrier"
        )
    status, sentence = SHELL[arguments]
    assert main([text.format("flights.duckdb") for text in arguments]) == status
    told = capsys.readouterr().err
    assert sentence in told
    assert told.count("\n") == (1 if status else 0)
    assert "Traceback" not in told


def test_a_root_without_stores_says_so(tmp_path: Path, capsys) -> None:
    root = ["--root", str(tmp_path)]
    for action, told in (("list", ""), ("verify", ""), ("gc", " to remove")):
        assert main(["store", action, *root]) == 0
        assert capsys.readouterr().out == f"nothing in {tmp_path}{told}\n"
    assert main(["store", "list", "--json", *root]) == 0
    assert capsys.readouterr().out == "[]\n"
