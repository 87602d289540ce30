"""Numbers near the ends of the doubles: a model is finite, or its status says why it is not.

Truth comes by a change of units that keeps all digits, powers of two.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import math
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.fault(family="bad input by name")

N = 60
ALGORITHMS = {
    "linear": ("auto", "newton", "newton_cg", "lbfgs", "bgd", "svrg", "sgd", "mgd", "hogbatch"),
    "logistic": ("auto", "newton", "newton_cg", "lbfgs", "bgd", "svrg", "sgd", "mgd", "hogbatch"),
    "svm": ("auto", "newton", "lbfgs", "bgd", "sgd", "dcd"),
}
CONSTANT = ("out of range", "one class")


@pytest.fixture(scope="module")
def duck() -> Any:
    import tuskml

    with tuskml.connect(threads=2) as con:
        con.execute("CREATE TABLE edge (y DOUBLE, x DOUBLE[])")
        yield con


@pytest.fixture(scope="module")
def post(file_session: Any) -> Any:
    file_session.execute("CREATE TABLE edge (y DOUBLE PRECISION, x DOUBLE PRECISION[])")
    return file_session


def rows(label: float = 1.0, first: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that follow two features with noise, times numbers."""
    rng = np.random.default_rng(8)
    x = rng.standard_normal((N, 2))
    y = 2 * x[:, 0] - x[:, 1] + rng.standard_normal(N)
    return y * label, x * [first, 1.0]


def train(con: Any, y: np.ndarray, x: np.ndarray, task: str = "linear", **options: Any) -> dict:
    """The model as a dictionary, SQL's NULL as None."""
    con.execute("DELETE FROM edge")
    values = ", ".join(
        f"({a!r}, ARRAY{list(map(float, b))!r})" for a, b in zip(map(float, y), x, strict=True)
    )
    con.execute(f"INSERT INTO edge VALUES {values}")
    query = f"train_model('{task}', y, x, '{json.dumps(options)}')"
    if type(con).__module__.startswith("psycopg"):
        return con.execute(f"SELECT to_json({query}) FROM edge").fetchone()[0]
    return con.execute(f"SELECT {query} FROM edge").fetchone()[0]


def assert_finite_or_says_so(model: dict) -> None:
    """Coefficients, intercept: finite always; a loss where the status does not say it is lost."""
    weights = [*model["coef"], model["intercept"]]
    assert all(w is not None and math.isfinite(w) for w in weights), model
    numbers = [model["loss"], *(model["history"] or ())]
    if model["status"] in CONSTANT:
        assert not model["converged"]
        assert model["std_err"] is None
        assert model["coef"] == [0.0] * len(model["coef"])
    else:
        assert all(n is not None and math.isfinite(n) for n in numbers), model
    assert all(e is None or math.isfinite(e) for e in model["std_err"] or ())


@pytest.mark.parametrize("power", [-530, 530, -1000, 1000])
@pytest.mark.parametrize("algorithm", ["auto", "lbfgs", "bgd", "newton_cg"])
@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_a_feature_of_any_size(duck: Any, task: str, algorithm: str, power: int) -> None:
    """Times 2^power: the coefficient and its error by as much less, up to 1e301 and down."""
    y, x = rows()
    y = y if task == "linear" else y > 0
    plain = train(duck, y, x, task, algorithm=algorithm)
    model = train(duck, y, x * [2.0**power, 1.0], task, algorithm=algorithm)
    assert (model["status"], model["converged"]) == ("ok", True)
    assert model["coef"][0] * 2.0**power == pytest.approx(plain["coef"][0], rel=1e-6)
    assert model["coef"][1] == pytest.approx(plain["coef"][1], rel=1e-6)
    assert model["std_err"][1] * 2.0**power == pytest.approx(plain["std_err"][1], rel=1e-6)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_features_whose_squares_vanish_have_coefficients(duck: Any, fit_intercept: bool) -> None:
    """i * 1e-160, which had the coefficient 0: y = 3 i has 3e160."""
    i = np.arange(N)
    model = train(duck, 3.0 * i, (i * 1e-160)[:, None], fit_intercept=fit_intercept)
    assert model["coef"] == pytest.approx([3e160], rel=1e-9)


