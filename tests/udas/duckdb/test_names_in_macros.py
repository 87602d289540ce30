"""No name of a caller's means something inside a macro: columns and tables may be called as
anything that a macro's text has.

DuckDB puts the text of an argument where the macro's parameter is, so that a column `m` would be
the macro's own `m`, if there were one.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path

import duckdb
import pytest

import tuskml
from tuskml import registry

SQL = Path(__file__).parents[3] / "sql" / "duckdb"
MACRO = re.compile(r"CREATE OR REPLACE TEMP MACRO\s+(\w+)(.*?);\n(?=\n|--|CREATE|$)", re.DOTALL)
OF_SEARCH = '{"l2": [0.1, 1], "folds": 2, "seed": 1}'
MODELS = f"""
CREATE TABLE given AS
SELECT i % 3 AS class, i % 5 AS x, (i * 7) % 11 AS z, i * i % 13 + i AS y, 'late' AS called
FROM range(60) t(i);
CREATE TABLE kept AS SELECT
    train_model('linear', y, {{'x': x, 'z': z}}, '{{"fit": true}}') AS fitted,
    train_model('linear', y, {{'x': x, 'z': z}}, '{OF_SEARCH}') AS searched,
    train_model('lasso', y, {{'x': x, 'z': z}}) AS path,
    train_model('logistic', class, [x, z]) AS classes,
    train_model('logistic', x > 2, [x, z]) AS two,
    train_model('linear', y, [x, z], '{{"intervals": "covariance", "histogram": true}}') AS errors,
    train_model('gbdt', y, [x, z], '{{"trees": 2}}') AS trees,
    train_model('matrix_factorization', y, [x, z], '{{"rank": 2, "max_iter": 2}}') AS factors,
    train_model('lda', NULL, [x::VARCHAR, z::VARCHAR, 'w'], '{{"topics": 2}}') AS topics
