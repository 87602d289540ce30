"""The hinge: whatever trains it, `ok` means an objective within epsilon / 2 of the least there is.

The least objectives are libsvm's, and without l2 those of the linear program, by HiGHS.
"""

import numpy as np
import pytest
from fitting import fit, objective, put
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block, rows_pass
from scipy.optimize import linprog
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.svm import SVC

from tuskml.learners.linear.gap import dual_point, lower_bound
from tuskml.learners.linear.problem import Problem
from tuskml.learners.registry import task_named

pytestmark = pytest.mark.native

CONVERGED = ("ok", "constant feature")
EXACT = ("auto", "lbfgs", "bgd", "newton", "dcd")
STOCHASTIC = ("sgd", "mgd", "svrg", "hogwild", "hogbatch")


def overlapping(n=300, d=4, seed=0):
    """Two classes that overlap."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    y = (x @ np.linspace(-1, 1.5, d) + rng.logistic(size=n) > 0.2).astype(float)
    return x, y


def rare(n=120, d=200, seed=1):
    """Rows with six of many features each, a few of which tell the class."""
    rng = np.random.default_rng(seed)
    x = np.zeros((n, d))
    for row in x:
        row[rng.zipf(1.3, size=6) % d] = 1.0
    truth = rng.normal(size=d)
    y = (x @ truth + rng.logistic(size=n) > np.median(x @ truth)).astype(float)
    return x, y


def sparse_of(x):
    """The array as an SQL expression of sparse features over the column x."""
    return f"sparse(range({x.shape[1]}), x)"


def libsvm(x, y, l2, class_weight=None):
    """The least objective with l2 alone: an upper bound of it, close to 1e-7."""
    weight = None if class_weight is None else {0: class_weight[0], 1: class_weight[1]}
    made = SVC(
        kernel="linear", C=1 / (len(y) * l2), tol=1e-8, class_weight=weight, cache_size=500
    ).fit(x, y)
    made.coef, made.intercept = made.coef_[0], made.intercept_[0]
    return objective("svm", x, y, made, l2=l2, class_weight=class_weight)


def by_program(x, y, l1=0.0, class_weight=None):
    """The least mean hinge + l1 ||w||_1, by the linear program."""
    n, d = x.shape
    sign = np.where(y == 1, 1.0, -1.0)
    cost = np.ones(n) if class_weight is None else np.where(y == 1, *class_weight[::-1])
    rows = np.hstack([-sign[:, None] * x, sign[:, None] * x, -sign[:, None], -np.eye(n)])
    objective_of = np.concatenate([np.full(2 * d, l1), [0.0], cost / n])
    limits = [(0, None)] * (2 * d) + [(None, None)] + [(0, None)] * n
    found = linprog(objective_of, rows, -np.ones(n), bounds=limits, method="highs")
    return found.fun


@pytest.mark.parametrize("algorithm", EXACT)
@pytest.mark.parametrize("epsilon", [0.1, 1e-3])
def test_rare_features_and_a_small_penalty(con, algorithm, epsilon):
    """A gradient that is small by coordinate says nothing of the objective here."""
    x, y = rare()
    put(con, x, y)
    least = libsvm(x, y, 1e-5)
    model = fit(con, "svm", features=sparse_of(x), algorithm=algorithm, epsilon=epsilon, l2=1e-5,
                max_iter=100)  # fmt: skip
    assert model.converged == (model.status in CONVERGED)
    if algorithm in ("auto", "newton"):
        assert model.status in CONVERGED
    if model.converged:
        assert model.loss <= least + epsilon / 2


@pytest.mark.parametrize("algorithm", [*EXACT, *STOCHASTIC])
@pytest.mark.parametrize("features", ["dense", "sparse"])
@pytest.mark.parametrize("penalty", [{"l2": 0.03}])
def test_ok_is_within_half_of_epsilon(con, algorithm, features, penalty):
    x, y = overlapping()
    put(con, x, y, storage="FLOAT")
    least = libsvm(x.astype(np.float32).astype(float), y, penalty["l2"])
    expression = "x" if features == "dense" else sparse_of(x)
    reached = []
    for epsilon in (0.2, 1e-3):
        model = fit(con, "svm", features=expression, algorithm=algorithm, epsilon=epsilon,
                    **penalty)  # fmt: skip
        assert model.converged == (model.status in CONVERGED)
        reached.append(model.converged)
        if model.converged:
            assert model.loss <= least + epsilon / 2 + 1e-7
    assert reached[0] or algorithm in STOCHASTIC
    assert reached[1] or algorithm in (*STOCHASTIC, "dcd")


def test_stochastic_steps_are_not_ok_far_from_the_optimum(con):
    """Digits 3 and 8, which a plane parts: the least objective is far below what they reach."""
    digits = load_digits(n_class=10)
    chosen = np.isin(digits.target, (3, 8))
    x, y = digits.data[chosen], (digits.target[chosen] == 8).astype(float)
    put(con, x, y)
    least = libsvm(x, y, 1e-4)
    far = 0
    for algorithm in STOCHASTIC:
        model = fit(con, "svm", algorithm=algorithm, l2=1e-4, epsilon=1e-3)
        if model.loss > least + 1e-3 / 2:
            far += 1
            assert (model.status, model.converged) == ("not converged", False)
    assert far > 0


@pytest.mark.parametrize("class_weight", [None, [0.5, 2.0]])
@pytest.mark.parametrize("algorithm", ["newton", "lbfgs", "bgd"])
def test_without_a_penalty(con, algorithm, class_weight):
    x, y = overlapping()
    put(con, x, y)
    options = {} if class_weight is None else {"class_weight": class_weight}
    model = fit(con, "svm", algorithm=algorithm, epsilon=1e-4, **options)
    assert model.status == "ok"
    assert model.loss <= by_program(x, y, class_weight=class_weight) + 1e-4 / 2 + 1e-9


@pytest.mark.parametrize("algorithm", ["newton", "lbfgs", "bgd", "sgd", "hogwild", "svrg"])
@pytest.mark.parametrize("seed", range(4))
def test_what_small_weights_prove_is_not_claimed_of_large_ones(con, algorithm, seed):
    """Steps may start far too long: of 8 rows one is on the wrong side of weights near 10."""
    rng = np.random.default_rng(seed)
    x = (rng.random((8, 2)) < 0.4) * 1.0
    if seed == 0:
        x = np.array([[0, 0], [0, 0], [0, 0], [0, 1], [1, 1], [0, 1], [1, 0], [0, 0]], float)
    y = (x.sum(axis=1) == 0).astype(float)
    put(con, x, y)
    model = fit(con, "svm", features=sparse_of(x), algorithm=algorithm, threads=1)
    assert by_program(x, y) == pytest.approx(0.0, abs=1e-9)
    assert not model.converged or model.loss <= 1e-6


@pytest.mark.parametrize("algorithm", ["auto", "lbfgs", "bgd"])
@pytest.mark.parametrize("l1", [0.05, 0.001])
def test_with_l1(con, algorithm, l1):
    x, y = overlapping()
    put(con, x, y)
    model = fit(con, "svm", algorithm=algorithm, epsilon=1e-3, l1=l1)
    assert model.status == "ok"
    assert model.loss <= by_program(x, y, l1=l1) + 1e-3 / 2 + 1e-9


def test_a_plane_between_the_classes_is_enough(con):
    """The hinge is never below 0, so weights that reach it are an optimum without a penalty."""
    x, _ = overlapping()
    y = (x[:, 0] > 0.1).astype(float)
    put(con, x, y)
    model = fit(con, "svm", epsilon=1e-6)
    assert (model.status, model.loss <= 5e-7) == ("ok", True)


def test_another_end_that_was_asked_for_promises_nothing_of_the_objective(con):
    x, y = overlapping()
    put(con, x, y)
    model = fit(con, "svm", algorithm="svrg", converge="loss", epsilon=0.3, l2=0.01)
    assert (model.status, model.options["converge"]) == ("ok", "loss")


@pytest.mark.parametrize("features", ["dense", "sparse"])
@pytest.mark.parametrize("storage", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("options", [{}, {"class_weight": [0.3, 2.0]}])
@pytest.mark.parametrize("l2", [1.0, 1e-3, 1e-8])
def test_newton_s_optimum(con, features, storage, options, l2):
    x, y = overlapping(200)
    x = x.astype(np.float32).astype(float)
    put(con, x, y, storage=storage)
    expression = "x" if features == "dense" else sparse_of(x)
    model = fit(con, "svm", features=expression, algorithm="newton", l2=l2, epsilon=1e-8,
                **options)  # fmt: skip
    assert model.status == "ok"
    assert model.loss == pytest.approx(objective("svm", x, y, model, l2=l2, **options), rel=1e-9)
    if l2 > 1e-6:
        least = libsvm(x, y, l2, options.get("class_weight"))
    else:  # the penalty hardly counts
        least = by_program(x, y, class_weight=options.get("class_weight")) + l2 / 2 * (
            model.coef @ model.coef
        )
    assert model.loss <= least + 1e-8


@pytest.mark.parametrize("data", [load_breast_cancer, load_wine])
def test_real_features_in_their_own_units(con, data):
    """From hundredths to thousands: what first-order steps need days for takes a few systems."""
    x, target = data(return_X_y=True)
    y = (target == 1).astype(float)
    put(con, x, y)
    model = fit(con, "svm", l2=1 / len(y))
    assert model.status == "ok"
    assert model.iterations < 60
    # The optimum cannot be above any other model's: here libsvm's on features of variance 1.
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    made = SVC(kernel="linear", C=100.0).fit(scaled, y)
    made.coef = made.coef_[0] / x.std(axis=0)
    made.intercept = made.intercept_[0] - made.coef @ x.mean(axis=0)
    assert model.loss <= objective("svm", x, y, made, l2=1 / len(y)) + 1e-6


@pytest.mark.parametrize("unit", [1e-150, 1e-9, 1e6, 1e15, 1e150])
def test_units_of_the_features_do_not_matter_to_newton(con, unit):
    """With the penalty in the same units; beyond double's range of squares it has none."""
    x, y = overlapping(200)
    put(con, x, y)
    l2 = {"l2": 1e-3} if 1e-20 < unit < 1e20 else {"l2": 0}
    same = fit(con, "svm", algorithm="newton", **l2)
    put(con, x * unit, y)
    model = fit(con, "svm", algorithm="newton", l2=l2["l2"] * unit**2 if l2["l2"] else 0)
    assert model.status == same.status == "ok"
    assert model.loss == pytest.approx(same.loss, abs=1e-6)
    np.testing.assert_allclose(model.coef * unit, same.coef, rtol=1e-3, atol=1e-4)
    put(con, x * unit, y)  # a penalty that nothing is left of, or that leaves nothing
    assert fit(con, "svm", algorithm="newton", l2=1e-3).status == "ok"


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_fewer_rows_than_weights(con, rows):
    """A whole step may end where a variable is 0: it must not be taken quite."""
    x, _ = overlapping(rows, seed=3)
    y = np.arange(rows) % 2.0
    put(con, x, y)
    for options in ({}, {"l2": 1e-6}):
        model = fit(con, "svm", algorithm="newton", **options)
        assert model.converged
        assert model.loss < 1e-4


