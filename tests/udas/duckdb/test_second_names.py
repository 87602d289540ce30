"""Each documented function has a name that no function of others has, which our own SQL uses."""

# ruff: noqa: E501, SQL is read better on one line

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import tuskml
import tuskml.sql
from tuskml import registry

SQL = Path(tuskml.sql.__file__).parent / "duckdb"
ROWS = "SELECT i % 2 AS g, i AS x, 3 * i + i % 3 AS y, i % 5 > 1 AS late FROM range(60) AS t(i)"
OURS = """
SELECT DISTINCT function_name FROM duckdb_functions()
WHERE function_name IN (SELECT substr(function_name, 8) FROM duckdb_functions() WHERE starts_with(function_name, 'tuskml_'))
"""


def named(file: str) -> list[str]:
    return re.findall(r"(?m)^CREATE OR REPLACE TEMP MACRO (\w+)", (SQL / file).read_text())


def test_macros_have_both_names(con: duckdb.DuckDBPyConnection) -> None:
    prefixed = {
        n
        for file in ("macros.sql", "registry_macros.sql")
        for n in named(file)
        if not n.startswith("_")
    }
    assert all(name.startswith("tuskml_") for name in prefixed)
    assert {f"tuskml_{name}" for name in named("names.sql")} == prefixed


def test_the_extensions_functions_have_both_names(con: duckdb.DuckDBPyConnection) -> None:
    """Aggregates, and functions for connections without macros: of the same types."""
    query = "SELECT replace(function_name, 'tuskml_', ''), starts_with(function_name, 'tuskml_'), parameter_types, return_type FROM duckdb_functions() WHERE function_type IN ('aggregate', 'scalar') AND database_name = 'system'"
    found: dict[bool, set[str]] = {False: set(), True: set()}
    for name, own, *types in con.execute(query).fetchall():
        found[own].add(repr((name, types)))
    twice = {name for (name,) in con.execute(OURS).fetchall()}
    assert {
        "train_model",
        "explain_training",
        "auc",
        "rmse",
        "confusion",
        "partition_model",
        "hash_features",
        "sparse",
        "model_summary",
        "predict",
        "model_from",
    } <= twice
    for name in twice:
        assert {f for f in found[True] if f.startswith(f"('{name}',")} == {
            f for f in found[False] if f.startswith(f"('{name}',")
        }, name


