"""Newton's method by conjugate gradients, on rows too wide for systems, and its kernel."""

import numpy as np
import pytest
from fitting import fit, put
from rows import block, rows_pass, together
from sklearn.linear_model import LogisticRegression, Ridge

from tuskml.kernels.passes import KINDS
from tuskml.learners.linear.algorithms.newton_cg import Curvature, conjugate_gradients
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.tasks import LINEAR

pytestmark = pytest.mark.native


def problem_of(groups, task, l2=0.05, class_weight=None, threads=1, stride=1):
    """In coordinates that are not the caller's; dense rows with a shift."""
    rows = rows_pass(groups, task, class_weight, threads=threads, stride=stride)
    rng = np.random.default_rng(1)
    shape = (len(groups), rows.n_features)
    shift = np.zeros(shape) if rows.sparse else rng.normal(size=shape)
    return Problem(rows, LINEAR[task], 0.0, l2, shift, rng.uniform(0.5, 2, size=shape))


def hessian(problem, group, x, y, v, class_weight):
    """In NumPy, of one group."""
    z = np.column_stack([(x - problem.shift[group]) * problem.scale[group], np.ones(len(x))])
    h = np.ones(len(x))
    if problem.task.name == "logistic":
        p = 1 / (1 + np.exp(-z @ v))
        h = p * (1 - p)
        if class_weight is not None:
            h = h * np.where(y == 1, class_weight[1], class_weight[0])
    penalty = np.append(problem.l2 * problem.scale[group] ** 2, 0.0)
    return (z * h[:, None]).T @ z / len(x) + np.diag(penalty)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("task", "class_weight"), [("linear", None), ("logistic", None), ("logistic", (0.5, 3.0))]
)
@pytest.mark.parametrize("threads", [1, 3])
def test_product_is_that_of_numpy(kind, task, class_weight, threads):
    """The first product, which works out the curvatures, and the next ones, which keep them."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 11)).astype(kind.split()[1]) for n in (700, 3)]
    labels = [(rng.random(len(part)) < 0.4).astype(float) for part in parts]
    groups = together([block(x, y, kind, 300) for x, y in zip(parts, labels, strict=True)])
    problem = problem_of(groups, task, class_weight=class_weight, threads=threads)
    v = rng.normal(size=(2, 12)) * 0.3
    curvature = Curvature(problem, v)
    for _ in range(3):
        u = rng.normal(size=(2, 12))
        found = curvature.times(u)
        for g, (x, y) in enumerate(zip(parts, labels, strict=True)):
            expected = hessian(problem, g, x.astype(float), y, v[g], class_weight)
            np.testing.assert_allclose(found[g], expected @ u[g], rtol=1e-9, atol=1e-9)
            if kind.startswith("sparse"):
                diagonal = np.diag(expected)
                np.testing.assert_allclose(curvature.diagonal[g], diagonal, rtol=1e-9)


@pytest.mark.parametrize("kind", ["dense float64", "sparse float64"])
def test_conjugate_gradients_solve_the_system(kind):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(300, 8)), rng.normal(size=300)
    problem, v = problem_of(block(x, y, kind), "linear"), rng.normal(size=(1, 9))
    gradient = problem.evaluate(v).gradient
    step = conjugate_gradients(
        Curvature(problem, v), gradient, np.full(1, 1e-12), lambda made: False
    )
    system = hessian(problem, 0, x, y, v[0], None)
    np.testing.assert_allclose(step[0], -np.linalg.solve(system, gradient[0]), rtol=1e-8)


def test_product_of_every_second_chunk():
    """What is read is what the mean is of."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(40_000, 16)), rng.normal(size=40_000)
    problem = problem_of(block(x, y), "linear", stride=2)
    v, u = np.zeros((1, 17)), rng.normal(size=(1, 17))
    whole = hessian(problem, 0, x, y, v[0], None) @ u[0]
    found = Curvature(problem, v).times(u)[0]
    assert not np.allclose(found, whole, rtol=1e-9)
    np.testing.assert_allclose(found, whole, rtol=0.2, atol=0.1)


def wide(n=500, d=700, each=12, seed=2):
    """Sparse rows, more features than rows, frequent ones and rare ones."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, d))
    for row in x:
        row[np.minimum((d ** rng.random(each)).astype(int), d - 1)] = rng.uniform(0.5, 1.5, each)
    return x, x @ rng.normal(size=d)


def put_sparse(con, x, y, storage):
    """A table of ids and values."""
    ids = [np.flatnonzero(row) for row in x]
    put(con, [row[at] for row, at in zip(x, ids, strict=True)], y, storage=storage, ids=ids)


@pytest.mark.parametrize("storage", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("features", ["sparse(ids, x)", "x"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_wide_ridge(con, storage, features, fit_intercept):
    """scikit-learn's Ridge by Cholesky, whose alpha is l2 n."""
    x, y = wide()
    x = x.astype(np.float32).astype(float)
    if features == "x":
        put(con, x, y, storage=storage)
    else:
        put_sparse(con, x, y, storage)
    l2 = 1e-3
    model = fit(con, "linear", features=features, algorithm="newton_cg", l2=l2, epsilon=1e-9,
                fit_intercept=fit_intercept)  # fmt: skip
    reference = Ridge(alpha=l2 * len(y), solver="cholesky", fit_intercept=fit_intercept).fit(x, y)
    assert model.converged
    np.testing.assert_allclose(model.coef, reference.coef_[: len(model.coef)], atol=1e-5)
    assert model.intercept == pytest.approx(reference.intercept_, abs=1e-5)


@pytest.mark.parametrize("class_weight", [None, [0.5, 2.0]])
def test_wide_logistic(con, class_weight):
    x, margins = wide()
    y = (margins + np.random.default_rng(4).logistic(size=len(margins)) > 0).astype(float)
    put_sparse(con, x, y, "DOUBLE")
    l2 = 1e-3
    weight = None if class_weight is None else dict(enumerate(class_weight))
    options = {} if class_weight is None else {"class_weight": class_weight}
    model = fit(con, "logistic", features="sparse(ids, x)", algorithm="newton_cg", l2=l2,
                epsilon=1e-9, **options)  # fmt: skip
    reference = LogisticRegression(
        C=1 / (len(y) * l2), solver="newton-cholesky", tol=1e-10, class_weight=weight
    ).fit(x, y)
    assert (model.status, model.converged) == ("ok", True)
    assert model.iterations < 20
    np.testing.assert_allclose(model.coef, reference.coef_[0][: len(model.coef)], atol=1e-5)


def test_groups_end_one_by_one(con):
    """Groups of unlike condition, each to its own tolerance."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(1000, 6))
    g = np.arange(1000) % 4
    x[g == 1] *= [1, 10, 100, 1000, 1, 1]
    y = x @ np.ones(6) + rng.normal(size=1000)
    put(con, x, y, g=g)
    sql = """SELECT train_model('linear', y, x, '{"algorithm": "newton_cg", "epsilon": 1e-9}')
             FROM t GROUP BY g ORDER BY g"""
    for group, (model,) in enumerate(con.execute(sql).fetchall()):
        z = np.column_stack([x, np.ones(1000)])[g == group]
        expected = np.linalg.lstsq(z, y[g == group], rcond=None)[0]
        assert model["converged"]
        np.testing.assert_allclose([*model["coef"], model["intercept"]], expected, rtol=1e-6)
