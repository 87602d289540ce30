"""Boosted trees of rare classes by the defaults and by LightGBM, and trees that diverge."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from forests import LOGISTIC, SQUARED, grown

import tuskml

lightgbm = pytest.importorskip("lightgbm")
SHARES, RATES = (0.005, 0.01, 0.02, 0.05), (0.1, 0.3, 0.5)


def drawn(seed: int, share: float, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which about a share are positive, more where some features are large."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    m = 1.5 * x[:, 0] + x[:, 1] * x[:, 2] + 1.5 * rng.logistic(size=n)
    return x, (m > np.quantile(m, 1 - share)) * 1.0


def log_loss(y: np.ndarray, p: np.ndarray) -> float:
    p = np.clip(p, 1e-15, 1 - 1e-15)
    return float(-np.where(y > 0, np.log(p), np.log1p(-p)).mean())


def by_tuskml(con: Any, data: Any, held: np.ndarray, **options: Any) -> tuple[Any, np.ndarray]:
    """The model and its probabilities of held-out rows."""
    x, y = data
    rows = pd.DataFrame({"x": list(x), "y": y})
    others = pd.DataFrame({"x": list(held), "i": range(len(held))})
    con.register("rows", rows)
    con.register("others", others)
    given = json.dumps({"objective": "logistic"} | options)
    con.execute(
        "CREATE OR REPLACE TEMP TABLE made AS "
        f"SELECT train_model('gbdt', y, x, '{given}') AS mod FROM rows"
    )
    found = con.execute("SELECT predict_proba(mod, x) FROM others, made ORDER BY i").fetchall()
    return con.execute("SELECT mod FROM made").fetchall()[0][0], np.array(found)[:, 0]


def compare(seeds: range, **more: Any) -> None:
    con = tuskml.connect()
    ours, theirs = [], []
    for share in SHARES:
        for rate in RATES:
            for seed in seeds:
                data, (held, labels) = drawn(seed, share), drawn(seed + 1000, share)
                model, p = by_tuskml(con, data, held, learning_rate=rate, **more)
                sampled = {"data_sample_strategy": "goss"} if more.get("goss") else {}
                how = {"objective": "binary", "learning_rate": rate, "verbose": -1, **sampled}
                made = lightgbm.train(how, lightgbm.Dataset(*data), 100)
                constant = log_loss(data[1], np.full(len(data[1]), data[1].mean()))
                if model["status"] == "ok":
                    history = np.array(model["history"])
                    assert model["loss"] < constant
                    assert history[-1] <= history.min() + constant / 10
                else:  # held-out losses of LightGBM's trees are above the constant's there
                    assert model["status"] == "diverged"
                    assert model["loss"] <= constant * (1 + 1e-9)
                ours.append(log_loss(labels, p))
                theirs.append(log_loss(labels, made.predict(held)))
    assert np.mean(np.array(ours) / theirs) < 1.03
    assert np.mean(ours) < 1.03 * np.mean(theirs)


@pytest.mark.nightly
def test_held_out_losses_are_those_of_lightgbm_or_less() -> None:
    compare(range(1))


@pytest.mark.nightly
@pytest.mark.parametrize("more", [{}, {"goss": True}])
def test_held_out_losses_of_many_draws(more: dict[str, Any]) -> None:
    compare(range(8), **more)


@pytest.mark.parametrize("n", [130, 13_000])
@pytest.mark.parametrize("more", [{}, {"monotone": [1]}, {"categorical": [0]}])
def test_rows_of_a_leaf_are_estimated_by_curvature(n: int, more: dict[str, Any]) -> None:
    """Of the squared loss that is the weight: light rows are fewer than they are, others more."""
    x = (np.arange(n) % 13 < 3) * 1.0
    share = np.mean(x)
    for light, splits in ((0.9, True), (20 / n / share / 4, False)):
        forest = grown(x[:, None], x, weight=np.where(x > 0, light, 1.0), trees=1, **LEAST | more)
        estimate = n * share * light / (share * light + 1 - share)
        assert (estimate >= 19.5) == splits
        assert bool(forest.trees) == splits


LEAST = {"min_child_rows": 20, "num_leaves": 2, "objective": SQUARED}


def test_trees_that_diverge_are_left_out() -> None:
    x, y = drawn(1, 0.3, 600)
    forest = grown(x, y, objective=LOGISTIC, trees=20, learning_rate=2.5)
    assert forest.has_diverged(0)
    assert forest.iterations == (
        np.argmin(forest.loss) + 1 if min(forest.loss) < forest.base_loss else 0
    )
    assert not grown(x, y, objective=LOGISTIC, trees=20).has_diverged(0)
    forest = grown(x, y, objective=SQUARED, trees=20, learning_rate=2.5)
    assert (forest.iterations, forest.has_diverged(0)) == (0, True)
    model, _ = by_tuskml(tuskml.connect(), (x, y), x[:5], learning_rate=50.0)
    assert (model["status"], model["converged"]) == ("diverged", False)
    assert model["loss"] == pytest.approx(log_loss(y, np.full(len(y), y.mean())))


def test_monotone_trees_of_three_classes_are_refused() -> None:
    con = tuskml.connect()
    call = 'train_model(\'gbdt\', i % 3, [i], \'{"objective": "logistic", "monotone": [1]}\')'
    with pytest.raises(Exception, match="option 'monotone' is for numbers and two classes"):
        con.execute(f"SELECT {call} FROM range(100) t(i)")


@pytest.mark.parametrize("task", ["gbdt", "random_forest"])
@pytest.mark.parametrize("weight", ["", ", w"])
def test_the_order_of_rows_changes_no_bit_of_any_labels(task: str, weight: str) -> None:
    """Sums of labels that are no whole numbers are exact too; weights of 1 change nothing."""
    con = tuskml.connect()
    con.execute("SET threads = 1")
    con.execute(
        "CREATE TABLE t AS SELECT i, hash(i) % 1009 / 7 AS a, hash(i + 5) % 997 / 3 AS b, "
        "1 + hash(i) % 3 / 3 AS w, sin(i) * 1e3 + cos(i * i) AS y FROM range(1500) r(i)"
    )
    found = [
        con.execute(
            "SELECT m2.payload FROM (SELECT "
            f"train_model('{task}', y, [a, b], '{{\"trees\": 5}}'{given}) AS m2 "
            f"FROM (FROM t ORDER BY {order}))"
        ).fetchone()[0]
        for order, given in (("i", weight), ("a, b, i", weight), ("i", weight or ", 1.0"))
    ]
    assert found[0] == found[1] == found[2]
