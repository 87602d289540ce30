"""Tasks of the user's own: the same answers as scipy, statsmodels and tuskml's own losses."""

import json

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from fitting import fit, put
from own_rows import counted, huber_optimum, own_tasks
from rows import block, entries_of, rows_pass, together
from scipy.special import log_ndtr
from sklearn.linear_model import LogisticRegression

import tuskml
from tuskml.errors import OperatorError
from tuskml.kernels.open_rows import Open, check_row_choice
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.tasks import LINEAR, OWN

__all__ = ["counted", "own_tasks"]

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("own_tasks")]


@pytest.mark.parametrize("algorithm", ["auto", "newton", "lbfgs", "bgd"])
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_huber_regression(con, counted, algorithm, l2):
    x, y, _, _ = counted
    model = fit(con, "own_huber", algorithm=algorithm, l2=l2, epsilon=1e-8, max_iter=1000)
    expected, loss = huber_optimum(x, y, l2)
    np.testing.assert_allclose([*model.coef, model.intercept], expected, rtol=1e-5)
    assert model.loss == pytest.approx(loss, rel=1e-9)
    assert model.status == "ok"
    assert model.std_err is None


def test_poisson_regression_and_its_predictions(con, counted):
    x, _, c, k = counted
    rows = con.execute(
        "SELECT k, train_model('own_poisson', c, x) FROM t GROUP BY k ORDER BY k"
    ).fetchall()
    for group, model in rows:
        there = k == group
        peer = sm.GLM(c[there], sm.add_constant(x[there]), family=sm.families.Poisson()).fit()
        np.testing.assert_allclose([model["intercept"], *model["coef"]], peer.params, rtol=1e-5)
        np.testing.assert_allclose(model["std_err"], peer.bse, rtol=1e-4)
    con.execute("CREATE TABLE m AS SELECT train_model('own_poisson', c, x) AS model FROM t")
    found = con.execute(
        "SELECT predict(model, x), decision(model, x) FROM t, m ORDER BY t.rowid"
    ).fetchnumpy()
    mean, margin = found.values()
    peer = sm.GLM(c, sm.add_constant(x), family=sm.families.Poisson()).fit()
    np.testing.assert_allclose(mean, peer.predict(), rtol=1e-5)
    np.testing.assert_allclose(margin, np.log(peer.predict()), atol=1e-5)
    summary = con.execute("FROM model_summary((SELECT model FROM m))").fetchall()
    assert {row[4] for row in summary} == {"z"}
    np.testing.assert_allclose([row[6] for row in summary], peer.pvalues, rtol=1e-3, atol=1e-12)


def test_predictions_outlive_the_registration(con, counted):
    con.execute("CREATE TABLE m AS SELECT train_model('own_poisson', c, x) AS model FROM t")
    before = con.execute("SELECT sum(predict(model, x)) FROM t, m").fetchall()
    tuskml.unregister_task("own_poisson")
    assert con.execute("SELECT sum(predict(model, x)) FROM t, m").fetchall() == before
    with pytest.raises(duckdb.Error, match="which gives no probabilities"):
        con.execute("SELECT predict_proba(model, x) FROM t, m").fetchall()


@pytest.mark.sample(3)
@pytest.mark.parametrize("features", ["x", "sparse([0, 1, 2], x)"])
@pytest.mark.parametrize(
    "options", [{}, {"class_weight": [1.0, 3.0]}, {"l1": 0.02}, {"threads": 1}]
)
def test_a_copy_of_the_logistic_loss_does_as_the_compiled_one(con, counted, features, options):
    x, y, _, k = counted
    put(con, x, y > np.median(y), k=k)
    own, ours = (
        con.execute(
            f"SELECT k, train_model('{task}', y, {features}, $1) FROM t GROUP BY k ORDER BY k",
            [json.dumps(options | {"epsilon": 1e-9, "max_iter": 2000})],
        ).fetchall()
        for task in ("logit", "logistic")
    )
    for (_, mine), (_, other) in zip(own, ours, strict=True):
        np.testing.assert_allclose(mine["coef"], other["coef"], rtol=1e-5, atol=1e-7)
        assert mine["loss"] == pytest.approx(other["loss"], rel=1e-9)
        assert mine["classes"] == other["classes"]
        if other["std_err"] is not None:
            np.testing.assert_allclose(mine["std_err"], other["std_err"], rtol=1e-4)
    con.execute("CREATE TABLE m AS SELECT train_model('logit', y, x) AS model FROM t")
    con.execute("CREATE TABLE o AS SELECT train_model('logistic', y, x) AS model FROM t")
    far = (
        "SELECT max(abs(predict_proba(m.model, x) - predict_proba(o.model, x))), "
        "count(*) FILTER (predict(m.model, x) <> predict(o.model, x)) FROM t, m, o"
    )
    distance, different = con.execute(far).fetchone()
    assert distance < 1e-5
    assert different <= 2


