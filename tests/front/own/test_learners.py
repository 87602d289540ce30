"""Registered learners in groups, with options, searches and statuses, in both databases."""

# ruff: noqa: E501, SQL is read better on one line

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import lightgbm as lgb
import numpy as np
import onnx
import psycopg
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.tree import DecisionTreeRegressor

import tuskml
from tuskml import OptionError
from tuskml.errors import DataError

ROWS = (
    "SELECT i % 3 AS g, sin(i) AS a, cos(3 * i) AS b, 2 * sin(i) + cos(7 * i) AS y, "
    "1 + i % 2 AS w FROM generate_series(1, 300) AS t(i)"
)
MODULE = """
import tuskml
from lightgbm import LGBMClassifier
from sklearn.linear_model import Ridge


def fragile(x, y, *, most=1.0):
    if y.max() > most:
        raise ValueError(f"{y.max():.0f} is too much")
    return Ridge().fit(x, y)


tuskml.register_learner("own_ridge", Ridge)
tuskml.register_learner("own_trees", LGBMClassifier(n_estimators=3, num_leaves=4))
tuskml.register_learner("fragile", fit=fragile)
"""


def register() -> None:
    exec(compile(MODULE, "own_learners.py", "exec"), {})


@pytest.fixture(autouse=True)
def _registered() -> None:
    register()


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(f"CREATE TABLE t AS {ROWS}")
    return con


@pytest.fixture(scope="module")
def session(cluster: Any) -> Iterator[psycopg.Connection]:
    """A superuser's, whose server has the same learners, which each session takes seconds to import."""
    name = "tusk_own_learners"
    cluster.create_database(name)
    with TemporaryDirectory(prefix="tuskml-served-") as folder, cluster.connect(name) as opened:
        Path(folder).chmod(0o755)
        Path(folder, "own_learners.py").write_text(MODULE)
        opened.execute(f"SET tuskml.python_path = '{cluster.python_path}:{folder}'")
        opened.execute("SET tuskml.modules = 'own_learners'")
        opened.execute(f"CREATE TEMP TABLE t AS {ROWS}")
        yield opened
    cluster.drop_database(name)


def asked(database: Any, sql: str) -> list[Any]:
    """The rows of a statement; features stand as {x} in it, and fields of a model as m->f."""
    postgres = isinstance(database, psycopg.Connection)
    text = sql.replace("{x}", "ARRAY[a, b]" if postgres else "[a, b]")
    text = re.sub(r"m->(\w+)", r"(m).\1" if postgres else r"m.\1", text)
    return list(database.execute(text).fetchall())


GROUPED = "(SELECT g, train_model('{task}', {y}, {{x}}{more}) AS m FROM t GROUP BY g) AS f"


def grouped(task: str, y: str = "y", more: str = "") -> str:
    """The table f of a model for each group."""
    return GROUPED.format(task=task, y=y, more=more)


@pytest.fixture(params=["rows", "session"])
def database(request: pytest.FixtureRequest) -> Any:
    """DuckDB, then PostgreSQL."""
    return request.getfixturevalue(request.param)


@pytest.mark.nightly
def test_groups_have_their_own_estimators(database: Any) -> None:
    found = asked(
        database,
        f"SELECT g, m->coef, m->intercept, m->status FROM {grouped('own_ridge')} ORDER BY g",
    )
    assert [row[0] for row in found] == [0, 1, 2]
    for g, coef, intercept, status in found:
        there = np.array(asked(database, f"SELECT a, b, y FROM t WHERE g = {g}"))
        peer = Ridge().fit(there[:, :2], there[:, 2])
        np.testing.assert_allclose([*coef, intercept], [*peer.coef_, peer.intercept_], rtol=1e-9)
        assert status == "ok"


def test_parameters_are_options(database: Any) -> None:
    there = np.array(asked(database, "SELECT a, b, y FROM t"))
    peer = Ridge(alpha=50).fit(there[:, :2], there[:, 2])
    for given in ('{"alpha": 50}', '{"params": {"alpha": 50}}'):
        ((coef, options),) = asked(
            database,
            f"SELECT m->coef, m->options FROM (SELECT train_model('own_ridge', y, {{x}}, '{given}') AS m FROM t) AS f",
        )
        np.testing.assert_allclose(coef, peer.coef_, rtol=1e-9)
        assert '"learner":"own_ridge","params":{"alpha":50}' in str(options).replace(
            " ", ""
        ).replace("'", '"')


