"""Every algorithm minimises the same objective, on easy and on ill-conditioned data."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from fitting import fit, losses, objective, put
from problems import (
    EXACT,
    STOCHASTIC,
    TASKS,
    N,
    assert_optimal,
    ill,
    labels,
    measures,
    standardised,
    well,
)

pytestmark = pytest.mark.native

PENALTIES = {
    "plain": {},
    "no-intercept": {"fit_intercept": False},
    "l2": {"l2": 0.1},
    "l1": {"l1": 0.03},
    "elastic": {"l1": 0.01, "l2": 0.05},
    "weights": {"class_weight": [0.5, 2.0]},
    "balanced": {"class_weight": "balanced", "l2": 0.01, "fit_intercept": False},
}


def possible(task, penalty, algorithm="lbfgs"):
    """Numbers have no classes to weigh, newton and newton_cg have no l1."""
    options = PENALTIES[penalty]
    return not (task == "linear" and "class_weight" in options) and not (
        algorithm in ("newton", "newton_cg") and "l1" in options
    )


@pytest.mark.sample(14)
@pytest.mark.parametrize(
    ("task", "penalty", "algorithm"),
    [c for c in itertools.product(TASKS, PENALTIES, [*EXACT, "auto"]) if possible(*c)],
)
@pytest.mark.parametrize("storage", ["FLOAT", "DOUBLE"])
def test_optimum_on_well_conditioned_data(con, task, penalty, algorithm, storage):
    """All reach the optimum of a reference whose optimality NumPy has confirmed."""
    options = PENALTIES[penalty]
    x, y = well(task)
    x = x.astype(np.float32) if storage == "FLOAT" else x
    put(con, x, y, storage=storage)
    reference = fit(con, task, algorithm="lbfgs", epsilon=1e-11, **options)
    assert_optimal(task, x, y, reference, 1e-11, options)
    model = fit(con, task, algorithm=algorithm, epsilon=1e-9, **options)
    assert_optimal(task, x, y, model, 1e-9, options)
    np.testing.assert_allclose(model.coef, reference.coef, atol=1e-7)
    assert model.intercept == pytest.approx(reference.intercept, abs=1e-7)
    assert model.loss == pytest.approx(reference.loss, rel=1e-13)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("algorithm", ["lbfgs", "newton", "newton_cg", "auto"])
@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_optimum_on_ill_conditioned_data(con, task, algorithm, l2, fit_intercept):
    """Features in units from 1e-3 to 1e6, two nearly collinear, none centred."""
    x, y = ill(task)
    put(con, x, y)
    options = {"l2": l2, "fit_intercept": fit_intercept}
    model = fit(con, task, algorithm=algorithm, epsilon=1e-8, **options)
    assert_optimal(task, x, y, model, 1e-8, options)
    best = fit(con, task, algorithm="newton", epsilon=1e-10, **options)
    assert_optimal(task, x, y, best, 1e-10, options)
    assert model.loss == pytest.approx(best.loss, rel=1e-9)
    np.testing.assert_allclose(standardised(x, model), standardised(x, best), atol=2e-3)


@pytest.mark.parametrize("task", TASKS)
def test_line_search_on_ill_conditioned_data(con, task):
    """The near collinearity stays after scaling, condition 1e4: many iterations, the same end."""
    x, y = ill(task)
    put(con, x, y)
    model = fit(con, task, algorithm="bgd", epsilon=1e-8, max_iter=20_000)
    assert_optimal(task, x, y, model, 1e-8, {})
    assert model.loss == pytest.approx(fit(con, task, epsilon=1e-10).loss, rel=1e-12)


@pytest.mark.sample(1)
@pytest.mark.parametrize("task", TASKS)
def test_svrg_on_ill_conditioned_data(con, task):
    """Linear in the condition: after so many epochs the objective is there, not all weights."""
    x, y = ill(task)
    put(con, x, y)
    model = fit(con, task, algorithm="svrg", epsilon=1e-5, max_iter=2000)
    best = fit(con, task, epsilon=1e-10).loss
    assert best * (1 - 1e-12) <= model.loss <= best * (1 + 1e-4)


@pytest.mark.sample(2)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("algorithm", ["bgd", "lbfgs", "newton"])
def test_large_groups_start_on_a_sample_and_end_at_the_whole(con, task, algorithm):
    """Rows in the order of the label, so that a sample of chunks would mislead."""
    x, y = well(task, 140_000)
    order = np.argsort(y, kind="stable")
    x, y = x[order], y[order]
    put(con, x, y)
    model = fit(con, task, algorithm=algorithm, epsilon=1e-9)
    assert_optimal(task, x, y, model, 1e-9, {})
    assert ("of the rows" in model.plan) == (algorithm != "bgd")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("algorithm", ["bgd", "lbfgs", "svrg"])
def test_l1_on_unscaled_features(con, task, algorithm):
    """l1 weighs coefficients in the caller's units, however features are conditioned inside."""
    rng = np.random.default_rng(4)
    z = rng.normal(size=(N, 5))
    x = z * [0.01, 0.1, 1.0, 10.0, 100.0] + [0.0, 1.0, -1.0, 5.0, 50.0]
    y = labels(task, z @ [0.5, 0.5, 0.0, 0.5, 0.5], rng)
    put(con, x, y)
    model = fit(con, task, algorithm=algorithm, l1=0.02, epsilon=1e-7, max_iter=50_000)
    assert_optimal(task, x, y, model, 1e-7, {"l1": 0.02})
    assert model.coef[0] == 0  # in units of 0.01 its coefficient would be 50
    assert model.coef[4] != 0


