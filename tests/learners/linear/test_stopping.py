"""When a training stops: iterations, time, validation, criteria, and where it starts anew."""

import itertools
import json

import numpy as np
import pytest
from fitting import fit, losses, objective, put
from problems import (
    EXACT,
    STOCHASTIC,
    TASKS,
    assert_optimal,
    ill,
    labels,
    well,
)

pytestmark = pytest.mark.native


@pytest.mark.sample(9)
@pytest.mark.parametrize("epochs", [1, 7, 40])
@pytest.mark.parametrize(
    ("task", "algorithm"),
    [
        *itertools.product(TASKS, [*STOCHASTIC, *EXACT]),
        *itertools.product(["svm"], [*STOCHASTIC, *sorted({*EXACT} - {"newton_cg"})]),
    ],
)
def test_epsilon_0_runs_all_iterations(con, task, algorithm, epochs):
    """Exactly max_iter, also far beyond the point where nothing moves any more."""
    put(con, *well("linear" if task == "linear" else "logistic", 200))
    model = fit(con, task, algorithm=algorithm, epsilon=0, max_iter=epochs)
    assert model.iterations == epochs
    assert np.isfinite([model.loss, model.intercept, *model.coef]).all()


@pytest.mark.parametrize("algorithm", [*EXACT, *STOCHASTIC])
def test_warm_start_from_a_model(con, algorithm):
    """From the optimum nothing is left to do; the whole model value is a valid start."""
    x, y = ill("logistic")
    put(con, x, y)
    text = con.execute(
        "SELECT to_json(train_model('logistic', y, x, '{\"epsilon\": 1e-10}'))::VARCHAR FROM t"
    ).fetchone()[0]
    best = json.loads(text)
    model = fit(con, "logistic", algorithm=algorithm, warm_start=best, epsilon=1e-6)
    assert (model.status, model.iterations) == ("ok", 0)
    np.testing.assert_allclose(model.coef, best["coef"], rtol=1e-9)
    assert model.loss == pytest.approx(best["loss"], rel=1e-12)


@pytest.mark.parametrize("algorithm", EXACT)
def test_warm_start_elsewhere_ends_at_the_same_optimum(con, algorithm):
    x, y = well("logistic")
    put(con, x, y)
    start = {"coef": [-1.0, 2.0, 0.0, 1.0], "intercept": -1.0}
    model = fit(con, "logistic", algorithm=algorithm, warm_start=start, epsilon=1e-9)
    assert model.history[0] == pytest.approx(
        losses("logistic", x @ start["coef"] - 1.0, y)[0].mean(), rel=1e-9
    )
    assert_optimal("logistic", x, y, model, 1e-9, {})


@pytest.mark.parametrize("algorithm", ["bgd", "lbfgs", "svrg", "sgd", "mgd", "hogwild"])
def test_validation_stops_early(con, algorithm):
    """With nearly as many features as rows, the held-out loss soon rises."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(160, 90))
    y = labels("logistic", x[:, 0], rng)
    put(con, x, y)
    model = fit(con, "logistic", algorithm=algorithm, validation=0.25, max_iter=2000)
    assert model.status == "early stop"
    assert not model.converged
    assert model.iterations < 2000
    assert model.n_rows == 160
    overfit = fit(con, "logistic", l2=1e-6)
    fresh = rng.normal(size=(5000, 90))
    truth = labels("logistic", fresh[:, 0], rng)
    stopped, far = (objective("logistic", fresh, truth, m) for m in (model, overfit))
    assert stopped < 0.8 * far


@pytest.mark.parametrize("algorithm", [*EXACT, *STOCHASTIC])
def test_time_limit(con, algorithm):
    """Without a tolerance the limit ends it, and says so; the loss is that of the result."""
    x, y = ill("logistic")
    put(con, x, y)
    options = {"algorithm": algorithm, "epsilon": 0, "max_iter": 2**31 - 1, "time": "0.05s"}
    model = fit(con, "logistic", **options)
    assert (model.status, model.converged) == ("time limit", False)
    assert 0 < model.iterations < 2**31 - 1
    assert model.loss == pytest.approx(objective("logistic", x, y, model), rel=1e-9)


@pytest.mark.parametrize("criterion", ["gradient", "weights", "loss"])
@pytest.mark.parametrize("algorithm", EXACT)
def test_criteria(con, algorithm, criterion):
    """Each criterion stops at the optimum, to about its own measure."""
    x, y = well("logistic")
    put(con, x, y)
    best = fit(con, "logistic", epsilon=1e-11)
    model = fit(con, "logistic", algorithm=algorithm, converge=criterion, epsilon=1e-8)
    assert (model.status, model.converged) == ("ok", True)
    assert model.loss == pytest.approx(best.loss, rel=1e-7)


@pytest.mark.parametrize("algorithm", EXACT)
def test_history_is_the_objective_by_iteration(con, algorithm):
    """It starts at the start, ends at the result and, for these algorithms, does not rise."""
    x, y = well("logistic")
    put(con, x, y)
    model = fit(con, "logistic", algorithm=algorithm, l2=0.1, threads=2)
    share = y.mean()
    assert model.history[0] == pytest.approx(
        -share * np.log(share) - (1 - share) * np.log(1 - share), rel=1e-9
    )
    assert model.history[-1] == pytest.approx(model.loss, rel=1e-12)
    if algorithm != "svrg":
        assert (np.diff(model.history) <= 1e-14).all()
    assert len(model.history) == model.iterations + 1
