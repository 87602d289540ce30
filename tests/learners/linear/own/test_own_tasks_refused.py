"""What is wrong with a task of a user's own is one sentence."""

import duckdb
import numpy as np
import pytest
from fitting import fit
from own import HUBER, POISSON
from own_rows import counted, huber_optimum, own_tasks

import tuskml
from tuskml.errors import OptionError
from tuskml.learners.linear.tasks import OWN

ERROR = '\'{"invalid": "error"}\''

__all__ = ["counted", "own_tasks"]

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("own_tasks")]


def broken(m, y):
    if len(m) > 1000:
        raise ZeroDivisionError("by zero\nin line two")
    return np.exp(m) - y * m


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"loss": broken}, "task 'mine': loss raised ZeroDivisionError: by zero in line two in "),
        (
            {"derivative": lambda m, y: (np.exp(m) - y)[:40]},
            r"task 'mine': derivative returned an array of shape \(40,\), expected \(3000,\)",
        ),
        (
            {"loss": lambda m, y: np.exp(m) - y * m if len(m) < 99 else m * np.nan},
            "task 'mine': the mean loss is nan, expected a finite number",
        ),
        (
            {"curvature": lambda m, y: ["a"] * len(m) if len(m) > 100 else np.exp(m)},
            "task 'mine': curvature raised ValueError: could not convert",
        ),
    ],
)
def test_errors_in_a_loss_are_one_sentence(con, counted, change, sentence):
    tuskml.register_task("mine", **POISSON | change)
    with pytest.raises(duckdb.Error, match=sentence) as caught:
        con.execute("SELECT train_model('mine', c, x) FROM t").fetchall()
    assert "\n" not in str(caught.value)
    assert con.execute("SELECT (train_model('own_huber', y, x)).status FROM t").fetchall() == [
        ("ok",)
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"derivative": lambda m, y: np.exp(m) + y}, "task 'mine': derivative is .* at margin"),
        ({"curvature": lambda m, y: np.exp(-m)}, "task 'mine': curvature is"),
        ({"derivative": None}, "derivative of task 'mine' is None, expected a function"),
        ({"curvature": 3}, "curvature of task 'mine' is 3, expected a function"),
        ({"curvature": None}, "is a likelihood, whose standard errors need curvature"),
        ({"response": "log"}, "response is 'log', expected 'identity', 'exp' or 'logistic'"),
        ({"labels": "classes"}, "response 'exp' is for numbers"),
        ({"labels": (2, 1)}, r"labels is \(2, 1\), expected 'numbers', 'classes' or"),
        ({"address": 8}, "has an address and functions"),
    ],
)
def test_tasks_that_cannot_be(change, sentence):
    with pytest.raises(OptionError, match=sentence):
        tuskml.register_task("mine", **POISSON | change)
    assert "mine" not in OWN


@pytest.mark.parametrize("name", ["linear", "matrix_factorization", "a b", "", 7, "x" * 64])
def test_names_that_cannot_be(name):
    with pytest.raises(OptionError, match=r"a name of tuskml's own|expected a letter"):
        tuskml.register_task(name, **HUBER)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("'own_poison', c, x", "expected .*'own_poisson' or 'logit'; did you mean 'own_poisson'?"),
        (
            f"'own_poisson', y, x, {ERROR}",
            "label is -.*, 'own_poisson' needs labels of at least 0",
        ),
        (f"'logit', c, x, {ERROR}", "'logit' needs two classes"),
        (
            "'own_huber', y, x, '{\"algorithm\": \"sgd\"}'",
            "'sgd' is not available with task 'own_huber'",
        ),
    ],
)
def test_calls_that_cannot_be(con, counted, call, sentence):
    with pytest.raises(duckdb.Error, match=sentence):
        con.execute(f"SELECT train_model({call}) FROM t").fetchall()


def test_without_a_curvature_there_is_no_newton(con, counted):
    x, y, _, _ = counted
    tuskml.register_task("mine", **HUBER | {"curvature": None})
    model = fit(con, "mine", epsilon=1e-8)
    assert model.options["algorithm"] == "lbfgs"
    np.testing.assert_allclose([*model.coef, model.intercept], huber_optimum(x, y)[0], rtol=1e-5)
    with pytest.raises(duckdb.Error, match=r"'newton' is not available .* has no curvature"):
        fit(con, "mine", algorithm="newton")


def test_a_user_may_register_a_name_anew(con, counted):
    before = fit(con, "own_huber").coef
    wide = {k: (lambda m, y, f=f: f(m / 2, y / 2)) for k, f in HUBER.items() if k != "formula"}
    chained = {
        "loss": lambda m, y: 4 * wide["loss"](m, y),
        "derivative": lambda m, y: 2 * wide["derivative"](m, y),
        "curvature": wide["curvature"],
    }
    tuskml.register_task("own_huber", **chained)  # delta twice as large
    assert not np.allclose(before, fit(con, "own_huber").coef, rtol=1e-6)
