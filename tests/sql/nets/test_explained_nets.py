"""explain_prediction of nets in both databases: integrated gradients, whose closed form for one hidden layer
and whose integrals over many points for several layers are computed here."""

# ruff: noqa: E501, SQL is read better on one line

from typing import Any

import numpy as np
import pytest
from scipy.special import erfc

from tuskml import Model
from tuskml.learners.nets.layers import layers_in

ROWS = """SELECT i, CAST((i * 7919) % 31 AS DOUBLE PRECISION) / 10 - 1 AS a, CAST((i * 10473) % 47 AS DOUBLE PRECISION) / 20 - 1 AS b,
    CAST((i * 31) % 5 AS DOUBLE PRECISION) - 2 AS c, CASE WHEN i % 3 = 0 THEN 'sun' WHEN i % 7 = 0 THEN 'fog' ELSE 'rain' END AS sky
    FROM generate_series(1, 300) AS r(i)"""
LABELS = {
    "numbers": ("a * b - 2 * c", "squared"),
    "two": ("CASE WHEN a * b > c THEN 1 ELSE 0 END", "logistic"),
    "three": ("CASE WHEN a > 0.7 THEN 0 WHEN b > c THEN 1 ELSE 2 END", "logistic"),
}
ROW = np.array([1.3, -0.7, 2.0])
VALUES = {
    "relu": lambda z: np.maximum(z, 0),
    "tanh": np.tanh,
    "gelu": lambda z: z * 0.5 * erfc(-z / np.sqrt(2)),
}


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    """Answers of a database to SQL, with a table of rows."""
    name, connection = session
    connection.execute(f"CREATE {'TEMP ' if name == 'post' else ''}TABLE t AS {ROWS}")
    return lambda sql: connection.execute(sql).fetchall()


@pytest.fixture
def whole(session: tuple[str, Any]) -> str:
    """A model m as Python reads it."""
    return "m" if session[0] == "duck" else "to_jsonb(m)"


def net(
    ask: Any, whole: str, kind: str, activation: str, layers: str = "[6]", more: str = ""
) -> tuple[str, Model]:
    """A trained net as SQL, and as Python has it."""
    label, objective = LABELS[kind]
    options = f'{{"objective": "{objective}", "activation": "{activation}", "layers": {layers}, "max_iter": 5, "batch_size": 32, "learning_rate": 0.05{more}}}'
    sql = f"SELECT train_model('mlp', {label}, ARRAY[a, b, c], '{options}') AS m FROM t"
    ((model,),) = ask(f"SELECT {whole} FROM ({sql}) AS n")
    return f"({sql})", Model.of(model)


def margins_of(model: Model, x: np.ndarray) -> np.ndarray:
    """Margins (n, K) of rows (n, d), in NumPy."""
    activation, layers = layers_in(model.weights())
    value = VALUES[("relu", "tanh", "gelu")[activation]]
    for place, (weights, biases) in enumerate(layers):
        x = x @ weights.T + biases
        x = value(x) if place + 1 < len(layers) else x
    return x


def closed_form(model: Model, x: np.ndarray) -> np.ndarray:
    """(K, d): along the path a unit adds its slope's mean, its rise over that of its sum."""
    activation, ((first, biases), (last, _)) = layers_in(model.weights())
    value = VALUES[("relu", "tanh", "gelu")[activation]]
    slope = (value(first @ x + biases) - value(biases)) / (first @ x)
    return np.asarray((last * slope) @ (first * x))


def by_points(model: Model, x: np.ndarray, n: int = 20_000) -> np.ndarray:
    """(K, d): gradients by differences at the middles of n pieces of the path."""
    middles = (np.arange(n) + 0.5)[:, None] / n * x
    step = 1e-6
    return np.stack(
        [
            x[j]
            * (
                margins_of(model, middles + step * unit) - margins_of(model, middles - step * unit)
            ).mean(axis=0)
            / (2 * step)
            for j, unit in enumerate(np.eye(len(x)))
        ],
        axis=1,
    )


def explained(ask: Any, model: str, margins: int) -> np.ndarray:
    """(K, 1 + d): base values and contributions."""
    row = f"ARRAY[{', '.join(map(repr, ROW.tolist()))}]::double precision[]"
    found = ask(f"SELECT contribution FROM explain_prediction({model}, {row})")
    return np.ravel(found).reshape(margins, -1)


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("activation", VALUES)
def test_one_hidden_layer_has_the_closed_form(
    ask: Any, whole: str, kind: str, activation: str
) -> None:
    sql, model = net(ask, whole, kind, activation)
    found = explained(ask, sql, 3 if kind == "three" else 1)
    margins = margins_of(model, np.stack([0 * ROW, ROW]))
    np.testing.assert_allclose(found[:, 0], margins[0], rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), margins[1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found[:, 1:], closed_form(model, ROW), rtol=1e-8, atol=1e-10)
    told = model.explain(ROW[None])
    np.testing.assert_allclose(np.ravel(told.contributions), found[:, 1:].ravel(), rtol=1e-12)


@pytest.mark.parametrize("activation", VALUES)
def test_several_layers_have_the_integrals(ask: Any, whole: str, activation: str) -> None:
    sql, model = net(ask, whole, "three", activation, layers="[8, 6, 5]")
    found = explained(ask, sql, 3)
    np.testing.assert_allclose(found.sum(axis=1), margins_of(model, ROW[None])[0], rtol=1e-9)
    np.testing.assert_allclose(found[:, 1:], by_points(model, ROW), rtol=1e-3, atol=1e-4)
    assert np.ptp(found) > 0.1


def test_rows_with_names_and_embedded_categories(ask: Any) -> None:
    options = (
        '{"layers": [4], "max_iter": 20, "batch_size": 32, "learning_rate": 0.05, "embedding": 2}'
    )
    names = f"(SELECT train_model('mlp', t.a + t.c, x, '{options}') AS m FROM t, LATERAL (SELECT t.a, t.b, t.sky) AS x) AS n"
    row = "LATERAL (SELECT 1.5 AS a, 'sun' AS sky, 2.0 AS b) AS x"
    found = dict(
        ask(
            f"SELECT e.feature, e.contribution FROM {names}, {row}, LATERAL explain_prediction(m, x) AS e"
        )
    )
    assert set(found) == {"base value", "a", "b", "sky[fog]", "sky[rain]", "sky[sun]"}
    assert found["sky[rain]"] == found["sky[fog]"] == 0 != found["sky[sun]"]
    ((margin,),) = ask(f"SELECT decision(m, x) FROM {names}, {row}")
    assert sum(found.values()) == pytest.approx(margin, rel=1e-9)


def test_missing_features_and_wrong_rows(ask: Any, whole: str) -> None:
    sql, model = net(ask, whole, "numbers", "relu")
    told = model.explain(np.array([[np.nan, 1.0, 2.0], [0.0, 1.0, 2.0]]))
    assert np.isnan(told.contributions[0]).all()
    assert told.contributions[1, 0] == 0
    with pytest.raises(Exception, match="the model has 3 features, row has 2"):
        ask(f"SELECT * FROM explain_prediction({sql}, ARRAY[1.0, 2.0]::double precision[])")