@pytest.mark.parametrize(("given", "sentence"), [
    ('"alhpa": 1', "unknown option 'alhpa', expected one of alpha, copy_X,"),
    ('"alhpa": 1', "did you mean 'alpha'?"),
    ('"params": {"alhpa": 1}', "option 'params' has 'alhpa', expected one of alpha, copy_X"),
    ('"alpha": 1, "params": {"alpha": 1}', "'alpha' is an option and in option 'params', expected one of them"),
    ('"alpha": {"a": 1}', "option 'alpha' is {\"a\": 1}, expected a number, a text, true, false or null"),
    ('"alpha": -1', "option 'alpha' is invalid: The 'alpha' parameter of Ridge must be"),
    ('"trees": 9', "option 'trees' is not available with task 'own_ridge', which has alpha, copy_X"),
])  # fmt: skip
def test_wrong_options_have_a_sentence(database: Any, given: str, sentence: str) -> None:
    with pytest.raises((duckdb.Error, psycopg.Error), match=re.escape(sentence)):
        asked(
            database,
            f"SELECT train_model('own_ridge', y, {{x}}, '{{{given}}}') FROM t".replace(
                "{x}", "{x}"
            ),
        )


def test_an_exception_is_a_status_of_its_group(database: Any) -> None:
    """The labels of group 0 alone are beyond the limit."""
    asked_for = grouped(
        "fragile", "CASE WHEN g = 0 THEN 9 ELSE 1 END * sin(a)", ", '{\"most\": 2}'"
    )
    found = asked(
        database,
        f"SELECT g, m->status, m->plan, predict(m, {{x0}}) FROM {asked_for} ORDER BY g".replace(
            "{x0}", "ARRAY[1, 2]" if isinstance(database, psycopg.Connection) else "[1, 2]"
        ),
    )
    assert [row[1] for row in found] == ["fit failed", "ok", "ok"]
    assert found[0][2].startswith("fit raised ValueError: 8 is too much in ")
    assert found[0][3] is None
    assert found[1][3] is not None


def test_labels_of_text_and_of_booleans_are_classes(database: Any) -> None:
    text = "CASE WHEN y > 0 THEN 'high' ELSE 'low' END"
    for label, names in ((text, {"high", "low"}), ("y > 0", {"false", "true"})):
        found = asked(
            database,
            f"SELECT m->status, predict_class(m, {{x}}), {label} FROM t, (SELECT train_model('own_trees', {label}, {{x}}) AS m FROM t) AS f",
        )
        right = [status == "ok" and one == str(given).lower() for status, one, given in found]
        assert {row[1] for row in found} <= names
        assert np.mean(right) > 0.8


def test_many_numbers_are_no_classes(database: Any) -> None:
    found = asked(database, f"SELECT m->status, m->plan FROM {grouped('own_trees')}")
    assert [status for status, _ in found] == ["invalid rows"] * 3
    assert "values of a group that are no whole numbers, expected classes" in found[0][1]


def test_one_class(database: Any) -> None:
    found = asked(database, f"SELECT m->status, m->classes FROM {grouped('own_trees', 'g')}")
    assert sorted(found) == [("one class", [g]) for g in (0.0, 1.0, 2.0)]


def test_weights_reach_the_estimator(database: Any) -> None:
    there = np.array(asked(database, "SELECT a, b, y, w FROM t"), float)
    peer = Ridge().fit(there[:, :2], there[:, 2], sample_weight=there[:, 3])
    ((coef,),) = asked(
        database,
        "SELECT m->coef FROM (SELECT train_model('own_ridge', y, {x}, '{}', w) AS m FROM t) AS f",
    )
    np.testing.assert_allclose(coef, peer.coef_, rtol=1e-9)


def test_a_search_over_parameters(database: Any) -> None:
    """Without noise the least penalty predicts best."""
    options = '{"alpha": [1000, 1e-6, 10], "folds": 3}'
    found = asked(
        database,
        f"SELECT m->options, m->trials FROM (SELECT train_model('own_ridge', 3 * a + b, {{x}}, '{options}') AS m FROM t) AS f",
    )
    assert '"params":{"alpha":1e-06}' in str(found[0][0]).replace(" ", "").replace("'", '"')
    assert "1000" in str(found[0][1])


def test_failed_candidates_lose_a_search(rows: duckdb.DuckDBPyConnection) -> None:
    """A limit of 0 raises in every fold."""
    found = asked(
        rows,
        "SELECT m->status, m->options FROM (SELECT train_model('fragile', y, {x}, "
        '\'{"most": [0, 9], "folds": 2}\') AS m FROM t) AS f',
    )
    assert found[0][0] == "ok"
    assert '"params":{"most":9}' in found[0][1]