@pytest.mark.parametrize("options", [{}, {"l2": 0.1}], ids=["plain", "l2"])
def test_least_squares(con, options):
    """All exact algorithms against the closed form."""
    x, y = well("linear")
    put(con, x, y)
    z = np.column_stack([x, np.ones(N)])
    ridge = np.diag([options.get("l2", 0.0) * N] * 4 + [0.0])
    expected = np.linalg.solve(z.T @ z + ridge, z.T @ y)
    for algorithm in EXACT:
        model = fit(con, "linear", algorithm=algorithm, epsilon=1e-10, **options)
        np.testing.assert_allclose([*model.coef, model.intercept], expected, rtol=1e-8)


BOUND = 5e-3
UNCENTRED_BOUND = 0.25
"""How much above the optimum 20 epochs over 2,000 rows may end, relative to it. Without an
intercept nothing can take up a shift: features far from zero stay nearly collinear, SGD slow.
Where a busy machine stops one of two threads that share such a model no bound holds but the
start."""


def start_of(model):
    """The model that weighs nothing."""
    return SimpleNamespace(**vars(model) | {"coef": np.zeros_like(model.coef), "intercept": 0.0})


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("task", "penalty"),
    [
        c
        for c in itertools.product(TASKS, ["plain", "no-intercept", "l2", "l1", "weights"])
        if possible(*c)
    ],
)
@pytest.mark.parametrize("algorithm", STOCHASTIC)
@pytest.mark.parametrize("make", [well, ill])
def test_stochastic_algorithms_come_close(con, task, algorithm, penalty, make):
    """The loss is the objective at the result, and within a bound of the optimum."""
    options = PENALTIES[penalty]
    x, y = make(task, 2000)
    put(con, x, y)
    best = fit(con, task, epsilon=1e-8, **options)
    model = fit(con, task, algorithm=algorithm, max_iter=20, threads=2, **options)
    reported = objective(task, x, y, model, **measures(options))
    assert model.loss == pytest.approx(reported, rel=1e-9)
    uncentred = (make, penalty) == (ill, "no-intercept")
    bound = best.loss * (1 + (UNCENTRED_BOUND if uncentred else BOUND))
    if uncentred and algorithm in ("hogwild", "hogbatch"):
        bound = objective(task, x, y, start_of(model), **measures(options))
    assert best.loss - 1e-9 <= model.loss <= bound


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("algorithm", ["hogwild", "hogbatch"])
def test_four_lock_free_threads_stay_within_a_bound_of_serial(con, task, algorithm):
    """HOGWILD! on more threads than cores, five times: never 1 % worse than one thread."""
    x, y = well("linear" if task == "linear" else "logistic", 8000)
    put(con, x, y)
    options = {"algorithm": algorithm, "max_iter": 10, "epsilon": 0}
    serial = fit(con, task, threads=1, **options)
    for seed in range(5):
        model = fit(con, task, threads=4, seed=seed, **options)
        assert model.loss <= serial.loss * 1.01
        assert model.loss == pytest.approx(objective(task, x, y, model), rel=1e-9)


POWERS = {"constant": 0.0, "1/sqrt(i)": 0.5, "1/i": 1.0, "1/i^2": 2.0}