def test_one_class_is_a_constant_model(con):
    con.execute("CREATE TABLE t AS SELECT 0 AS y, [x::DOUBLE] AS x FROM range(9) r(x)")
    model = fit(con, "logit")
    assert model.status == "one class"
    assert model.loss == pytest.approx(np.log1p(np.exp(model.intercept)))


@pytest.mark.parametrize("border", [0.0, 0.1])
def test_a_likelihood_of_classes_that_are_apart_has_no_optimum(con, border):
    """Albert and Anderson, 1984; a squared hinge has one, and a penalty gives one."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 2))
    put(con, x, x[:, 0] + x[:, 1] > border)
    for task in ("logistic", "logit"):
        model = fit(con, task)
        assert (model.status, model.converged) == ("separable", False)
        assert fit(con, task, l2=0.1).status == "ok"
    put(con, x, x[:, 0] + x[:, 1] + rng.logistic(size=300) > border)
    assert fit(con, "logit").status == "ok"
    tuskml.register_task(
        "own_squared_hinge",
        loss=lambda m, y: np.maximum(0, 1 - y * m) ** 2,
        derivative=lambda m, y: -2 * y * np.maximum(0, 1 - y * m),
        labels="classes",
    )
    put(con, x, x[:, 0] + x[:, 1] > border)
    assert fit(con, "own_squared_hinge").status in ("ok", "not converged")


def log_normal(y, m):
    """log Phi(y m), its derivative by m, and the quotient that both are made of."""
    quotient = np.exp(-(m**2) / 2 - log_ndtr(y * m)) / np.sqrt(2 * np.pi)
    return log_ndtr(y * m), y * quotient, quotient


PROBIT = {
    "loss": lambda m, y: -log_normal(y, m)[0],
    "derivative": lambda m, y: -log_normal(y, m)[1],
    "curvature": lambda m, y: log_normal(y, m)[2] * (log_normal(y, m)[2] + y * m),
    "labels": "classes",
    "response": "logistic",
    "likelihood": True,
}


@pytest.mark.parametrize("task", ["logit", "probit"])
@pytest.mark.parametrize("features", ["x", "sparse([0, 1], x)"])
def test_a_likelihood_of_classes_that_are_apart_in_part_has_no_optimum(con, task, features):
    """All rows of a rare category are of one class; Silvapulle (On the existence of maximum
    likelihood estimators for the binomial response models, JRSS B 1981): whether there is an
    optimum depends on the rows alone, not on the link.
    """
    tuskml.register_task("probit", **PROBIT)
    i = np.arange(400)
    rare, noise = i % 20 == 0, i * 7919 % 13 > 6
    x = np.column_stack([rare, np.sin(i)])
    put(con, x, rare | noise)
    model = fit(con, task, features=features)
    assert (model.status, model.converged, model.std_err) == ("separable", False, None)
    logistic = fit(con, "logistic", features=features)
    assert model.options["l2_standardized"] == logistic.options["l2_standardized"] == 1 / 400
    if task == "logit":
        z = (x - x.mean(axis=0)) / x.std(axis=0)
        peer = LogisticRegression(C=1, tol=1e-10, max_iter=1000).fit(z, rare | noise)
        np.testing.assert_allclose(model.coef, peer.coef_[0] / x.std(axis=0), rtol=1e-6)
    assert fit(con, task, features=features, l2=0).status == "separable"
    put(con, x, (rare & (i % 40 == 0)) | noise)
    assert fit(con, task, features=features).status == "ok"


def test_no_groups_no_rows(con):
    con.execute("CREATE TABLE t (y DOUBLE, x DOUBLE[])")
    assert con.execute("SELECT train_model('own_huber', y, x) FROM t").fetchall() == [(None,)]


# --- the kernel ---


def sums(x, y, v, shift, scale, weight=1.0):
    """Losses, rows, gradient and curvature of Poisson's loss, by NumPy."""
    m = x @ v[:-1] + v[-1]
    z = np.column_stack([(x - shift) * scale, np.ones(len(x))])
    r, h = weight * (np.exp(m) - y), weight * np.exp(m)
    lower = np.tril_indices(x.shape[1] + 1)
    return np.concatenate(
        [
            [(weight * (np.exp(m) - y * m)).sum(), len(y)],
            x.T @ r,
            [r.sum()],
            ((z * h[:, None]).T @ z)[lower],
        ]
    )


@pytest.mark.parametrize("kind", ["dense float64", "sparse float64"])
@pytest.mark.parametrize("threads", [1, 3])
def test_sums_over_groups_larger_and_smaller_than_a_tile(kind, threads):
    rng = np.random.default_rng(0)
    d = 9
    blocks, data = [], []
    for n in (5, 70_000, 1, 300):
        x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5) * 0.3
        y = rng.poisson(1.0, n).astype(float)
        rows = entries_of(x) if kind.startswith("sparse") else x
        blocks.append(block(rows, y, kind, segment_rows=20_000, dim=d))
        data.append((x, y))
    rows = rows_pass(together(blocks), "linear", threads=threads)
    rows = type(rows)(**rows.__dict__ | {"open": Open(OWN["own_poisson"].own)})
    v = rng.normal(size=(4, d + 1)) * 0.1
    shift, scale = np.zeros((4, d)), rng.uniform(0.5, 2, (4, d))
    found = rows.curvature(v, shift, scale, True)
    for g, (x, y) in enumerate(data):
        np.testing.assert_allclose(
            found[g], sums(x, y, v[g], shift[g], scale[g]), rtol=1e-9, atol=1e-9
        )
    np.testing.assert_allclose(rows.gradient(v), found[:, : d + 3], rtol=1e-12)
    some = rows.of(np.array([1, 3])).gradient(v[[1, 3]])
    np.testing.assert_array_equal(some, rows.gradient(v)[[1, 3]])


