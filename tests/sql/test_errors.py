"""Every bad input gives one clear sentence, and the connection stays usable."""

# ruff: noqa: E501, SQL is read better on one line

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import duckdb
import pytest

import tuskml
from tuskml import connection
from tuskml.udas.options import TABLE, Option
from tuskml.version import VERSION

INVALID: dict[str, tuple[object, str]] = {
    "algorithm": ("newtn", "'auto', 'bgd', 'mgd', 'sgd', 'hogwild', 'hogbatch', 'lbfgs', 'newton', 'newton_cg', 'svrg' or 'dcd'; "
                           "did you mean 'newton'?"),
    "max_iter": (0, "a whole number from 1 to 2147483647"),
    "epsilon": (-1, "a number of at least 0"),
    "time": ("soon", "a duration such as '90s', '15m' or '1h30m'"),
    "converge": ("wieghts", "'gradient', 'weights' or 'loss'; did you mean 'weights'?"),
    "step": (0, "a number greater than 0 or 'auto'"),
    "schedule": ("1/sqrt", "'constant', '1/sqrt(i)', '1/i', '1/i^2', 'linear' or 'line_search'; did you mean '1/sqrt(i)'?"),
    "batch_size": (2.5, "a whole number from 1 to 1048576"),
    "sampler": ("shuffled", "'shuffled-partition' or 'sequential'; did you mean 'shuffled-partition'?"),
    "transform": ("eager", "'lazy'"),
    "l1": ("0.1", "a number of at least 0"),
    "l2": (True, "a number of at least 0"),
    "fit_intercept": (1, "true or false"),
    "class_weight": (
        [1, -1],
        "'balanced', [weight of lower class, weight of higher class] or {class: weight} of both classes",
    ),
    "threads": (0, "a whole number from 1 to 1024"),
    "seed": (-1, "a whole number from 0 to 9007199254740992"),
    "deterministic": ("yes", "true or false"),
    "validation": (1, "a number from 0 up to, but not, 1"),
    "warm_start": ({"coef": []}, "a model as JSON, an object with coef and intercept"),
    "store": ("../ads", "a name of at most 63 letters, digits and _ . -, the first no . or -"),
    "cache": ("lots", "a size from '16MB' on, such as '256MB' or '1GB'"),
    "partition": (-1, "a whole number from 0 to 1048576"),
    "resume": (1, "true or false"),
    "rank": (0, "a whole number from 1 to 4096"),
    "biases": ("no", "true or false"),
    "device": ("cpus", "'auto', 'gpu' or 'cpu'; did you mean 'cpu'?"),
    "explain": (1, "true or false"),
    "format": ("jsn", "'text' or 'json'; did you mean 'json'?"),
}  # fmt: skip
"""A value that each option refuses, and what the sentence says is allowed."""

CANDIDATES: tuple[object, ...] = (
    "no such value", -1, 0, 0.5, 2**70, True, None, [], [1, 2], {}, {"a": 1}, "", "1",
)  # fmt: skip

NAMES = ", ".join(TABLE)
TABLE_SQL = """
CREATE TABLE t AS SELECT * FROM (VALUES
    (1.0::DOUBLE, [1.0, 2.0]::DOUBLE[], [0, 1], [1.0, 2.0]::DOUBLE[]), (2.0, [2.0, 1.0], [1, 0], [3.0, 1.0]),
    (2.0, [4.0, 4.5], [0, 2], [2.0, 1.0])) v(y, x, ids, amounts)
"""
MODEL = "(SELECT train_model('linear', y, x) FROM t)"
LOGISTIC = "(SELECT train_model('logistic', y, x, '{\"l2\": 1}') FROM t)"


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(threads=2) as con:
        con.execute(TABLE_SQL)
        yield con


