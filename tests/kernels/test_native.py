"""A quick drive through packer, kernels and every algorithm: `make sanitize` runs this file.

It asks little of the numbers, which other tests hold; it visits the corners where native code goes
wrong: empty and one-row groups, widths around the vector lengths, ends of segments, moved and
spilled blocks, threads, cancelled and refused queries.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import threading
from collections.abc import Iterator

import duckdb
import numpy as np
import pytest

import tuskml

pytestmark = pytest.mark.native

ALGORITHMS = [
    "bgd",
    "mgd",
    "sgd",
    "hogwild",
    "hogbatch",
    "lbfgs",
    "newton",
    "newton_cg",
    "svrg",
    "dcd",
]
ONLY = {"dcd": ("svm",), "newton_cg": ("linear", "logistic")}
"""Tasks of the algorithms that are not for all."""
TASKS = ("linear", "logistic", "svm")
FEATURES = {
    "float32": "x::FLOAT[]",
    "float64": "x",
    "sparse32": "sparse(ids, x::FLOAT[])",
    "sparse64": "sparse(ids::BIGINT[], x)",
}


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(threads=2) as connection:
        connection.execute("SELECT setseed(0.5)")
        connection.execute("""
            CREATE TABLE t AS
            SELECT i % 3 AS g, random() < 0.4 AS y, random() AS v,
                   list_transform(range(5), lambda j: random() * (j + 1) - 0.3) AS x,
                   list_transform(range(5), lambda j: (random() * 40)::INTEGER) AS ids
            FROM range(3000) r(i)""")
        yield connection


def fit(
    con: duckdb.DuckDBPyConnection, task: str, features: str, source: str = "t", **options: object
) -> list[dict]:
    """The models of all groups; each is finite."""
    label = "v" if task == "linear" else "y"
    sql = f"SELECT train_model('{task}', {label}, {features}, ?) FROM {source}"
    models = [model for (model,) in con.execute(sql, [json.dumps(options)]).fetchall()]
    for model in models:
        assert np.isfinite(model["coef"]).all()
        assert np.isfinite(model["loss"])
    return models


@pytest.mark.sample(13)
@pytest.mark.parametrize(
    ("algorithm", "task"), [(a, t) for a in ALGORITHMS for t in ONLY.get(a, TASKS)]
)
@pytest.mark.parametrize("features", FEATURES)
def test_algorithms(
    con: duckdb.DuckDBPyConnection, algorithm: str, task: str, features: str
) -> None:
    few = {"max_iter": 3, "algorithm": algorithm, "l2": 0.01}
    weights = {} if task == "linear" else {"class_weight": "balanced"}
    for options in ({}, {"threads": 1}, {"deterministic": True, **weights}, {"validation": 0.2}):
        (model,) = fit(con, task, FEATURES[features], **few, **options)
        assert model["n_rows"] == 3000
    groups = fit(con, task, FEATURES[features], "t GROUP BY g", **few)
    assert [model["n_rows"] for model in groups] == [1000] * 3


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - {"newton", "newton_cg", "dcd"}))
@pytest.mark.parametrize("features", ["float32", "sparse64"])
def test_l1(con: duckdb.DuckDBPyConnection, algorithm: str, features: str) -> None:
    fit(con, "logistic", FEATURES[features], algorithm=algorithm, max_iter=3, l1=0.01, l2=0.001)


@pytest.mark.sample(6)
@pytest.mark.parametrize("schedule", ["constant", "1/sqrt(i)", "1/i", "1/i^2"])
@pytest.mark.parametrize("batch", [1, 2, 7, 8, 9, 100, 5000])
def test_batches(con: duckdb.DuckDBPyConnection, schedule: str, batch: int) -> None:
    for algorithm in ("mgd", "hogbatch", "svrg"):
        for features in ("float32", "float64", "sparse32"):
            fit(con, "logistic", FEATURES[features], algorithm=algorithm, batch_size=batch, schedule=schedule,
                max_iter=2, epsilon=0)  # fmt: skip


@pytest.mark.sample(5)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 513])
def test_widths(con: duckdb.DuckDBPyConnection, width: int) -> None:
    """Ends of vectors, of tiles of the curvature, and where newton gives way to lbfgs."""
    source = f"(SELECT y, v, list_transform(range({width}), lambda j: hash(v, j) % 1000 / 1000) AS x FROM t LIMIT 700)"
    for kind in ("FLOAT", "DOUBLE"):
        for task in ("linear", "logistic", "svm"):
            (model,) = fit(con, task, f"x::{kind}[]", source, max_iter=2)
            assert len(model["coef"]) == width
            for algorithm in ("sgd", "hogbatch"):
                fit(con, task, f"x::{kind}[]", source, max_iter=1, algorithm=algorithm)
        sql = f"SELECT sum(decision(m, x::{kind}[])) FROM {source}, (SELECT train_model('logistic', y, x) AS m FROM {source})"
        assert np.isfinite(con.execute(sql).fetchall()[0][0])


@pytest.mark.sample(5)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 2047, 2048, 2049, 3000])
def test_lengths(con: duckdb.DuckDBPyConnection, n: int) -> None:
    for features in FEATURES.values():
        source = f"(FROM t LIMIT {n})"
        for algorithm in ("auto", "sgd", "mgd", "hogwild", "svrg"):
            fit(
                con,
                "linear",
                features,
                source,
                max_iter=2,
                algorithm=algorithm,
                deterministic=n % 2 == 0,
            )
        fit(con, "logistic", features, source, max_iter=2, validation=0.5)


def test_sparse_rows_of_every_length(con: duckdb.DuckDBPyConnection) -> None:
    source = """(SELECT y, range(i % 50)::INTEGER[] AS ids, list_transform(range(i % 50), lambda j: j::DOUBLE) AS x
                 FROM (SELECT y, row_number() OVER () AS i FROM t))"""
    for algorithm in ALGORITHMS:
        task = "svm" if algorithm == "dcd" else "logistic"
        fit(con, task, "sparse(ids, x)", source, algorithm=algorithm, max_iter=2, l2=0.1)
    empty = "(SELECT y, []::INTEGER[] AS ids, []::DOUBLE[] AS x FROM t)"
    con.execute(f"SELECT train_model('logistic', y, sparse(ids, x)) FROM {empty}").fetchall()
    far = "(SELECT y, [0, 2000000] AS ids, [1, v]::DOUBLE[] AS x FROM t LIMIT 50)"
    fit(con, "logistic", "sparse(ids, x)", far, max_iter=2, l2=0.1)


@pytest.mark.nightly
def test_many_groups(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("SET threads = 4")
    for task in ("linear", "logistic", "svm"):
        for algorithm in ("auto", "lbfgs", "mgd", "hogwild"):
            models = fit(
                con, task, "x", "t GROUP BY hash(v) % 500", algorithm=algorithm, max_iter=2
            )
            assert sum(model["n_rows"] for model in models) == 3000
    con.execute("SET threads = 2")


def test_rows_of_other_files(con: duckdb.DuckDBPyConnection) -> None:
    """A budget of nothing: every block lies in the spill file."""
    (usual,) = fit(con, "logistic", "x", deterministic=True)
    con.execute("SELECT tuskml_set_memory(0, '')").fetchall()
    (spilled,) = fit(con, "logistic", "x", deterministic=True)
    con.execute("SELECT tuskml_set_memory(1099511627776, '')").fetchall()
    assert spilled["coef"] == usual["coef"]


NULLS = [
    "CASE WHEN v < 0.3 THEN NULL ELSE x END", "CASE WHEN v < 0.3 THEN [NULL, 1, 1, 1, 1]::DOUBLE[] ELSE x END",
    "sparse(CASE WHEN v < 0.2 THEN NULL ELSE ids END, x)", "sparse(ids, CASE WHEN v < 0.2 THEN [NULL]::DOUBLE[] ELSE x END)",
]  # fmt: skip


@pytest.mark.parametrize("features", NULLS)
def test_nulls(con: duckdb.DuckDBPyConnection, features: str) -> None:
    (model,) = fit(con, "linear", features, max_iter=2)
    assert model["n_rows"] + model["n_skipped"] == 3000
    assert model["n_skipped"] > 0
    assert fit(con, "linear", "x", "t WHERE v > 2 GROUP BY g") == []
    assert con.execute("SELECT train_model('linear', v, x) FROM t WHERE v > 2").fetchall() == [
        (None,)
    ]


ERROR = '\'{"invalid": "error"}\''
REFUSED = [
    f"train_model('linear', v, CASE WHEN v > 0.999 THEN x[:2] ELSE x END, {ERROR})",
    f"train_model('svm', round(v * 5), x, {ERROR})", "train_model('x', v, x)",
    f"train_model('linear', v, CASE WHEN v > 0.999 THEN ['nan'::DOUBLE, 1, 1, 1, 1] ELSE x END, {ERROR})",
    f"train_model('linear', v, sparse(ids, x[:2]), {ERROR})", "train_model('linear', v, x, '{\"l2\": -1}')",
    f"train_model('linear', v, sparse(list_transform(ids, lambda j: j - 20), x), {ERROR})",
]  # fmt: skip


@pytest.mark.parametrize("expression", REFUSED)
def test_refused(con: duckdb.DuckDBPyConnection, expression: str) -> None:
    for grouped in ("", "GROUP BY g", "GROUP BY hash(v) % 100"):
        with pytest.raises(duckdb.Error, match="train_model: "):
            con.execute(f"SELECT {expression} FROM t {grouped}").fetchall()


@pytest.mark.parametrize("expression", [one for one in REFUSED if ERROR in one])
def test_invalid_rows(con: duckdb.DuckDBPyConnection, expression: str) -> None:
    """Without the option the same rows leave each group a status, and the others their models."""
    asked = expression.replace(f", {ERROR}", "")
    for grouped in ("", "GROUP BY g", "GROUP BY hash(v) % 100"):
        sql = f"SELECT DISTINCT m.status FROM (SELECT {asked} AS m FROM t {grouped})"
        assert ("invalid rows",) in con.execute(sql).fetchall()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_cancelled(con: duckdb.DuckDBPyConnection, algorithm: str) -> None:
    asked = {"algorithm": algorithm, "max_iter": 10**9, "epsilon": 0}
    options = json.dumps(asked | ({"l2": 1e-7} if algorithm == "dcd" else {}))
    task = "svm" if algorithm == "dcd" else "logistic"
    for grouped in ("", "GROUP BY g"):
        timer = threading.Timer(0.1, tuskml.cancel)
        timer.start()
        with pytest.raises(duckdb.Error, match="interrupted"):
            con.execute(
                f"SELECT train_model('{task}', y, x, ?) FROM t {grouped}", [options]
            ).fetchall()
        timer.join()


def test_connections_on_many_threads(con: duckdb.DuckDBPyConnection) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with con.cursor() as cursor:
                for _ in range(3):
                    fit(
                        cursor,
                        "logistic",
                        list(FEATURES.values())[number % 4],
                        max_iter=3,
                        algorithm=ALGORITHMS[number],
                    )
                    cursor.execute("SELECT tuskml_memory()").fetchall()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("features", FEATURES.values())
def test_scalars(con: duckdb.DuckDBPyConnection, features: str) -> None:
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE fitted AS SELECT g, train_model('logistic', y, {features}) AS m FROM t GROUP BY g"
    )
    sql = f"""SELECT sum(predict(m, {features})), sum(predict_proba(m, {features})), sum(decision(m, {features}))
              FROM t JOIN fitted USING (g)"""
    assert np.isfinite(con.execute(sql).fetchall()[0]).all()
    con.execute(
        "SELECT count(*) FROM fitted, model_summary((SELECT m FROM fitted WHERE g = 1))"
    ).fetchall()


def test_metrics(con: duckdb.DuckDBPyConnection) -> None:
    for grouped in ("", "GROUP BY g", "GROUP BY hash(v) % 700"):
        con.execute(f"""SELECT log_loss(y, v), auc(y, v), accuracy(y, v > 0.5), rmse(v, x[1]), mae(v, x[1]), r2(v, x[1])
                        FROM t {grouped}""").fetchall()  # fmt: skip
        con.execute(f"""SELECT roc_curve(y, v), auc(y, v, v % 3), precision_recall_curve(y > 0, v, 2), calibration(y, v % 1, 3), lift(y, v), average_precision(y, v),
                               confusion(y, v > 0.5), confusion('g' || g, g::VARCHAR), f1_score(g, v // 1, 'macro'),
                               brier(y, v % 1), mape(v, x[1]), pinball(v, x[1], 0.9), poisson_deviance(g, v + 1)
                        FROM t {grouped}""").fetchall()  # fmt: skip
    for call in ("auc(y, v)", "roc_curve(y, v)", "confusion(g::VARCHAR, 'a' || v)"):
        con.execute(f"SELECT {call} OVER (ORDER BY v ROWS 50 PRECEDING) FROM t").fetchall()
    con.execute(
        "SELECT train_model('linear', v, x) OVER (ORDER BY v ROWS 20 PRECEDING) FROM (FROM t LIMIT 300)"
    ).fetchall()


def test_hashing(con: duckdb.DuckDBPyConnection) -> None:
    for bits in (1, 8, 30):
        con.execute(
            "SELECT hash_features(['a:' || v, 'g=' || g, NULL, ''], ?) FROM t", [bits]
        ).fetchall()
        con.execute(
            "SELECT hash_features(['a' || v, 'g', ''], [v, g, 1], ?) FROM t", [bits]
        ).fetchall()
        con.execute("SELECT hash_features(MAP {'a': v, 'b': NULL}, ?) FROM t", [bits]).fetchall()


def test_explained(con: duckdb.DuckDBPyConnection) -> None:
    for grouped in ("", "GROUP BY g"):
        for (text,) in con.execute(
            f"SELECT explain_training('svm', y, x) FROM t {grouped}"
        ).fetchall():
            assert text.startswith("svm: ")


@pytest.mark.nightly
def test_databases_come_and_go() -> None:
    for budget in (0, 2**40):
        with tuskml.connect(threads=2) as one, tuskml.connect(threads=2) as other:
            for con in (one, other, one):
                con.execute("SELECT tuskml_set_memory(?, '')", [budget]).fetchall()
                con.execute(
                    "SELECT train_model('linear', i, [i, i % 7]) FROM range(5000) t(i)"
                ).fetchall()