def test_weights_of_classes(rows: duckdb.DuckDBPyConnection) -> None:
    tuskml.register_learner("own_logit", LogisticRegression(tol=1e-10, max_iter=1000))
    there = np.array(asked(rows, "SELECT a, b, y FROM t"))
    peer = LogisticRegression(tol=1e-10, max_iter=1000, class_weight="balanced")
    peer.fit(there[:, :2], there[:, 2] > 0.5)
    found = asked(
        rows,
        "SELECT m->coef FROM (SELECT train_model('own_logit', (y > 0.5)::INT, {x}, "
        '\'{"class_weight": "balanced"}\') AS m FROM t) AS f',
    )
    np.testing.assert_allclose(found[0][0], peer.coef_[0], rtol=1e-6)


def test_rows_with_names(rows: duckdb.DuckDBPyConnection) -> None:
    """A category has a feature for each level, and the model keeps how rows became features."""
    rows.execute("CREATE TABLE named AS SELECT *, 'g' || g AS kind FROM t")
    found = rows.execute(
        "SELECT predict(m, {'a': a, 'kind': kind}), g FROM named, (SELECT train_model('own_ridge', g, "
        "{'a': a, 'kind': kind}, '{\"alpha\": 1e-9}') AS m FROM named) AS f"
    ).fetchall()
    np.testing.assert_allclose([one for one, _ in found], [g for _, g in found], atol=1e-6)


def test_nulls_reach_trees_that_keep_them(rows: duckdb.DuckDBPyConnection) -> None:
    tuskml.register_learner(
        "own_gaps", lgb.LGBMRegressor(n_estimators=5, num_leaves=4, verbosity=-1)
    )
    rows.execute("CREATE TABLE gaps AS SELECT y, CASE WHEN y < 0.5 THEN b END AS b FROM t")
    fit = "SELECT train_model('own_gaps', y, [b]{}) AS m FROM gaps"
    skipped = rows.execute(f"SELECT m.n_skipped FROM ({fit.format('')})").fetchall()
    assert skipped[0][0] > 0
    kept = fit.format(', \'{"missing": "keep"}\'')
    found = rows.execute(f"SELECT predict(m, [b]) FROM gaps, ({kept})").fetchall()
    given = rows.execute("SELECT b, y FROM gaps").fetch_df()
    peer = lgb.LGBMRegressor(n_estimators=5, num_leaves=4, verbosity=-1, random_state=0)
    peer.fit(given[["b"]].to_numpy(), given["y"])
    np.testing.assert_allclose(
        [one for (one,) in found], peer.predict(given[["b"]].to_numpy()), rtol=1e-9
    )


def test_invalid_rows_are_those_of_any_learner(rows: duckdb.DuckDBPyConnection) -> None:
    found = asked(
        rows,
        f"SELECT g, m->status FROM {grouped('own_ridge', 'CASE WHEN g = 1 THEN y / 0.0 * 0 ELSE y END')} ORDER BY g",
    )
    assert [status for _, status in found] == ["ok", "invalid rows", "ok"]


def test_a_function_may_return_the_text_of_trees(rows: duckdb.DuckDBPyConnection) -> None:
    def fit(x: Any, y: Any, *, leaves: int = 4) -> str:
        params = {"num_leaves": leaves, "verbosity": -1}
        return lgb.train(params, lgb.Dataset(x, y), 5).model_to_string()

    tuskml.register_learner("own_text", fit=fit)
    found = asked(
        rows,
        "SELECT m->task, m->status FROM (SELECT train_model('own_text', y, {x}) AS m FROM t) AS f",
    )
    assert found == [("gbdt", "ok")]


def test_a_function_may_return_an_onnx_graph(rows: duckdb.DuckDBPyConnection) -> None:
    def fit(x: Any, y: Any) -> onnx.ModelProto:
        peer = LinearRegression().fit(x, y)
        numbers = [
            onnx.numpy_helper.from_array(np.asarray(one), name)
            for name, one in (("w", peer.coef_[:, None]), ("b", np.atleast_1d(peer.intercept_)))
        ]
        kinds = [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, [None, width])
            for name, width in (("x", 2), ("m", 1))
        ]
        node = onnx.helper.make_node("Gemm", ["x", "w", "b"], ["m"])
        graph = onnx.helper.make_graph([node], "linear", kinds[:1], kinds[1:], numbers)
        return onnx.helper.make_model(graph)

    tuskml.register_learner("own_graph", fit=fit)
    there = np.array(asked(rows, "SELECT a, b, y FROM t"))
    found = asked(
        rows,
        "SELECT m->status, m->coef FROM (SELECT train_model('own_graph', y, {x}) AS m FROM t) AS f",
    )
    assert found[0][0] == "ok"
    peer = LinearRegression().fit(there[:, :2], there[:, 2])
    np.testing.assert_allclose(found[0][1], peer.coef_, rtol=1e-9)