def test_groups_train_as_each_alone_and_time_ends_newton(con):
    x, y = overlapping(600)
    put(con, x, y, g=np.arange(600) % 4)
    asked = '{"algorithm": "newton", "l2": 0.01, "threads": 1}'

    def models(where):
        sql = f"SELECT g, train_model('svm', y, x, '{asked}') FROM t {where} GROUP BY g ORDER BY g"
        return con.execute(sql).fetchall()

    together = models("")
    for g, model in together:
        ((_, alone),) = models(f"WHERE g = {g}")
        assert model["coef"] == alone["coef"]
        assert (model["status"], model["iterations"]) == ("ok", alone["iterations"])
    stopped = fit(con, "svm", algorithm="newton", l2=0.01, time="0.000001s")
    assert stopped.status == "time limit"
    few = fit(con, "svm", algorithm="newton", l2=0.01, max_iter=2)
    assert (few.status, few.iterations) == ("not converged", 2)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 40),
    st.integers(1, 6),
    st.sampled_from([(0.0, 0.01), (0.05, 0.0), (0.02, 0.1), (0.0, 3.0), (1.0, 0.0)]),
    st.integers(0, 2**31),
    st.booleans(),
    st.sampled_from([None, (0.3, 2.5)]),
    st.sampled_from([1.0, 0.1, 1e-4]),
)
def test_bound_is_below_every_objective(n, d, penalty, seed, wide, class_weight, corner):
    """Weak duality, from any weights and by a corner of any width."""
    (l1, l2), rng = penalty, np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), (rng.random(n) < 0.4).astype(float)
    rows = rows_pass(
        block(x, y, "sparse float64" if wide else "dense float64"), "svm", class_weight
    )
    shift = np.zeros((1, d)) if wide else x.mean(axis=0)[None, :]
    scale = np.exp(rng.normal(size=(1, d)))
    problem = Problem(rows, task_named("svm"), l1, l2, shift, scale)
    v = rng.normal(size=(1, d + 1)) * 10 ** rng.uniform(-3, 1)
    found = lower_bound(problem, dual_point(problem, v, corner), v)[0]
    for _ in range(60):
        other = rng.normal(size=(1, d + 1)) * 10 ** rng.uniform(-4, 1)
        assert found <= problem.objective(other)[0] + 1e-12
    assert found <= problem.objective(v)[0] + 1e-12
    assert found <= problem.objective(np.zeros_like(v))[0] + 1e-12


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from([None, (0.3, 2.5)]))
def test_bound_without_a_penalty_is_that_of_the_program(seed, class_weight):
    """It holds for weights up to twice as large, among which the program's optimum is here."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(30, 2))
    y = (x[:, 0] + rng.logistic(size=30) > 0).astype(float)
    if not 3 < y.sum() < 27:
        return
    rows = rows_pass(block(x, y), "svm", class_weight)
    problem = Problem(rows, task_named("svm"), 0.0, 0.0, np.zeros((1, 2)), np.ones((1, 2)))
    v = np.full((1, 3), 20.0)
    found = lower_bound(problem, dual_point(problem, v / 200, 0.5), v)[0]
    assert found <= by_program(x, y, class_weight=class_weight) + 1e-9