@pytest.mark.parametrize("kind", ["dense float64", "sparse float64"])
@pytest.mark.parametrize("task", ["linear", "logistic", "own_poisson"])
def test_chosen_rows_with_weights(kind, task):
    rng = np.random.default_rng(1)
    d = 4
    blocks, data = [], []
    for n in (500, 7):
        x = rng.normal(size=(n, d)) * 0.3
        y = rng.integers(0, 2, n).astype(float)
        rows = entries_of(x) if kind.startswith("sparse") else x
        blocks.append(block(rows, y, kind, segment_rows=64, dim=d))
        data.append((x, y))
    own = OWN[task].own if task in OWN else None
    rows = rows_pass(together(blocks), "linear" if own else task)
    rows = type(rows)(**rows.__dict__ | {"open": Open(own) if own else None})
    problem = Problem(
        rows, OWN.get(task) or LINEAR[task], 0.0, 0.0, np.zeros((2, d)), np.ones((2, d))
    )
    chosen = [rng.integers(0, n, 300) for n in (500, 7)]
    weights = [rng.random(300) for _ in chosen]
    v = rng.normal(size=(2, d + 1))
    found = problem.take(chosen, weights).evaluate(v, curvature=True)
    step = 1e-6
    for g, (x, y) in enumerate(data):
        x, y = x[chosen[g]], y[chosen[g]]  # noqa: PLW2901

        def loss(at, x=x, y=y, weight=weights[g]):
            m = x @ at[:-1] + at[-1]
            each = {
                "linear": (m - y) ** 2 / 2,
                "logistic": np.logaddexp(0, -(2 * y - 1) * m),
                "own_poisson": np.exp(m) - y * m,
            }[task]
            return (weight * each).sum() / len(y)

        assert found.objective[g] == pytest.approx(loss(v[g]), rel=1e-12)
        by = [(loss(v[g] + step * e) - loss(v[g] - step * e)) / (2 * step) for e in np.eye(d + 1)]
        np.testing.assert_allclose(found.gradient[g], by, rtol=1e-5, atol=1e-8)
    again = problem.take(chosen, weights).of(np.array([1]))
    alone = again.evaluate(v[[1]], curvature=True)
    np.testing.assert_array_equal(alone.hessian, found.hessian[[1]])


@pytest.mark.parametrize(
    ("rows", "weights", "sentence"),
    [
        ([[0, 9]], None, "rows has 9, expected 0 to 4 in this group"),
        ([[-1]], None, "rows has -1, expected 0 to 4"),
        ([[]], None, "rows are of 0 groups, expected at least one row of each of 1 groups"),
        ([[0.5]], None, "rows are of type float64, expected whole numbers"),
        ([[0]], [[1.0, 2.0]], "there are 2 weights for 1 rows"),
        ([[0]], [[-1.0]], "weights are negative or not finite"),
        ([[[0]]], None, "rows are not one array per group"),
        (3, None, "rows are 3, expected an array"),
    ],
)
def test_rows_that_cannot_be_chosen(rows, weights, sentence):
    with pytest.raises(OperatorError, match=sentence):
        check_row_choice(rows, weights, np.array([5]))


def test_a_training_is_repeatable(con):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4000, 3))
    put(con, x, rng.poisson(np.exp(x[:, 0])))
    orders = [f"(FROM t ORDER BY hash({order}))" for order in ("y", "y + 1", "x")]
    found = {tuple(fit(con, "own_poisson", table=order, threads=1).coef) for order in orders}
    assert len(found) == 1


@pytest.mark.parametrize("algorithm", ["lbfgs", "bgd"])
@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_convergence_does_not_depend_on_the_units_of_labels(con, algorithm, unit):
    """A squared loss of one's own: labels times a number give coefficients times that number."""
    squared = {"loss": lambda m, y: 0.5 * (m - y) ** 2, "derivative": lambda m, y: m - y}
    tuskml.register_task("squared", **squared)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(300, 3))
    y = x @ [1.0, -2.0, 0.5] + rng.normal(size=300)
    expected = np.linalg.lstsq(np.column_stack([x, np.ones(300)]), y, rcond=None)[0][:3]
    put(con, x, unit * y)
    model = fit(con, "squared", algorithm=algorithm)
    assert model.status == "ok"
    np.testing.assert_allclose(model.coef / unit, expected, atol=1e-4)