def test_both_names_answer_the_same(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("SET threads = 1")  # DuckDB adds in one order
    con.execute(f"CREATE TABLE r AS {ROWS}")
    con.execute(
        """CREATE TABLE m AS SELECT g, tuskml_train_model('logistic', late, [x, sin(x)], '{"fit": true, "intervals": "covariance", "histogram": true}') AS l, tuskml_train_model('gbdt', y, [x], '{"trees": 3, "min_child_rows": 2}') AS b FROM r GROUP BY g"""
    )
    for query in (
        "SELECT x, {0}predict(l, [x, 1]), {0}predict_proba(l, [x, 1]), {0}decision(l, [x, 1]), {0}predict_class(l, [x, 1]), {0}predict_probas(l, [x, 1]) FROM r JOIN m USING (g) ORDER BY x",
        "SELECT g, s.* FROM m, {0}model_summary(l) AS s ORDER BY ALL", "SELECT g, s.* FROM m, {0}model_fit(l) AS s ORDER BY ALL",
        "SELECT {0}predict_interval(l, [2, 3], 0.9) FROM m ORDER BY ALL", "FROM {0}model_covariance((SELECT l FROM m WHERE g = 0))",
        "SELECT g, {0}marginal_effects(l, [x, sin(x)], x, 0.5) FROM r JOIN m USING (g) GROUP BY g ORDER BY g",
        "SELECT g, {0}drift(l, [x, sin(x)], x) FROM r JOIN m USING (g) GROUP BY g ORDER BY g",
        "FROM {0}model_contrast((SELECT l FROM m WHERE g = 0), {{'x1': 1, 'x2': -1}})",
        "FROM {0}tree_dump((SELECT b FROM m WHERE g = 0))", "FROM {0}feature_importance((SELECT b FROM m WHERE g = 1))",
        "FROM {0}explain_prediction((SELECT l FROM m WHERE g = 0), [2, 3])",
        "SELECT g, {0}rmse(y, x), {0}auc(late, x) FILTER (WHERE x > 3), {0}log_loss(late, 0.5), {0}rolling_model(y, [x]).coef FROM r GROUP BY g ORDER BY g",
        "SELECT g, model.coef FROM {0}train('r', 'linear', 'y', ['x'], group_by := ['g']) ORDER BY g",
        "FROM {0}permutation_importance('r', '(SELECT b FROM m WHERE g = 0)', 'y', ['x'])",
        "SELECT {0}sparse([1], [2.0]), {0}hash_features(['a'], 4), {0}with_payload((SELECT b FROM m WHERE g = 1)).payload",
    ):  # fmt: skip
        found = [con.execute(query.format(prefix)).fetchall() for prefix in ("", "tuskml_")]
        assert found[0], query
        assert found[0] == found[1], query


@pytest.fixture
def trapped(tmp_path: Path) -> Iterator[Path]:
    """A file whose own macros have the names of all functions of ours."""
    file = tmp_path / "trapped.db"
    with tuskml.connect() as loaded:
        names = [name for (name,) in loaded.execute(OURS).fetchall()]
    with duckdb.connect(str(file)) as plain:
        plain.execute(f"CREATE TABLE r AS {ROWS}")
        for name in names:
            plain.execute(f"CREATE MACRO \"{name}\"(a) AS error('the trap {name}')")
        plain.execute(
            "CREATE OR REPLACE MACRO predict(a) AS a + 1; CREATE VIEW v AS SELECT predict(1) AS p"
        )
    return file


def test_macros_of_the_database_stay_and_are_named_once(trapped: Path) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with tuskml.connect(trapped) as con:
            assert con.execute("SELECT p FROM v").fetchall() == [(2,)]
    (message,) = (str(one.message) for one in told)
    assert "which stay" in message
    assert {"predict", "tuskml_predict", "rmse", "tuskml_rmse"} <= set(re.findall(r"\w+", message))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:the database has macros of its own")
def test_our_own_sql_does_not_fall_into_them(trapped: Path) -> None:
    with tuskml.connect(trapped, threads=1) as con, tuskml.connect(threads=1) as clean:
        clean.execute(f"CREATE TABLE r AS {ROWS}")
        found = []
        for each in (con, clean):
            models = tuskml.train(
                each,
                "logistic",
                source="r",
                label="late",
                features=["x", "y"],
                group_by="g",
                deterministic=True,
            )
            single = tuskml.train(
                each,
                "gbdt",
                source="r",
                label="y",
                features=["x"],
                trees=2,
                min_child_rows=2,
            )
            registry.create(each)
            registry.register(each, "trees", single)
            rows = each.execute(
                "FROM tuskml_permutation_importance('r', '(SELECT model FROM tuskml.models LIMIT 1)', 'y', ['x'])"
            ).fetchall()
            found.append(
                (
                    [m.coef for m in models.values()],
                    repr(tuskml.evaluate(each, single, source="r", label="y", features=["x"])),
                    rows,
                )
            )
        assert found[0] == found[1]


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_without_a_clash(tmp_path: Path) -> None:
    for path in (":memory:", tmp_path / "plain.db"):
        with tuskml.connect(path) as con:
            tuskml.load(con)
            tuskml.load(con.cursor())


def test_a_macro_in_memory_stays(con: duckdb.DuckDBPyConnection) -> None:
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as plain:
        plain.execute("CREATE MACRO predict(a) AS a + 1; CREATE VIEW v AS SELECT predict(1) AS p")
        with pytest.warns(UserWarning, match="own named predict, which stay"):
            tuskml.load(plain)
        assert plain.execute("SELECT p FROM v").fetchall() == [(2,)]
