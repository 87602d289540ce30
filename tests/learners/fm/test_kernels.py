"""The kernels of factorization machines against sums over all pairs, in NumPy."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from machines import LOGISTIC, SQUARED, Array, losses, machine, margins, objective, rows_of, rules
from scipy.optimize import minimize

from tuskml.kernels.fm import DIVERGED, LATE, OUT_OF_RANGE, PATIENCE, train_machines

KINDS = ("dense float32", "dense float64", "sparse float32", "sparse float64")


def rows(seed: int = 0, n: int = 300, d: int = 5) -> tuple[Array, Array]:
    """Dense rows of features with means and scales, and labels with a product in them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * [1, 3, 0.1, 20, 1] + [0, 5, 1, 300, -2]
    y = x[:, 0] * (x[:, 1] - 5) + x[:, 3] / 10 + rng.normal(size=n) / 10
    return x, y


def categories(seed: int = 0, n: int = 400) -> tuple[list[tuple[Array, Array]], Array, Array]:
    """Rows of two categories and a number, as entries and written out, with classes 0 and 1."""
    rng = np.random.default_rng(seed)
    a, b, z = rng.integers(4, size=n), rng.integers(3, size=n), rng.normal(size=n) * 3
    dense = np.zeros((n, 8))
    dense[np.arange(n), a] = dense[np.arange(n), 4 + b] = 1
    dense[:, 7] = z
    margin = np.where((a + b) % 2 == 0, 1.5, -1.5) + z / 3
    y = (rng.random(n) < 1 / (1 + np.exp(-margin))).astype(float)
    entries = [
        (np.array([7, i, 4 + j]), np.array([v, 1, 1])) for i, j, v in zip(a, b, z, strict=True)
    ]
    return entries, dense, y


@pytest.mark.parametrize("rank", [1, 3, 8, 9, 20, 32, 70])
@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_all_pairs(kind: str, loss: int, rank: int) -> None:
    """In the caller's units: features with means far from 0, and ranks of all widths."""
    x, y = rows()
    x = x.astype(np.float32).astype(float)
    y = (y > y.mean()).astype(float) if loss == LOGISTIC else y
    found = machine(x, y, kind=kind, loss=loss, rank=rank, dim=5 if "sparse" in kind else None)
    m = margins(found.about["intercept"][0], found.numbers[0], x)
    assert found.about["loss"][0] == pytest.approx(losses(loss, m, y).mean(), rel=1e-3)
    assert found.about["loss"][0] < 0.95 * found.about["base_loss"][0]
    assert found.numbers[0].shape == (5, rank + 1)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_weighted_and_penalised(weighted: bool) -> None:
    """Sparse features are divided by the root mean square of their values, which z has too."""
    entries, dense, y = categories()
    weight = np.random.default_rng(1).uniform(0.2, 3, size=len(y)) if weighted else None
    given = {"loss": LOGISTIC, "l2": 0.03, "l2_factors": 0.05}
    found = machine(entries, y, dim=8, weight=weight, **given)
    scale = np.array([1.0] * 7 + [np.sqrt((dense[:, 7] ** 2).mean())])
    numbers = found.numbers[0] * scale[:, None]
    told = objective(
        rules(**given), found.about["intercept"][0], numbers, dense / scale, y, weight
    )
    assert found.about["loss"][0] == pytest.approx(told, rel=1e-5)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC])
def test_steps_are_along_the_gradient(loss: int) -> None:
    """An epoch of short steps is n steps along the gradient of the objective, by differences."""
    entries, dense, y = categories(n=60)
    dense[:, 7] = np.where(dense[:, 7] > 0, 1, 0)
    entries = [(np.flatnonzero(row), np.ones((row != 0).sum())) for row in dense]
    y = (y - y.mean()) / y.std() if loss == SQUARED else y  # labels are in these units
    given = {"loss": loss, "algorithm": 1, "epochs": 1, "l2": 0.2, "l2_factors": 0.3, "init": 0.5}
    rate = 1e-4
    before, after = (
        machine(entries, y, dim=8, learning_rate=one, **given) for one in (1e-30, rate)
    )
    start = np.concatenate([before.about["intercept"], before.numbers[0].ravel()])
    end = np.concatenate([after.about["intercept"], after.numbers[0].ravel()])

    def at(w: Array) -> float:
        return objective(rules(**given), w[0], w[1:].reshape(8, -1), dense, y)

    step = 1e-5 * np.eye(len(start))
    gradient = np.array([(at(start + one) - at(start - one)) / 2e-5 for one in step])
    assert np.abs(gradient).max() > 0.05
    np.testing.assert_allclose((start - end) / (rate * len(y)), gradient, atol=0.01)


PENALISED: dict[str, Any] = {"loss": LOGISTIC, "l2": 0.02, "l2_factors": 0.02, "rank": 2}


@pytest.fixture(scope="module")
def optimum() -> tuple[list[tuple[Array, Array]], Array, float]:
    """Rows of which all features are 0 or 1, and the best of four starts of BFGS in NumPy."""
    _, dense, y = categories(n=80)
    dense[:, 7] = np.where(dense[:, 7] > 0, 1, 0)
    rule, rng = rules(**PENALISED), np.random.default_rng(3)

    def at(w: Array) -> float:
        return objective(rule, w[0], w[1:].reshape(8, 3), dense, y)

    found = [minimize(at, rng.normal(size=25) / 2, method="BFGS").fun for _ in range(4)]
    entries = [(np.flatnonzero(row), np.ones((row != 0).sum())) for row in dense]
    return entries, y, float(min(found))


