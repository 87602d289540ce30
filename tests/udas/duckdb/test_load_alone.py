"""LOAD in a client without the Python package: all functions but training, in any database."""

# ruff: noqa: E501, SQL is read better on one line

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy.special import stdtr

import tuskml
from tuskml.udas.duckdb import extension_path

ROWS = "CREATE TABLE points AS SELECT i % 3 AS g, i % 7 AS x, (i * i % 11)::DOUBLE AS z, i % 7 + (i * 7919 % 13) / 4 AS y, i % 2 = 0 AS b FROM range(300) t(i)"
MODELS = "CREATE TABLE models AS SELECT g, train_model('linear', y, [x, z]) AS m, train_model('logistic', b, [x, z], '{\"l2\": 0.1}') AS late, train_model('linear', y, sparse([0, 2], [x, z])) AS thin FROM points GROUP BY g"

QUERIES = (
    "SELECT predict(m, [x, z]), decision(late, [x, z]), predict_proba(late, [x, z]), predict(late, [x, z]) FROM points JOIN models USING (g) ORDER BY ALL",
    "SELECT predict(m, [x::FLOAT, z::FLOAT]), predict(m, [x, z]::DECIMAL(9, 2)[2]), octet_length(model_payload(m)) = octet_length(m.payload) FROM points JOIN models USING (g) ORDER BY ALL",
    "SELECT predict(thin, sparse([2, 0], [z, x])), predict(thin, sparse([0]::BIGINT[], [x::FLOAT])) FROM points JOIN models USING (g) ORDER BY ALL",
    "SELECT predict(m, NULL::DOUBLE[]), predict(m, [NULL, 1]), predict(NULL, [1, 2]), model_payload(CASE WHEN g < 0 THEN m END) IS NULL FROM models",
    "SELECT sparse([1, 2], [1.5, 2.5]::DOUBLE[]), sparse([]::INTEGER[], []::DOUBLE[]), sparse([1], [0.5::FLOAT]), sparse(NULL::INTEGER[], [1.0::DOUBLE])",
    "SELECT g, unnest(model_summary(m), recursive := true) FROM models ORDER BY ALL",
    "SELECT g, unnest(model_summary(late), recursive := true) FROM models ORDER BY ALL",
    "SELECT model_summary(NULL), hash_features(['a'], 4), accuracy(1, 1)",
    "SELECT g, rolling_model(y, [x, z]).coef FROM points GROUP BY g ORDER BY g",
    "SELECT rmse(y, predict(m, [x, z])), auc(b, predict_proba(late, [x, z])) FROM points JOIN models USING (g)",
)
ALONE = """
import duckdb, json, sys
extension, place, file, *queries = sys.argv[1:]
con = duckdb.connect(file if place != "attached" else ":memory:", read_only=place == "read-only",
                     config={"allow_unsigned_extensions": "true"})
con.execute("SET enable_progress_bar = false")  # a loaded machine would print one
con.execute(f"LOAD '{extension}'")
if place == "attached":
    con.execute(f"ATTACH '{file}' AS f (READ_ONLY); USE f")
for query in queries:
    try:
        print(json.dumps(con.execute(query).fetchall(), default=str))
    except duckdb.Error as error:
        print(json.dumps(str(error)))
assert not [name for name in sys.modules if name.startswith("tuskml")]
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alone") / "shop.duckdb"
    with tuskml.connect(path, threads=1) as con:
        con.execute(ROWS)
        con.execute(MODELS)
    return path


def alone(place: str, file: Path, *queries: str) -> list:
    command = [sys.executable, "-c", ALONE, str(extension_path()), place, str(file), *queries]
    off = os.environ | {"TUSKML_PYTHON": "off"}
    done = subprocess.run(command, capture_output=True, text=True, env=off, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.sample(2)
@pytest.mark.parametrize("place", ["file", "read-only", "attached"])
def test_answers_are_those_of_python(file: Path, place: str) -> None:
    """All bits but those of p-values, which SciPy computes where it is."""
    found = alone(place, file, *QUERIES)
    with tuskml.connect(file, read_only=True, threads=1) as con:
        for query, here in zip(QUERIES, found, strict=True):
            wanted = json.loads(json.dumps(con.execute(query).fetchall(), default=str))
            if "recursive" not in query:
                assert here == wanted, query
                continue
            assert [row[:7] + row[8:] for row in here] == [row[:7] + row[8:] for row in wanted]
            for row, right in zip(here, wanted, strict=True):
                assert (row[7] is None) == (right[7] is None)
                assert right[7] is None or row[7] == pytest.approx(right[7], rel=1e-12)
    with duckdb.connect(str(file)) as plain:
        assert plain.execute(
            "SELECT count(*) FROM duckdb_functions() WHERE function_name = 'predict'"
        ).fetchall() == [(0,)], "the file keeps nothing"


def test_macros_in_memory(file: Path) -> None:
    table, lateral, training, read, nothing = alone(
        "memory", Path(":memory:"),
        "FROM model_summary((SELECT NULL))",
        f"ATTACH '{file}' AS f (READ_ONLY); SELECT count(s.p_value) FROM f.models, LATERAL model_summary(m) AS s",
        "FROM train('range(3)', 'linear', 'sqrt(range)', ['range'])",
        "SELECT model_from('tree')",
        "SELECT model_from(NULL) IS NULL",
    )  # fmt: skip
    assert table == []
    assert lateral == [[9]]
    for error, name in ((training, "train_model"), (read, "model_from")):
        assert error.startswith(
            f"Invalid Input Error: {name}: the extension was loaded without its Python package, which trains: run"
        )
    assert nothing == [[True]]


MACROS = (
    "FROM {}model_summary((SELECT m FROM looks))",
    "FROM {}model_summary((SELECT late FROM looks))",
    "FROM {}model_fit((SELECT m FROM looks))",
    "FROM {}model_terms((SELECT m FROM looks))",
    "FROM {}model_trials((SELECT late FROM looks))",
    "FROM {}model_path((SELECT path FROM looks))",
    "FROM {}model_card((SELECT path FROM looks))",
    "FROM {}tree_dump((SELECT trees FROM looks))",
    "FROM {}feature_importance((SELECT trees FROM looks))",
    "FROM {}explain_prediction((SELECT m FROM looks), [1, 2])",
    "SELECT e.* FROM points, looks, LATERAL {}explain_prediction(trees, {{'x': x, 'z': z}}) AS e",
    "SELECT {}predict_class(late, [1, 2]), {}predict_probas(late, [1, 2]), {}predict_proba(late, [1, 2], 'a') FROM looks",
    "SELECT t.* FROM looks, {}model_topics(topics, words := 2) AS t",
    "SELECT {}perplexity(topics, ['red', 'a']), {}coherence(topics, ['red', 'a']), any_value({}predict_topics(topics, ['red'])) FROM looks",
    "SELECT {}recommend(factors, 1, n := 2) FROM looks",
    "FROM {}recommend((SELECT factors FROM looks), 1, n := 2)",
    "FROM {}recommend_by_items((SELECT factors FROM looks), [1], [2.0], n := 2)",
    "FROM {}similar_items((SELECT factors FROM looks), 1, n := 2)",
    "FROM {}permutation_importance('points, looks', 'm', 'y', '[x, z]')",
    "FROM {}partial_dependence('points, looks', 'trees', {{'x': 'x', 'z': 'z'}}, 'x', points := 2)",
    "SELECT ({}with_payload(m)).n_rows, {}sparse([1], [2.0]) FROM looks",
)  # fmt: skip
LOOKS = """
CREATE TABLE looks AS SELECT
    train_model('linear', y, [x, z], '{"fit": true}') AS m,
    train_model('logistic', k, [x, z], '{"l2": [0.1, 1]}') AS late,
    train_model('lasso', y, [x, z]) AS path,
    train_model('gbdt', y, {'x': x, 'z': z}, '{"trees": 3}') AS trees,
    train_model('lda', NULL, ['red', k, 'x' || g], '{"topics": 2, "max_iter": 5}') AS topics,
    train_model('matrix_factorization', y, [x, z], '{"rank": 2}') AS factors