FROM given;
"""
CALLS = {
    "sparse": ("sparse([1], {0})", "[2.0]"),
    "with_payload": ("with_payload({0})", "fitted"),
    "predict": ("predict({0}, {1})", "two", "[1, 2]"),
    "predict_class": ("predict_class({0}, {1})", "classes", "[1, 2]"),
    "predict_proba": ("predict_proba({0}, {1}, {2})", "classes", "[1, 2]", "'1'"),
    "predict_probas": ("predict_probas({0}, {1})", "classes", "[1, 2]"),
    "decision": ("decision({0}, {1})", "two", "[1, 2]"),
    "predict_with_offset": ("predict_with_offset({0}, {1}, {2})", "two", "[1, 2]", "0.5"),
    "predict_proba_with_offset": (
        "predict_proba_with_offset({0}, {1}, {2})",
        "two",
        "[1, 2]",
        "0.5",
    ),
    "predict_class_with_offset": (
        "predict_class_with_offset({0}, {1}, {2})",
        "two",
        "[1, 2]",
        "0.5",
    ),
    "predict_topics": ("predict_topics({0}, {1})", "topics", "['1', 'w']"),
    "perplexity": ("perplexity({0}, {1})", "topics", "['1', 'w', '2']"),
    "coherence": ("coherence({0}, {1}, 'u_mass', 2)", "topics", "['1', 'w', '2']"),
    "model_topics": ("FROM model_topics({0})", "topics"),
    "deployed_model": ("deployed_model({0}).coef", "'late'"),
    "register_model": ("FROM register_model({0}, 'SELECT two AS model FROM kept')", "'late'"),
    "deploy": ("FROM (SELECT * EXCLUDE (deployed_at) FROM deploy({0}, {1}))", "'late'", "1"),
    "rollback": ("FROM rollback({0})", "'late'"),
    "model_fingerprint": ("model_fingerprint({0})", "fitted"),
    "model_to_sql": ("model_to_sql({0})", "fitted"),
    "model_card": ("FROM model_card({0})", "fitted"),
    "model_summary": ("FROM model_summary({0})", "fitted"),
    "recommend": ("FROM recommend({0}, {1})", "factors", "1"),
    "recommend_by_items": ("FROM recommend_by_items({0}, {1}, {2})", "factors", "[1]", "[2.0]"),
    "similar_items": ("FROM similar_items({0}, {1})", "factors", "1"),
    "model_fit": ("FROM model_fit({0})", "fitted"),
    "model_terms": ("FROM model_terms({0})", "fitted"),
    "model_trials": ("FROM (SELECT * EXCLUDE (seconds) FROM model_trials({0}))", "searched"),
    "model_path": ("FROM model_path({0})", "path"),
    "tree_dump": ("FROM tree_dump({0})", "trees"),
    "feature_importance": ("FROM feature_importance({0})", "trees"),
    "predict_interval": ("predict_interval({0}, {1}, {2})", "errors", "[1, 2]", "0.9"),
    "marginal_effects": (
        "marginal_effects({0}, {1}, {2}, {3})",
        "errors",
        "[1, 2]",
        "1.5",
        "0.5",
    ),
    "drift": ("drift({0}, {1}, {2})", "errors", "[1, 2]", "2.0"),
    "model_covariance": ("FROM model_covariance({0})", "errors"),
    "model_contrast": ("FROM model_contrast({0}, {1})", "errors", "{'x1': 1, 'x2': -1}"),
    "explain_prediction": ("FROM explain_prediction({0}, {1})", "two", "[1, 2]"),
}
"""A call of each macro, and what its arguments are in the table `kept`."""
BY_NAME = {
    "predict by name": ("predict({0}, [1, 2])", "'late'"),
    "predict by group": ("predict({0}, {1}, [1, 2])", "'late'", "''"),
    "predict_proba by name": ("predict_proba({0}, [1, 2])", "'late'"),
    "decision by group": ("decision({0}, {1}, [1, 2])", "'late'", "''"),
}
OF_TEXT = {"train", "permutation_importance", "partial_dependence", "partitionings"}
"""Macros whose arguments are SQL as text, or that have none."""


def macros() -> Iterator[tuple[str, str]]:
    """Name and text of each macro."""
    for file in ("macros.sql", "registry_macros.sql"):
        text = re.sub(r"(?m)^--.*$", "", (SQL / file).read_text())
        for found in MACRO.finditer(text):
            yield found[1].removeprefix("tuskml_"), found[2]


TEXTS = {}
for _name, _text in macros():
    TEXTS[_name] = TEXTS.get(_name, "") + _text
IN_RESULTS = (
    "in_group",
    "importance",
    "prediction",
    "loss",
    "number",
    "value",
    "std_dev",
    "n_rows",
    "model",
    "seconds",
)
"""Columns of the results of macros whose arguments are text."""


def all_of(macro: str) -> set[str]:
    """The macro and all that it calls."""
    found, new = set(), {macro}
    while new:
        found |= new
        called = (set(re.findall(r"\w+(?=\()", TEXTS[one])) & set(TEXTS) for one in new)
        new = set().union(*called) - found
    return found


def words(macro: str) -> list[str]:
    """All in lower case that its text and those that it calls have, but for called functions."""
    texts = " ".join(TEXTS[one] for one in all_of(macro))
    return sorted(set(re.findall(r"(?<![$\w'\"])[a-z]\w*(?![\w('\":])", texts)))


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """One with a registry and with models."""
    with tuskml.connect() as con:
        con.execute(MODELS)
        registry.create(con)
        for version in (1, 2):
            write = "INSERT OR REPLACE INTO tuskml.models BY NAME "
            con.execute(f"{write} FROM register_model('late', 'SELECT two AS model FROM kept')")
            con.execute(f"{write} FROM deploy('late', {version})")
        yield con


def answer(con: duckdb.DuckDBPyConnection, call: str, columns: dict[str, str]) -> str:
    """What a call says of columns, whose names are given with their values."""
    named = ", ".join(f'{value} AS "{name}"' for name, value in columns.items())
    asked = call.format(*(f'"{name}"' for name in columns))
    source = f"(SELECT {named} FROM kept) AS own"
    if call.startswith("FROM"):
        return repr(
            con.execute(f"SELECT told.* FROM {source}, LATERAL ({asked}) AS told").fetchall()
        )
    return repr(con.execute(f"SELECT {asked} FROM {source}").fetchall())


def test_every_macro_is_called() -> None:
    """A new macro needs a call here."""
    public = {name for name in TEXTS if not name.startswith("_tusk_")}
    assert public - OF_TEXT == set(CALLS)


def refused(con: duckdb.DuckDBPyConnection, macro: str, some: Iterable[str]) -> dict[str, str]:
    """What calls say whose columns are called by some words, where that is something else."""
    call, *arguments = (CALLS | BY_NAME)[macro]
    neutral = {f"zz{k}": value for k, value in enumerate(arguments)}
    expected = answer(con, call, neutral)
    wrong = {}
    for k, word in product(range(len(arguments)), some):
        columns = {word if name == f"zz{k}" else name: one for name, one in neutral.items()}
        try:
            found = answer(con, call, columns)
        except duckdb.Error as error:
            found = str(error)[:200]
        if found != expected:
            wrong[word] = found
    return wrong


@pytest.mark.parametrize("macro", sorted(CALLS | BY_NAME))
def test_columns_are_the_callers(connection: duckdb.DuckDBPyConnection, macro: str) -> None:
    """A column that is called as something in a macro is still the caller's."""
    words = ["m", "t", "given", "name", "stage", "model"]
    if macro == "model_card":  # each call of which takes most of a second
        words = ["m", "model"]
    assert refused(connection, macro, words) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("macro", sorted(CALLS | BY_NAME))