@pytest.mark.sample(13)
@pytest.mark.parametrize("which", ["duck", "post"])
@pytest.mark.parametrize("algorithm", ALGORITHMS["linear"])
@pytest.mark.parametrize(
    ("label", "first", "options"),
    [(1e160, 1.0, {}), (1e-160, 1.0, {}), (1e307, 1.0, {}), (1e300, 1e-300, {}), (1.0, 1e-309, {}),
     (1.0, 1e-300, {"l2": 1.0})],
)  # fmt: skip
def test_what_no_double_holds_is_said(
    which: str, algorithm: str, label: float, first: float, options: dict, request: Any
) -> None:
    con = request.getfixturevalue(which)
    y, x = rows(label, first)
    model = train(con, y, x, algorithm=algorithm, **options)
    assert_finite_or_says_so(model)
    if label != 1.0:
        assert model["status"] == "out of range"
        assert y.min() < model["intercept"] < y.max()
    predict = "predict((SELECT train_model('linear', y, x) FROM edge), ARRAY[1.0, 1.0]::DOUBLE PRECISION[])"
    assert math.isfinite(con.execute(f"SELECT {predict}").fetchone()[0])


@pytest.mark.parametrize("task", ["gbdt", "random_forest", "lasso", "elastic_net", "mlp", "fm"])
@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160])
def test_other_learners_say_that_squares_of_labels_leave_the_doubles(
    duck: Any, task: str, size: float
) -> None:
    training = f"train_model('{task}', {size!r} * (i % 7), [i % 5, i % 3])"
    status, loss, mean = duck.execute(
        f"SELECT m.status, m.loss, predict(m, [1, 1]) FROM (SELECT {training} AS m FROM range(84) AS r(i))"
    ).fetchone()
    assert (status, loss) == ("out of range", None)
    assert mean == pytest.approx(3 * size, rel=1e-9)


@pytest.mark.sample(2)
@pytest.mark.parametrize("which", ["duck", "post"])
@pytest.mark.parametrize("task", ALGORITHMS)
def test_features_at_the_end_of_the_doubles(which: str, task: str, request: Any) -> None:
    con = request.getfixturevalue(which)
    y, x = rows()
    x = np.where(x > 0, 1.7e308, -1.7e308)
    for algorithm in ALGORITHMS[task]:
        options = {"l2": 0.1} if algorithm == "dcd" else {}
        model = train(
            con, y if task == "linear" else y > 0, x, task, algorithm=algorithm, **options
        )
        assert_finite_or_says_so(model)


@pytest.mark.parametrize(
    "weights", [[1e-308, 1e308], [1e308, 1e308], [1e-308, 1e-308], [1e-300, 1e-290]]
)
@pytest.mark.parametrize("algorithm", ALGORITHMS["logistic"])
def test_class_weights_at_the_ends(duck: Any, algorithm: str, weights: list[float]) -> None:
    y, x = rows()
    assert_finite_or_says_so(
        train(duck, y > 0, x, "logistic", algorithm=algorithm, class_weight=weights)
    )