FROM (SELECT *, ['a', 'b', 'c'][1 + (x * g) % 3] AS k FROM points)
"""


@pytest.fixture(scope="module")
def looks(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("looks") / "looks.duckdb"
    with tuskml.connect(path, threads=1) as con:
        con.execute(ROWS)
        con.execute(LOOKS)
    return path


@pytest.mark.parametrize("place", ["read-only", pytest.param("file", marks=pytest.mark.nightly)])
def test_macros_lie_next_to_a_file(looks: Path, place: str) -> None:
    """Whatever looks into a model, in every client: numbers are those of the package's connection."""
    path = "SET search_path = 'looks,tuskml_macros'"
    by_name = [query.replace("{}", "tuskml_macros.").format() for query in MACROS]
    by_path = [query.replace("{}", "").format() for query in MACROS]
    found = alone(place, looks, *by_name, path, *by_path[:3])
    with tuskml.connect(looks, read_only=True, threads=1) as con:
        for query, here in zip((*by_path, path, *by_path[:3]), (*found,), strict=True):
            if query == path:
                continue
            rows = con.execute(query).fetchall()
            assert here == json.loads(json.dumps(rows, default=str)) or close(here, rows), query
    with duckdb.connect(str(looks)) as plain:
        kept = "SELECT count(*) FROM duckdb_functions() WHERE database_name = 'looks'"
        assert plain.execute(kept).fetchall() == [(0,)]


def close(here: list, rows: list) -> bool:
    """Equal but for p-values, which SciPy computes where it is."""
    flat = [value for row in here for value in row]
    other = [value for row in rows for value in row]
    return all(
        a == b or a == pytest.approx(b, rel=1e-12) for a, b in zip(flat, other, strict=True)
    )


