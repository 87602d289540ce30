"""A net that goes on from a model and ends above its loss is that model, and says so."""

import json
from typing import Any

import numpy as np
import pytest

import tuskml

ROWS = """
CREATE TEMP TABLE begun AS
SELECT i, CAST((i * 7919) % 1009 AS DOUBLE PRECISION) / 1009 AS a, 1 + i % 3 AS w,
       CAST((i * 104729) % 997 AS DOUBLE PRECISION) * 3 AS b, 'k' || (i * 31) % 11 AS k
FROM generate_series(1, 300) AS s(i)
"""
LABELS = {
    "numbers": "1e6 * a + 30 * b",
    "two": "CASE WHEN 1500 * a > b THEN 1 ELSE 0 END",
    "three": "CASE WHEN 1500 * a > b THEN 1 WHEN b > 2000 THEN 2 ELSE 0 END",
}
GOOD = {"layers": [8], "max_iter": 20, "learning_rate": 0.02, "batch_size": 64}
STEEP = {"layers": [8], "max_iter": 2, "learning_rate": 40}


class Rows:
    """Nets of one table of a database."""

    def __init__(self, name: str, session: Any) -> None:
        session.execute(ROWS)
        self.name, self.session = name, session
        self.features = {"duck": "[a, b]", "post": "ARRAY[a, b]"}[name]

    def fit(self, label: str, options: dict[str, Any]) -> tuskml.Model:
        """A model of labels by weighted rows."""
        given = json.dumps(options, default=str)
        sql = (
            f"SELECT train_model('mlp', {LABELS[label]}, {self.features}, "
            f"'{given}', w) AS m FROM begun"
        )
        if self.name == "duck":
            return tuskml.Model.of(self.session.execute(sql).fetchone()[0])
        sql = f"SELECT to_jsonb(m) - 'payload' FROM ({sql}) AS f"
        return tuskml.Model.of(self.session.execute(sql).fetchone()[0])


@pytest.fixture
def rows(session: tuple[str, Any]) -> Rows:
    return Rows(*session)


@pytest.mark.parametrize(
    "more",
    [{}, {"algorithm": "sgd"}, {"validation": 0.2}, {"learning_rate": 1e30}, {"time": "20s"}],
    ids=["adam", "sgd", "held", "infinite", "limit"],
)
@pytest.mark.parametrize("label", LABELS)
def test_no_net_is_worse_than_its_start(rows: Rows, label: str, more: dict[str, Any]) -> None:
    kind = {} if label == "numbers" else {"objective": "logistic"}
    first = rows.fit(label, GOOD | kind)
    start = {"coef": list(first.coef), "intercept": first.intercept}
    model = rows.fit(label, STEEP | kind | more | {"warm_start": start})
    assert model.status == ("early stop" if "validation" in more else "worse than start")
    assert list(model.coef) == list(first.coef)
    assert model.iterations == 0
    assert model.converged == ("validation" in more)
    if "validation" not in more:
        assert model.loss == pytest.approx(first.loss, rel=1e-5)


@pytest.mark.parametrize("label", LABELS)
def test_a_net_that_learns_more_goes_on(rows: Rows, label: str) -> None:
    kind = {} if label == "numbers" else {"objective": "logistic"}
    first = rows.fit(label, GOOD | kind | {"max_iter": 3})
    start = {"coef": list(first.coef), "intercept": first.intercept}
    model = rows.fit(label, GOOD | kind | {"warm_start": start})
    assert model.status == "ok"
    assert model.loss < first.loss


def test_a_start_without_time_for_a_step_is_kept(rows: Rows) -> None:
    first = rows.fit("numbers", GOOD)
    start = {"coef": list(first.coef), "intercept": first.intercept}
    model = rows.fit("numbers", STEEP | {"time": "0.000001s", "warm_start": start})
    assert model.status == "time limit"
    assert np.array_equal(model.coef, first.coef)