def test_columns_are_called_as_words_inside(
    connection: duckdb.DuckDBPyConnection, macro: str
) -> None:
    """The same with all words that a macro has."""
    assert refused(connection, macro, words(macro.partition(" ")[0])) == {}


def test_names_inside_are_no_callers(connection: duckdb.DuckDBPyConnection) -> None:
    """All that macros name begins with `_tusk_`, but for the columns of what they return."""
    returned = set(IN_RESULTS)
    for call, *arguments in CALLS.values():
        if call.startswith("FROM"):
            given = ", ".join(f"{one} AS zz{k}" for k, one in enumerate(arguments))
            asked = call.format(*(f"zz{k}" for k in range(len(arguments))))
            told = f"SELECT told.* FROM (SELECT {given} FROM kept), LATERAL ({asked}) AS told"
            returned |= {name for name, *_ in connection.execute(told).description or []}
    named = set()
    for text in TEXTS.values():
        named |= set(re.findall(r"\bAS \"?([a-z_]\w*)(?![\w(])", text))
        named |= set(re.findall(r"\b([a-z_]\w*) AS (?:MATERIALIZED )?\((?:SELECT|\n)", text))
        for names in re.findall(r"\blambda ([^:]*):", text):
            named |= set(names.split(", "))
    assert "_tusk_given" in named
    assert {name for name in named if not name.startswith("_tusk_")} <= returned


@pytest.mark.parametrize("word", ["g", "y", "c1", "given", "rows"])
def test_texts_name_the_callers_columns(connection: duckdb.DuckDBPyConnection, word: str) -> None:
    """Macros whose arguments are SQL as text take the columns and the table that it names."""
    own = f'"{word}_" AS SELECT class, x AS "{word}", z AS zz FROM given'
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {own}")
    answers = []
    for name, table in ((word, f"{word}_"), ("x", "(SELECT class, x, z AS zz FROM given)")):
        source = f"'SELECT *, (SELECT two FROM kept) AS model FROM {table}', 'model'"
        for macro, told in (
            ("permutation_importance", f"'{name} > 2', ['{name}', 'zz'], repeats := 2"),
            ("partial_dependence", f"['{name}', 'zz'], 'zz'"),
        ):
            rows = connection.execute(f"FROM {macro}({source}, {told})").fetchall()
            found = [one for row in rows for one in row if isinstance(one, float)]
            answers.append([round(one, 9) for one in found])
    assert answers[:2] == answers[2:]