def descent(task, x, y, step, power, iterations):
    """Batch gradient descent as design.md has it, on centred and scaled features."""
    z = np.column_stack([(x - x.mean(axis=0)) / x.std(axis=0), np.ones(len(x))])
    v = np.zeros(z.shape[1])
    share = y.mean()
    v[-1] = share if task == "linear" else np.log(share / (1 - share))
    for i in range(1, iterations + 1):
        v -= step / i**power * z.T @ losses(task, z @ v, y)[1] / len(y)
    coef = v[:-1] / x.std(axis=0)
    return np.append(coef, v[-1] - coef @ x.mean(axis=0))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("schedule", POWERS)
def test_step_schedules_of_batch_descent(con, task, schedule):
    """Nine iterations, to the last digits those of a loop in NumPy."""
    x, y = ill(task)
    put(con, x, y)
    model = fit(
        con, task, algorithm="bgd", schedule=schedule, step=0.3, max_iter=9, epsilon=0, threads=2
    )
    expected = descent(task, x, y, 0.3, POWERS[schedule], 9)
    np.testing.assert_allclose([*model.coef, model.intercept], expected, rtol=1e-9)
    assert model.iterations == 9


@pytest.mark.parametrize("schedule", POWERS)
@pytest.mark.parametrize("algorithm", ["mgd", "hogbatch"])
def test_one_batch_an_epoch_is_batch_descent(con, algorithm, schedule):
    """A stochastic epoch of one batch is one step of gradient descent, with the same schedule."""
    x, y = well("logistic")
    put(con, x, y)
    options = {"schedule": schedule, "step": 0.3, "max_iter": 9, "epsilon": 0, "threads": 1}
    model = fit(con, "logistic", algorithm=algorithm, batch_size=N, **options)
    expected = descent("logistic", x, y, 0.3, POWERS[schedule], 9)
    np.testing.assert_allclose([*model.coef, model.intercept], expected, rtol=1e-9)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("batch_size", [1, 7, 64, 65, 300])