def test_a_group_out_of_range_leaves_its_neighbours_alone(duck: Any) -> None:
    """One statement: the others' bits are those that they have alone."""
    y, x = rows()
    duck.execute("CREATE OR REPLACE TABLE beside (g INTEGER, y DOUBLE, x DOUBLE[])")
    for g, (label, first) in enumerate([(1.0, 1.0), (1e200, 1.0), (1.0, 2.0**600), (1.0, 1.0)]):
        duck.executemany(
            "INSERT INTO beside VALUES (?, ?, ?)",
            [
                [g, *row]
                for row in zip((y * label).tolist(), (x * [first, 1.0]).tolist(), strict=True)
            ],
        )
    query = "SELECT train_model('linear', y, x, '{{\"algorithm\": \"{}\"}}') FROM beside {}"
    for algorithm in ("newton", "lbfgs", "bgd"):
        together = [
            m for (m,) in duck.execute(query.format(algorithm, "GROUP BY g ORDER BY g")).fetchall()
        ]
        assert [m["status"] for m in together] == ["ok", "out of range", "ok", "ok"]
        (alone,) = duck.execute(query.format(algorithm, "WHERE g = 0")).fetchone()
        assert together[0]["coef"] == together[3]["coef"] == alone["coef"]
        assert together[2]["coef"][0] * 2.0**600 == pytest.approx(alone["coef"][0], rel=1e-6)


SIZES = st.sampled_from([0.0, 1e-320, 1e-300, 1e-160, 1e-80, 1.0, 1e80, 1e160, 1e300, 1.7e308])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([(task, algorithm) for task in ALGORITHMS for algorithm in ALGORITHMS[task]]),
    SIZES, SIZES, SIZES,
    st.sampled_from([{}, {"fit_intercept": False}, {"l2": 1e-3}, {"l1": 1e-3}, {"l2": 1e300}, {"validation": 0.3}]),
    st.booleans(), st.sampled_from([None, [1e-308, 1e308], [1e200, 1e200]]),
)  # fmt: skip
@example(("linear", "bgd"), 1e-160, 1.0, 1.7e308, {"l2": 1e300}, False, None)
@example(("linear", "auto"), 0.0, 0.0, 1.0, {"l2": 1e300}, False, None)
@example(("logistic", "newton_cg"), 0.0, 0.0, 1e-300, {}, False, [1e200, 1e200])
def test_no_model_is_neither_finite_nor_explained(
    duck: Any,
    which: tuple[str, str],
    label: float,
    first: float,
    second: float,
    more: dict,
    sparse: bool,
    weights: Any,
) -> None:
    task, algorithm = which
    if algorithm in ("newton", "newton_cg", "dcd", "auto") and "l1" in more:
        more = {}
    options = {"algorithm": algorithm, "max_iter": 30} | more
    if algorithm == "dcd":
        options |= {"l2": 0.1}
    if task != "linear" and weights:
        options["class_weight"] = weights
    y, x = rows()
    with np.errstate(over="ignore"):
        y = np.clip(y * label, -1.7e308, 1.7e308) if task == "linear" else (y > 0) * 1.0
        x = np.clip(x * [first, second], -1.7e308, 1.7e308)
    if sparse:
        duck.execute(
            "CREATE OR REPLACE TABLE e AS SELECT unnest(?) AS y, unnest(?) AS x",
            [y.tolist(), x.tolist()],
        )
        made = f"train_model('{task}', y, sparse(ARRAY[0, 1], x), '{json.dumps(options)}')"
        model = duck.execute(f"SELECT {made} FROM e").fetchone()[0]
    else:
        model = train(duck, y, x, task, **options)
    assert_finite_or_says_so(model)


def test_the_group_with_the_error_is_counted_alone(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE g AS SELECT i % 10 AS g, i // 10 AS i FROM range(1000) r(i)")
    sql = "SELECT g, train_model('linear', i, [i, CASE WHEN g = 3 AND i = 42 THEN 'nan'::DOUBLE ELSE 1 END]{}) FROM g GROUP BY g ORDER BY g"
    sentence = "feature 2 is NaN in row 43 of the group"
    con.execute("SET threads = 1")
    with pytest.raises(duckdb.Error, match=sentence):
        con.execute(sql.format(', \'{"invalid": "error"}\'')).fetchall()
    for g, model in con.execute(sql.format("")).fetchall():
        assert (model["status"] == "invalid rows") == (g == 3)
        assert (sentence in model["plan"]) == (g == 3)