def test_every_macro_lies_there(looks: Path) -> None:
    names = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type LIKE '%macro' AND NOT internal ORDER BY 1"
    (found,) = alone("file", looks, names)
    (in_memory,) = alone("memory", Path(":memory:"), names)
    assert found == in_memory


CLASHES = """
import duckdb, sys
extension, file, after = sys.argv[1:]
con = duckdb.connect(file, config={"allow_unsigned_extensions": "true"})
con.execute("SET enable_progress_bar = false")
con.execute(f"LOAD '{extension}'; LOAD '{extension}'")
con.cursor().execute(f"LOAD '{extension}'")
con.execute(after)
print(con.execute("SELECT rmse(1, 2), v.p FROM v").fetchall())
"""


@pytest.mark.nightly
def test_macros_of_others_stay_and_are_named_once(tmp_path: Path) -> None:
    """A plain client has no warnings: one line on standard error names them, and none where there
    are none."""
    file = tmp_path / "clashes.duckdb"
    define = "CREATE MACRO rmse(a, b) AS 42; CREATE MACRO predict(a) AS a + 1; CREATE MACRO mine(a) AS a; CREATE VIEW v AS SELECT predict(1) AS p"
    with duckdb.connect(str(file)) as plain:
        plain.execute(define)
    for path, after, lines in (
        (str(file), "", 1),
        (":memory:", define.replace("CREATE", "CREATE OR REPLACE"), 0),
    ):
        command = [sys.executable, "-c", CLASHES, str(extension_path()), path, after]
        off = os.environ | {"TUSKML_PYTHON": "off"}
        done = subprocess.run(command, capture_output=True, text=True, env=off, check=False)
        assert done.stdout == "[(42, 2)]\n", done.stderr
        told = "tuskml: the database has macros of its own named predict, rmse, which stay: tuskml's are tuskml_predict, tuskml_rmse\n"
        assert done.stderr == told * lines


@pytest.mark.parametrize("place", ["file", "read-only"])
def test_what_it_says_without_python(file: Path, place: str) -> None:
    training, named, grouped, three, number, summary = alone(
        place, file,
        "SELECT train_model('linear', x, [z]) FROM points",
        "SELECT predict('late', [x]) FROM points",
        "SELECT predict('late', g, [x]) FROM points",
        "SELECT predict(m, 1, 2) FROM models",
        "SELECT decision(7, [1])",
        "SELECT model_summary(7)",
    )  # fmt: skip
    assert (
        "without its Python package, which trains: run `pip install tuskml` and once `tuskml install`"
        in training
    )
    for given, sentence in (("VARCHAR, BIGINT[]", named), ("VARCHAR, BIGINT, BIGINT[]", grouped)):
        assert sentence.startswith(
            f"Invalid Input Error: predict got ({given}), expected (model, features)"
        )
        assert "predict(d.model, ...) FROM tuskml.deployed AS d" in sentence
    assert three.startswith(
        "Invalid Input Error: predict got (model, INTEGER, INTEGER), expected (model, features): "
    )
    assert number.startswith(
        "Invalid Input Error: decision got (INTEGER, INTEGER[]), expected (model, features): the model"
    )
    assert (
        summary
        == "Invalid Input Error: model_summary got (INTEGER), expected (model): a value that train_model answered"
    )


@pytest.mark.parametrize(
    ("ids", "shown"), [("[1.5]", "1.5"), ("[2^40]", "1099511627776"), ("['nan'::DOUBLE]", "nan")]
)
def test_ids_are_whole_numbers(file: Path, ids: str, shown: str) -> None:
    (found,) = alone("file", file, f"SELECT sparse({ids}, [1])")
    assert (
        found
        == f"Invalid Input Error: sparse: indices hold {shown}, expected whole numbers from 0 to 2147483647, or a BIGINT[] for larger ones"
    )


def test_p_values_without_scipy(file: Path) -> None:
    """Student's t of few and many degrees of freedom, and the normal distribution, by SciPy's."""
    statistics = [0.0, 1e-5, 0.01, 0.5, 1.0, 1.7, 2.0, 3.3, 5.0, 12.0, 30.0, -2.0]
    freedoms = [1, 2, 3, 7, 30, 38, 39, 120, 4999, 5000, 5001, 1e5, 1e7, 1e9, float("inf")]
    cases = [(t, v) for t in statistics for v in freedoms]
    query = "SELECT list(_tusk_p_value(t, v::DOUBLE) ORDER BY i) FROM (SELECT generate_subscripts({t}, 1) AS i, unnest({t}) AS t, unnest({v}) AS v)"
    ((found,),) = alone(
        "file", file, query.format(t=[t for t, _ in cases], v=[str(v) for _, v in cases])
    )[0]
    wanted = [2 * stdtr(v, -abs(t)) for t, v in cases]
    np.testing.assert_allclose(np.array(found, float), wanted, rtol=1e-11, atol=1e-300)