def test_epochs_are_those_of_numpy(con, task, batch_size):
    """Three epochs of mgd in the table's order: the better of the last and the mean iterate."""
    x, y = well(task)
    put(con, x, y)
    options = {"step": 0.1, "max_iter": 3, "epsilon": 0, "sampler": "sequential", "threads": 2}
    model = fit(con, task, algorithm="mgd", batch_size=batch_size, **options)
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    z = np.column_stack([(x - mean) / deviation, np.ones(N)])
    v = np.append(np.zeros(4), y.mean() if task == "linear" else np.log(y.mean() / (1 - y.mean())))
    for epoch in range(3):
        iterates = []
        for at in range(0, N, batch_size):
            some = slice(at, at + batch_size)
            step = 0.1 / np.sqrt(1 + epoch + at / N)  # it shrinks within an epoch too
            slope = losses(task, z[some] @ v, y[some])[1]
            v = v - step * z[some].T @ slope / len(slope)
            iterates.append(v)
    ends = []
    for end in (np.mean(iterates, axis=0), v):
        coef = end[:-1] / deviation
        ends.append(np.append(coef, end[-1] - coef @ mean))
    found = np.append(model.coef, model.intercept)
    assert min(np.abs(found - end).max() for end in ends) < 1e-9


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize(("algorithm", "batch_size"), [("sgd", 1), ("mgd", 5)])
def test_sparse_epochs_end_at_the_mean_of_the_last_half_epoch(con, algorithm, batch_size, epochs):
    """Steps so long that iterates swing round the optimum, whose mean is nearer to it.

    A step by a row (x, y) and by (-x, -y) is the same: v becomes v - step |x|^2 (v - 3 / |x|^2) in
    the direction of x, in any order. Rakhlin, Shamir and Sridharan, Making gradient descent
    optimal for strongly convex stochastic optimization, 2012.
    """
    rows = 40
    sign = np.where(np.arange(rows) % 3, 1.0, -1.0)
    put(con, sign[:, None] * [1.0, -1.0], 3 * sign)
    con.execute("CREATE TABLE s AS SELECT y, sparse([0, 1], x) AS x FROM t")
    options = {"step": 0.95, "schedule": "constant", "fit_intercept": False, "threads": 1}
    options |= {"epsilon": 0, "max_iter": epochs, "batch_size": batch_size}
    model = fit(con, "linear", table="s", algorithm=algorithm, **options)
    steps = rows // batch_size
    swings = 1.5 * (1 - (-0.9) ** np.arange(1, steps * epochs + 1))[-(steps // 2) :]
    np.testing.assert_allclose(model.coef, swings.mean() * np.array([1.0, -1.0]), rtol=1e-5)
    assert abs(swings.mean() - 1.5) < abs(swings[-1] - 1.5) / 2


@pytest.mark.parametrize("algorithm", ["mgd", "hogbatch"])
@pytest.mark.parametrize("batch_size", [64, 65, 300, N])
def test_batches_of_sparse_rows_have_their_size(con, algorithm, batch_size):
    """As of dense rows: the same numbers stored either way give the same steps.

    No intercept and a largest |value| of 1 in each feature, so that neither form is conditioned.
    """
    rng = np.random.default_rng(5)
    x = rng.choice([-1.0, 1.0], size=(N, 4))
    x[N // 2 :] = -x[: N // 2]  # mean 0, deviation 1
    put(con, x, labels("logistic", x @ [1.0, -0.5, 0.25, 0.0], rng))
    options = {"step": 0.3, "max_iter": 3, "epsilon": 0, "threads": 1, "sampler": "sequential"}
    options |= {"algorithm": algorithm, "fit_intercept": False, "batch_size": batch_size}
    dense = fit(con, "logistic", **options)
    con.execute("CREATE TABLE s AS SELECT y, sparse([0, 1, 2, 3], x) AS x FROM t")
    sparse = fit(con, "logistic", table="s", **options)
    assert sparse.history == pytest.approx(dense.history, rel=0.05)
    assert sparse.loss == pytest.approx(dense.loss, rel=0.02)


@pytest.mark.parametrize("algorithm", STOCHASTIC)
@pytest.mark.parametrize("schedule", POWERS)
def test_stochastic_schedules_are_obeyed(con, algorithm, schedule):
    """All lower the loss, no two alike."""
    x, y = well("logistic", 1000)
    put(con, x, y)
    options = {"algorithm": algorithm, "max_iter": 3, "epsilon": 0, "threads": 1}
    model = fit(con, "logistic", schedule=schedule, step=0.05, **options)
    assert model.options["schedule"] == schedule
    assert model.loss < np.log(2) * 0.95
    for other in set(POWERS) - {schedule}:
        assert fit(con, "logistic", schedule=other, step=0.05, **options).loss != model.loss


HINGE_BOUNDS = {"lbfgs": 1e-5, "newton": 1e-5, "bgd": 1e-5, "svrg": 1e-3}


@pytest.mark.sample(1)
@pytest.mark.parametrize("algorithm", [*sorted({*EXACT} - {"newton_cg"}), *STOCHASTIC, "dcd"])
@pytest.mark.parametrize("l2", [0.05])
def test_svm_reaches_the_optimum_of_the_hinge(con, algorithm, l2):
    """All algorithms, against libsvm in scikit-learn: its objective is ours over l2."""
    from sklearn.svm import SVC

    x, y = well("logistic", 400)
    put(con, x, y)
    svc = SVC(kernel="linear", C=1 / (len(y) * l2), tol=1e-9).fit(x, y)
    margins = svc.decision_function(x)
    best = losses("svm", margins, y)[0].mean() + l2 / 2 * (svc.coef_**2).sum()
    model = fit(con, "svm", algorithm=algorithm, l2=l2, max_iter=2000)
    assert model.loss == pytest.approx(objective("svm", x, y, model, l2=l2), rel=1e-9)
    bound = HINGE_BOUNDS.get(algorithm, BOUND)
    assert best * (1 - 1e-7) <= model.loss <= best * (1 + bound)


@pytest.mark.sample(1)
@pytest.mark.parametrize("algorithm", ["bgd", "lbfgs", "newton"])
def test_svm_keeps_to_max_iter(con, algorithm):
    """The hinge's corner gets sharper within the iterations, not beyond them."""
    x, y = well("logistic", 400)
    put(con, x, y)
    model = fit(con, "svm", algorithm=algorithm, l2=0.05, max_iter=30)
    assert model.iterations <= 30
    best = fit(con, "svm", algorithm="lbfgs", l2=0.05).loss
    endless = fit(con, "svm", algorithm=algorithm, l2=0.05, max_iter=500, epsilon=0)
    assert endless.loss <= best * (1 + 1e-3)