def sentence(db: duckdb.DuckDBPyConnection, sql: str, parameters: tuple = ()) -> str:
    """What a person is told; afterwards the same connection still trains."""
    with pytest.raises(duckdb.Error) as caught:
        db.execute(sql, parameters).fetchall()
    works = db.execute("SELECT train_model('linear', y, x).status IS NOT NULL FROM t").fetchall()
    assert works == [(True,)]
    return str(caught.value).removeprefix("Invalid Input Error: ")


def train(options: str = "", task: str = "'linear'", label: str = "y", features: str = "x") -> str:
    return f"SELECT train_model({task}, {label}, {features}{options and f', {options!s}'}) FROM t"


CASES = {
    "unknown task": (
        train(task="'linaer'"),
        "train_model: task is 'linaer', expected 'linear', 'logistic', 'svm' or 'matrix_factorization'; did you mean 'linear'?",
    ),
    "task like none": (
        train(task="'forest'"),
        "train_model: task is 'forest', expected 'linear', 'logistic', 'svm' or 'matrix_factorization'",
    ),
    "task in capitals": (
        train(task="'SVM'"),
        "train_model: task is 'SVM', expected 'linear', 'logistic', 'svm' or 'matrix_factorization'; did you mean 'svm'?",
    ),
    "empty task": (
        train(task="''"),
        "train_model: task is '', expected 'linear', 'logistic', 'svm' or 'matrix_factorization'",
    ),
    "NULL task": (
        train(task="NULL"),
        "train_model: task is NULL, expected one of 'linear', 'logistic', 'svm', 'matrix_factorization'",
    ),
    "unknown task to explain": (
        "SELECT explain_training('svn', y, x) FROM t",
        "explain_training: task is 'svn', expected 'linear', 'logistic', 'svm' or 'matrix_factorization'; did you mean 'svm'?",
    ),
    "mistyped option": (
        train("'{\"epsilom\": 1}'"),
        f"train_model: unknown option 'epsilom', expected one of {NAMES}; did you mean 'epsilon'?",
    ),
    "option like none": (
        train("'{\"colour\": 1}'"),
        f"train_model: unknown option 'colour', expected one of {NAMES}",
    ),
    "option in another script": (
        train("'{\"日本é\": 1}'"),
        f"train_model: unknown option '日本é', expected one of {NAMES}",
    ),
    "unknown option to explain": (
        "SELECT explain_training('svm', y, x, '{\"step_\": 1}') FROM t",
        f"explain_training: unknown option 'step_', expected one of {NAMES}; did you mean 'step'?",
    ),
    "no JSON": (
        train("'l2=0.1'"),
        "train_model: options are not valid JSON at character 1: 'l2=0.1', "
        "expected an object such as '{\"l2\": 0.01}'",
    ),
    "unfinished JSON": (
        train("'{\"l2\": 0.1'"),
        "train_model: options are not valid JSON at character 11: '{\"l2\": 0.1', "
        "expected an object such as '{\"l2\": 0.01}'",
    ),
    "JSON that is no object": (
        train("'[1]'"),
        "train_model: options are '[1]', expected a JSON object such as '{\"l2\": 0.01}'",
    ),
    "an option twice": (
        train('\'{"l2": 1, "l1": 1, "l2": 2}\''),
        "train_model: options name 'l2' twice, expected each option once",
    ),
    "NaN option": (
        train("'{\"l2\": NaN}'"),
        "train_model: option 'l2' is NaN, expected a number of at least 0",
    ),
    "no l2 for dcd": (
        train('\'{"algorithm": "dcd"}\'', task="'svm'"),
        "train_model: option 'l2' is 0, algorithm 'dcd' needs a number greater than 0: "
        "without the penalty there is no dual",
    ),
    "dcd of another loss": (
        train('\'{"algorithm": "dcd", "l2": 0.1}\''),
        "train_model: algorithm 'dcd' is not available with task 'linear', its dual is that of "
        "the hinge, expected 'auto', 'newton', 'lbfgs', 'bgd' or 'mgd'",
    ),
    "newton_cg of the hinge": (
        train('\'{"algorithm": "newton_cg"}\'', task="'svm'"),
        "train_model: algorithm 'newton_cg' is not available with task 'svm', the hinge has no "
        "curvature, expected 'auto', 'newton', 'lbfgs', 'bgd' or 'mgd'",
    ),
    "weights of classes for numbers": (
        train('\'{"class_weight": "balanced"}\''),
        "train_model: option 'class_weight' is not available with task 'linear', which has no classes",
    ),
    "l1 for newton": (
        train('\'{"l1": 1, "algorithm": "newton"}\''),
        "train_model: option 'l1' is not available with algorithm 'newton': l1 > 0 "
        "leaves no curvature for newton, expected 'lbfgs', 'bgd', 'svrg', 'mgd', 'sgd' or 'auto'",
    ),
    "line search for lbfgs": (
        train('\'{"schedule": "line_search", "algorithm": "lbfgs"}\''),
        "train_model: schedule 'line_search' is not available with algorithm 'lbfgs', expected 'bgd'",
    ),
    "warm start of another width": (
        train('\'{"warm_start": {"coef": [1, 2, 3]}}\''),
        "train_model: warm_start has 3 coefficients, expected 2 as the features",
    ),
    "options that change within a group": (
        train("CASE WHEN y > 1 THEN '{\"l2\": 1}' ELSE '{}' END"),
        "train_model: task and options must be the same in all rows of a group",
    ),
    "task that changes within a group": (
        train(task="CASE WHEN y > 1 THEN 'svm' ELSE 'linear' END"),
        "train_model: task and options must be the same in all rows of a group",
    ),
    "ragged rows": (
        train(features="CASE WHEN y > 1 THEN x[:1] ELSE x END"),
        "train_model: row 2 of the group has 1 features, expected 2 as in the rows before it",
    ),
    "no features": (
        train(features="x[:0]"),
        "train_model: row 1 of the group has no features, expected an array of at least one number",
    ),
    "NaN feature": (
        train(features="CASE WHEN x[1] > 1 THEN [x[1], 'nan'] ELSE x END"),
        "train_model: feature 2 is NaN in row 2 of the group, expected a finite number (NULL skips a row)",
    ),
    "infinite feature": (
        train(features="CASE WHEN x[1] > 2 THEN ['inf', x[2]] ELSE x END"),
        "train_model: feature 1 is infinity in row 3 of the group, expected a finite number (NULL skips a row)",
    ),
    "infinite FLOAT feature": (
        train(features="['-inf'::FLOAT, 1::FLOAT]"),
        "train_model: feature 1 is -infinity in row 1 of the group, expected a finite number (NULL skips a row)",
    ),
    "NaN label": (
        train(label="CASE WHEN y > 1 THEN 'nan' ELSE y END"),
        "train_model: label is NaN in row 2 of the group, expected a finite number (NULL skips a row)",
    ),
    "infinite label": (
        train(label="'-inf'::DOUBLE"),
        "train_model: label is -infinity in row 1 of the group, expected a finite number (NULL skips a row)",
    ),
    "NaN after a skipped row": (
        train(
            features="CASE WHEN x[1] = 1 THEN NULL WHEN x[1] > 2 THEN ['nan'::DOUBLE, 1] ELSE x END"
        ),
        "train_model: feature 1 is NaN in row 3 of the group, expected a finite number (NULL skips a row)",
    ),
    "three classes": (
        train(task="'logistic'", label="x[1]"),
        "train_model: label is 4 in row 3 of a group whose labels were 1 and 2, 'logistic' needs two classes",
    ),
    "three classes, svm": (
        train(task="'svm'", label="x[1]"),
        "train_model: label is 4 in row 3 of a group whose labels were 1 and 2, 'svm' needs two classes",
    ),
    "negative id": (
        train(features="sparse([0, -7], amounts)"),
        "train_model: indices[2] is -7 in row 1 of the group, expected a feature id from 0 to 2147483646",
    ),
    "id too large": (
        train(features="sparse([2147483647, 1], amounts)"),
        "train_model: indices[1] is 2147483647 in row 1 of the group, expected a feature id from 0 to 2147483646",
    ),
    "ids without values": (
        train(features="sparse(ids, amounts[:1])"),
        "train_model: sparse() got 2 indices and 1 values in row 1 of the group, expected as many",
    ),
    "sparse NaN": (
        train(features="sparse([4, 9], ['nan'::DOUBLE, 1])"),
        "train_model: feature 4 is NaN in row 1 of the group, expected a finite number (NULL skips a row)",
    ),
    "fewer features to predict": (
        f"SELECT predict({MODEL}, [1.0])",
        "predict: the model has 2 features, row has 1",
    ),
    "more features to predict": (
        f"SELECT decision({MODEL}, [1.0, 2.0, 3.0])",
        "decision: the model has 2 features, row has 3",
    ),
    "probability of a number": (
        f"SELECT predict_proba({MODEL}, [1.0, 2.0])",
        "predict_proba: model is 'linear', only 'logistic' models give probabilities; use decision()",
    ),
    "negative id to predict": (
        f"SELECT predict({MODEL}, sparse([-1], [2.0]::DOUBLE[]))",
        "predict: feature id -1 is negative, ids start at 0",
    ),
    "id too large to predict": (
        f"SELECT predict({MODEL}, sparse([2147483647], [2.0]::DOUBLE[]))",
        "predict: feature id 2147483647 is too large, ids end at 2147483646",
    ),
    "id that is not whole": (
        "SELECT sparse([2, 1.5], [1.0, 1.0])",
        "sparse: indices[2] is 1.5, expected a whole feature id from 0 to 2147483646",
    ),
    "id that is no number": (
        "SELECT sparse(['nan'::FLOAT], [1.0])",
        "sparse: indices[1] is NaN, expected a whole feature id from 0 to 2147483646",
    ),
    "id beyond 32 bits": (
        "SELECT sparse([4000000000], [1.0])",
        "sparse: indices[1] is 4000000000, expected a whole feature id from 0 to 2147483646",
    ),
    "id as text": (
        "SELECT sparse(['7'], [1.0])",
        "sparse: indices is text[], expected an array of whole numbers",
    ),
    "names without values": (
        "SELECT hash_features(['a', 'b'], [1.0], 8)",
        "hash_features: there are 2 names and 1 values, expected as many",
    ),
    "model of another version": (
        "SELECT predict({'task': 'linear', 'coef': [1.0], 'intercept': 0.0, 'classes': NULL, "
        "'options': '{\"tuskml\":9}'}, [1.0])",
        f"predict: the model has format version 9, this tuskml {VERSION} reads version 1",
    ),
    "something else than a model": (
        "SELECT predict({'task': 'linear', 'coef': [1.0], 'intercept': 0.0, 'classes': NULL, "
        "'options': '{}'}, [1.0])",
        "predict: the options of the model begin with '{}', expected '{\"tuskml\":1'",
    ),
    "too many bits": (
        "SELECT hash_features(['a'], 31)",
        "hash_features: bits is 31, expected 1 to 30",
    ),
    "label of log_loss": (
        "SELECT log_loss(y, 0.5) FROM t",
        "log_loss: label is 2, expected a boolean, 0 or 1, or -1 or +1",
    ),
    "three classes of auc": (
        "SELECT auc(x[1], y) FROM t",
        "auc: label takes a third value 4 after 1 and 2, expected two",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(db: duckdb.DuckDBPyConnection, name: str) -> None:
    sql, expected = CASES[name]
    assert sentence(db, sql) == expected


def is_refused(option: Option, value: object) -> bool:
    try:
        option.kind.parse(value)
    except (ValueError, OverflowError):
        return True
    return False


@pytest.mark.parametrize("name", TABLE)
def test_every_option_refuses_a_bad_value(db: duckdb.DuckDBPyConnection, name: str) -> None:
    given, allowed = INVALID[name]
    expected = f"train_model: option '{name}' is {json.dumps(given)}, expected {allowed}"
    assert sentence(db, train(f"'{json.dumps({name: given})}'")) == expected


@pytest.mark.parametrize("name", TABLE)
def test_every_option_says_what_is_allowed(db: duckdb.DuckDBPyConnection, name: str) -> None:
    """Whatever the wrong value, the sentence names the key, what was given and what is allowed."""
    option = TABLE[name]
    refused = [value for value in CANDIDATES if is_refused(option, value)]
    assert len(refused) > 5
    for value in refused:
        found = sentence(db, train("?"), (json.dumps({name: value}),))
        shown = json.dumps(value)
        assert found.startswith(
            f"train_model: option '{name}' is {shown}, expected {option.kind.allowed}"
        )
        assert "\n" not in found


@pytest.mark.parametrize("name", TABLE)
def test_nearest_option(db: duckdb.DuckDBPyConnection, name: str) -> None:
    mistyped = name + "s" if len(name) < 5 else name[:2] + name[3:]
    found = sentence(db, train(f"'{{\"{mistyped}\": 1}}'"))
    assert found.startswith(f"train_model: unknown option '{mistyped}', expected one of ")
    assert "; did you mean '" in found


def test_long_options_give_a_short_sentence(db: duckdb.DuckDBPyConnection) -> None:
    long = sentence(db, train("?"), (json.dumps({"algorithm": "x" * 5000}),))
    assert len(long) < 400
    assert long.endswith("'svrg' or 'dcd'")
    name = sentence(db, train("?"), (json.dumps({"日" * 5000: 1}),))
    assert len(name) < 800
    assert f"expected one of {NAMES}" in name
    much = sentence(db, train("?"), (" " * 70000 + "{}",))
    assert much == "train_model: options have 70002 characters, at most 65536 are allowed"
    deep = sentence(db, train("?"), ("[" * 50000,))
    assert deep.startswith("train_model: options are not valid JSON")


def test_null_options_are_no_options(db: duckdb.DuckDBPyConnection) -> None:
    assert db.execute(train("NULL")).fetchall()[0][0]["n_rows"] == 3


def test_the_group_with_the_error_is_counted_alone(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE g AS SELECT i % 10 AS g, i // 10 AS i FROM range(1000) r(i)")
    sql = "SELECT g, train_model('linear', i, [i, CASE WHEN g = 3 AND i = 42 THEN 'nan'::DOUBLE ELSE 1 END]) FROM g GROUP BY g"
    con.execute("SET threads = 1")
    with pytest.raises(duckdb.Error, match="feature 2 is NaN in row 43 of the group"):
        con.execute(sql).fetchall()


@pytest.mark.parametrize("expression", [
    "train_model('linear', y, x, 5)", "train_model('linear', y)", "train_model('linear', y, 'wt')",
    "train_model('linear', 'y', x)", "train_model('linear', y, [[1.0]])", "predict(y, x)",
    "train_model('linear', y, {'a': 1})",
])  # fmt: skip
def test_wrong_types_are_refused(db: duckdb.DuckDBPyConnection, expression: str) -> None:
    """tests/udas/duckdb/test_any_type.py has the sentences."""
    found = sentence(db, f"SELECT {expression} FROM t")
    assert found.startswith(("train_model got (", "Conversion Error"))


@pytest.mark.parametrize("kind", ["TINYINT", "UINTEGER", "BIGINT", "UBIGINT", "HUGEINT", "FLOAT", "DOUBLE",
                                  "DECIMAL(9, 2)"])  # fmt: skip
@pytest.mark.parametrize("form", ["[7, NULL, 0]::{}[]", "[7, NULL, 0]::{}[3]"])
def test_whole_ids_of_any_type(db: duckdb.DuckDBPyConnection, kind: str, form: str) -> None:
    found = db.execute(f"SELECT sparse({form.format(kind)}, [1.0, 2.0, 3.0]) AS s FROM range(3)")
    assert [row[0]["indices"] for row in found.fetchall()] == [[7, None, 0]] * 3
    rows = db.execute(
        f"SELECT sparse(CASE WHEN i % 3 > 0 THEN list_transform(range(i % 7), lambda j: i + j)::{kind}[] END, "
        "[1]) FROM range(100) t(i)"
    ).fetchall()
    for i, (row,) in enumerate(rows):
        assert row["indices"] == (list(range(i, i + i % 7)) if i % 3 else None)


LITERALS = ["sparse([0, 1], [1.0, 2.0])", "sparse([0, 1], [1, 2])", "sparse(ids, [1.0, 2.0])"]


@pytest.mark.parametrize("features", LITERALS)
def test_sparse_literals_are_cast_as_dense_ones_are(
    db: duckdb.DuckDBPyConnection, features: str
) -> None:
    assert db.execute(train(features=features)).fetchall()[0][0]["n_rows"] == 3
    assert db.execute(f"SELECT predict({MODEL}, {features}) IS NOT NULL FROM t").fetchall()[0] == (
        True,
    )


# --- the extension and the package ---


def test_signed_extensions_only() -> None:
    with duckdb.connect() as plain, pytest.raises(tuskml.ExtensionError) as caught:
        tuskml.load(plain)
    assert str(caught.value) == (
        "the connection allows signed extensions only, and tuskml's is not signed: open it with "
        "tuskml.connect(...) or duckdb.connect(path, config={'allow_unsigned_extensions': 'true'})"
    )


def test_versions_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "VERSION", "9.9.9")
    with pytest.raises(tuskml.ExtensionError) as caught:
        tuskml.connect()
    assert str(caught.value) == (
        f"the extension is version {VERSION} and the package is version 9.9.9, "
        "expected the same: reinstall tuskml"
    )


def test_extension_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(tuskml.udas.duckdb, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(tuskml.ExtensionError) as caught:
        tuskml.connect()
    missing = tmp_path / "tuskml.duckdb_extension"
    assert (
        str(caught.value) == f"the DuckDB extension is not built: no {missing}, reinstall tuskml"
    )


WITHOUT_TRAINER = """
import duckdb, sys
con = duckdb.connect(config={"allow_unsigned_extensions": "true"})
con.execute(f"LOAD '{sys.argv[1]}'")
try:
    con.execute("SELECT train_model('linear', 1, [1.0])").fetchall()
except duckdb.Error as error:
    print(error)
print(con.execute("SELECT accuracy(1, 1)").fetchall())
"""


def test_trainer_is_missing(tmp_path) -> None:
    """LOAD alone, in a process without the package, gives the functions that need no Python."""
    copy = tmp_path / "tuskml.duckdb_extension"
    shutil.copy(connection.extension_path(), copy)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TRAINER, copy], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "Invalid Input Error: train_model: the extension was loaded without its Python package, which trains: run the "
        "statement by `tuskml sql`, or in Python open the database with tuskml.connect() or call tuskml.load(connection)",
        "[(1.0,)]",
    ]


def test_a_failing_trainer_is_an_error(
    con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("tuskml.groups.door.train", broken)
    with pytest.raises(duckdb.Error, match="internal error, ZeroDivisionError: oops"):
        con.execute("SELECT train_model('linear', 1, [1.0])").fetchall()
    monkeypatch.undo()
    assert con.execute("SELECT train_model('linear', 1, [1.0]).n_rows").fetchall() == [(1,)]


def test_library_answers_its_version() -> None:
    library = ctypes.CDLL(os.fspath(connection.extension_path()))
    library.tusk_version.restype = ctypes.c_char_p
    assert library.tusk_version().decode() == VERSION