@pytest.mark.parametrize("algorithm", [0, 1])
def test_the_optimum_is_that_of_a_general_optimiser(optimum: Any, algorithm: int) -> None:
    """The stop rule here is the number of epochs, after which the rate is still above 0."""
    entries, y, best = optimum
    given = PENALISED | {"epochs": 1000, "learning_rate": 0.2 if algorithm == 0 else 0.3}
    found = machine(entries, y, dim=8, algorithm=algorithm, **given)
    assert best - 1e-6 < found.about["loss"][0] < best * 1.002


def test_values_of_repeated_ids_are_added() -> None:
    """Before they are squared: an id does not interact with itself."""
    entries, _, y = categories()
    doubled = [
        (np.concatenate([ids, ids[:1]]), np.concatenate([v, [0.25 * v[0]]]) * [0.75 / 1, 1, 1, 1])
        for ids, v in entries
    ]
    whole, parts = (machine(one, y, dim=8, loss=LOGISTIC) for one in (entries, doubled))
    np.testing.assert_allclose(parts.numbers[0], whole.numbers[0], rtol=1e-4, atol=1e-6)


def test_ids_without_a_row_weigh_nothing() -> None:
    entries, _, y = categories()
    found = machine(entries, y, dim=11, loss=LOGISTIC)
    assert (found.numbers[0][8:] == 0).all()
    assert (found.numbers[0][:8] != 0).all()


@pytest.mark.parametrize("constant", [1.0, 3.0, 0.007, 500.3])
def test_a_feature_that_is_always_the_same_weighs_nothing(constant: float) -> None:
    """Whatever rounding its mean could have over many rows."""
    z = np.random.default_rng(2).normal(size=100_000)
    found = machine(np.column_stack([z, np.full(len(z), constant)]), z, epochs=1)
    assert (found.numbers[0][1] == 0).all()
    assert (found.numbers[0][0] != 0).all()


def test_values_far_from_zero_lose_no_digits() -> None:
    """A feature whose values are a billion times its deviation, as times have them."""
    x, y = rows()
    far = x.copy()
    far[:, 1] = x[:, 1] / 3 + 1e9
    found = machine(far, y)
    m = margins(found.about["intercept"][0], found.numbers[0], far)
    assert found.about["loss"][0] == pytest.approx(losses(SQUARED, m, y).mean(), rel=1e-3)


def test_threads_change_no_bit_without_lock_free() -> None:
    entries, _, y = categories(n=3000)
    one, two = (machine(entries, y, dim=8, loss=LOGISTIC, threads=n) for n in (1, 2))
    assert one.numbers[0].tobytes() == two.numbers[0].tobytes()
    assert one.about.tobytes() == two.about.tobytes()


def test_lock_free_threads_come_to_about_the_same_loss() -> None:
    """In expectation; the tolerance is a tenth of what is gained over the constant."""
    entries, _, y = categories(n=20_000)
    given = {"dim": 8, "loss": LOGISTIC, "epochs": 3}
    one = machine(entries, y, **given).about[0]
    two = machine(entries, y, threads=2, lock_free=True, **given).about[0]
    gained = one["base_loss"] - one["loss"]
    assert gained > 0.05
    assert two["loss"] == pytest.approx(one["loss"], abs=0.1 * gained)


def test_the_best_epoch_on_rows_held_out_is_kept() -> None:
    """Labels are noise, so that all epochs but the first ones are too many."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(60, 20)), rng.normal(size=60)
    held_x, held_y = rng.normal(size=(500, 20)), rng.normal(size=500)
    held = rows_of(held_x.copy(), held_y)
    found = machine(x, y, held, epochs=50, patience=3)
    about = found.about[0]
    assert (about["ending"], about["epochs"]) == (PATIENCE, about["kept"] + 3)
    assert np.isnan(found.history[0, about["epochs"] :]).all()
    m = margins(about["intercept"], found.numbers[0], held_x)
    assert about["held_loss"] == pytest.approx(losses(SQUARED, m, held_y).mean(), rel=1e-3)
    again = machine(x, y, epochs=int(about["kept"]))
    np.testing.assert_array_equal(again.numbers[0], found.numbers[0])


def test_the_loss_falls_from_epoch_to_epoch() -> None:
    x, y = rows()
    history = machine(x, y, epochs=8).history[0]
    assert all(after < before for before, after in pairwise(history))


@pytest.mark.parametrize(
    ("given", "ending"),
    [({"algorithm": 1, "learning_rate": 1e4}, DIVERGED), ({"big": 1e308}, OUT_OF_RANGE)],
)
def test_an_ending_says_what_happened(given: dict[str, Any], ending: int) -> None:
    x, y = rows()
    x = np.sign(x) * given["big"] if "big" in given else x
    found = machine(x, y, **{name: one for name, one in given.items() if name != "big"})
    assert found.about["ending"][0] == ending


def test_the_time_limit_ends_a_training_within_an_epoch() -> None:
    x, y = rows(n=2000)
    late = rows_of(x, y)
    found = train_machines(replace(late, deadline=1e-9), rules(epochs=1000), 0)
    assert (found.about["ending"][0], found.about["epochs"][0]) == (LATE, 0)
    assert np.isfinite(found.numbers[0]).all()