def test_predictions_of_ones_own_are_compared(rows: duckdb.DuckDBPyConnection) -> None:
    """A model that predicts otherwise than it is said to has a status, and so have infinite ones."""
    for name, more in (("off", 1.0), ("vast", np.inf)):
        tuskml.register_learner(
            name,
            fit=lambda x, y: LinearRegression().fit(x, y),
            predict=lambda of, x, more=more: of.predict(x) + more,
        )
    found = asked(
        rows,
        "SELECT m->status, m->plan FROM (SELECT train_model('off', y, {x}) AS m FROM t UNION ALL "
        "SELECT train_model('vast', y, {x}) AS m FROM t) AS f",
    )
    assert [status for status, _ in found] == ["fit failed", "fit failed"]
    assert "so no model of tuskml predicts as it does" in found[0][1]
    assert found[1][1] == "predictions of 300 rows are no finite numbers"


def test_arrays_count_in_the_memory_of_the_database(rows: duckdb.DuckDBPyConnection) -> None:
    """16 GB where 500 MB are allowed: the machine might have them."""
    tuskml.register_learner("vast", fit=lambda x, y: np.empty(1 << 31).sum())
    rows.execute("SET memory_limit = '500MB'")
    found = asked(
        rows,
        "SELECT m->status, m->plan FROM (SELECT train_model('vast', y, {x}) AS m FROM t) AS f",
    )
    rows.execute("RESET memory_limit")
    assert found[0][0] == "fit failed"
    assert "Unable to allocate 16.0 GiB" in found[0][1]


def test_iterations_that_were_not_enough(rows: duckdb.DuckDBPyConnection) -> None:
    tuskml.register_learner("own_logit", LogisticRegression(max_iter=1))
    found = asked(
        rows,
        "SELECT m->status, m->converged FROM (SELECT train_model('own_logit', (y > 0)::INT, {x}) AS m FROM t) AS f",
    )
    assert found == [("not converged", False)]


def test_python_trains_and_keeps_models(rows: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    models = tuskml.train(rows, "own_trees", source="t", label="g", features=["a", "b"])
    models.save(tmp_path / "model.json")
    tuskml.unregister_learner("own_trees")
    again = tuskml.Model.load(tmp_path / "model.json")
    assert again.predict([[0.5, 1.0]]) == models.predict([[0.5, 1.0]])
    assert again.options["learner"] == "own_trees"


def test_explained(database: Any) -> None:
    ((text,),) = asked(database, "SELECT explain_training('own_ridge', y, {x}) FROM t")
    assert text.startswith(
        "own_ridge: minimise mean the loss of Ridge of sklearn\n  rows      300 x 2"
    )


@pytest.mark.parametrize(("given", "error", "sentence"), [
    ({"name": "linear", "estimator": Ridge()}, OptionError, "learner 'linear' is a name of tuskml's own"),
    ({"name": "one"}, OptionError, "learner 'one' needs an estimator or fit, expected one of them"),
    ({"name": "one", "estimator": 7}, OptionError, "the estimator of learner 'one' is 7, expected one of scikit-learn"),
    ({"name": "one", "fit": 7}, OptionError, "fit is 7, expected a function"),
    ({"name": "one", "estimator": Ridge(), "labels": "ranks"}, OptionError, "labels is 'ranks', expected 'numbers' or 'classes'"),
    ({"name": "one", "estimator": KNeighborsRegressor()}, DataError, "the estimator is KNeighborsRegressor, expected an estimator of LightGBM, XGBoost or CatBoost"),
    ({"name": "one", "estimator": make_pipeline(PolynomialFeatures(), Ridge())}, DataError, "a step of the pipeline is PolynomialFeatures"),
])  # fmt: skip
def test_what_cannot_be_registered(given: dict[str, Any], error: type, sentence: str) -> None:
    with pytest.raises(error, match=re.escape(sentence)):
        tuskml.register_learner(**given)


def test_a_second_registration_replaces_the_first(rows: duckdb.DuckDBPyConnection) -> None:
    first = asked(
        rows, "SELECT m->task FROM (SELECT train_model('own_ridge', y, {x}) AS m FROM t) AS f"
    )
    tuskml.register_learner("own_ridge", DecisionTreeRegressor(max_depth=2))
    second = asked(
        rows, "SELECT m->task FROM (SELECT train_model('own_ridge', y, {x}) AS m FROM t) AS f"
    )
    assert (first, second) == ([("linear",)], [("random_forest",)])
    with pytest.raises(
        OptionError, match=r"no learner 'own_rigde' is registered, .*; did you mean 'own_ridge'"
    ):
        tuskml.unregister_learner("own_rigde")
