"""Modules of PyTorch, where it is installed, predict by SQL as they do themselves."""

# ruff: noqa: E501, SQL is read better on one line

import re
from typing import Any

import duckdb
import numpy as np
import pytest

import tuskml
from tuskml import OptionError

torch = pytest.importorskip("torch")
nn = torch.nn
KINDS = {"numbers": "y", "two": "CASE WHEN y > 0 THEN 'up' ELSE 'down' END", "three": "i % 3"}
made: list[Any] = []


def net(n_features: int, n_outputs: int) -> Any:
    """A net of two hidden layers; `made` gets it."""
    made.append(
        nn.Sequential(
            nn.Linear(n_features, 8),
            nn.BatchNorm1d(8),
            nn.Tanh(),
            nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Dropout(0.1)),
            nn.Linear(5, n_outputs),
        )
    )
    return made[-1]


def adam(weights: Any) -> Any:
    return torch.optim.Adam(weights, lr=0.01)


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(
        "CREATE TABLE t AS SELECT i, sin(i) AS a, cos(3 * i) AS b, 2 * sin(i) + cos(3 * i) AS y "
        "FROM range(200) r(i)"
    )
    return con


@pytest.mark.parametrize("kind", KINDS)
def test_modules(rows: duckdb.DuckDBPyConnection, kind: str) -> None:
    labels = "numbers" if kind == "numbers" else "classes"
    tuskml.register_learner("net", net, optimizer=adam, labels=labels)
    made.clear()
    rows.execute(
        f"CREATE TABLE m AS SELECT train_model('net', {KINDS[kind]}, [a, b], "
        '\'{"epochs": 9, "batch_size": 50}\') AS m FROM t'
    )
    assert rows.execute("SELECT m.task, m.status, m.iterations FROM m").fetchall() == [
        ("mlp", "not converged", 9)
    ]
    function = "predict" if kind == "numbers" else "predict_probas"
    answers = rows.execute(f"SELECT {function}(m, [a, b]) FROM m, t ORDER BY i").fetchall()
    found = np.array([one if kind == "numbers" else list(one.values()) for (one,) in answers])
    x = rows.execute("SELECT a, b FROM t ORDER BY i").fetch_df().to_numpy()
    with torch.no_grad():
        margins = made[0].eval()(torch.tensor(x, dtype=torch.float32)).numpy()
    expected = {
        "numbers": margins[:, 0],
        "two": 1 / (1 + np.exp([1, -1] * margins[:, :1])),
        "three": np.exp(margins) / np.exp(margins).sum(axis=1, keepdims=True),
    }
    np.testing.assert_allclose(found, expected[kind], rtol=1e-5, atol=1e-6)


def test_equal_seeds_make_equal_nets(rows: duckdb.DuckDBPyConnection) -> None:
    tuskml.register_learner("net", net, optimizer=adam)
    fit = "SELECT train_model('net', y, [a, b], '{{\"epochs\": 2, \"seed\": {}}}') AS m FROM t"
    found = [
        rows.execute(f"SELECT predict(m, [1, 2]) FROM ({fit.format(seed)})").fetchone()
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]


def test_training_lowers_the_loss(rows: duckdb.DuckDBPyConnection) -> None:
    """Half the variance of the labels is 1.25."""
    tuskml.register_learner("net", net, optimizer=adam)
    fit = "SELECT train_model('net', y, [a, b], '{\"epochs\": 60}') AS m FROM t"
    ((loss,),) = rows.execute(f"SELECT m.loss FROM ({fit})").fetchall()
    assert loss < 0.1


@pytest.mark.parametrize(("make", "sentence"), [
    (lambda n, k: nn.Sequential(nn.Linear(n, 4), nn.SiLU(), nn.Linear(4, k)), "the module has SiLU, expected Sequential of Linear"),
    (nn.LSTM, "the module has LSTM"),
    (7, "learner 'net' has an optimizer, expected a function of two numbers"),
])  # fmt: skip
def test_other_modules_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(OptionError, match=re.escape(sentence)):
        tuskml.register_learner("net", make, optimizer=adam)


def test_a_wrong_option(rows: duckdb.DuckDBPyConnection) -> None:
    tuskml.register_learner("net", net, optimizer=adam)
    sentence = "option 'epochs' is 0, expected a whole number of at least 1"
    with pytest.raises(duckdb.Error, match=sentence):
        rows.execute("SELECT train_model('net', y, [a, b], '{\"epochs\": 0}') FROM t")
