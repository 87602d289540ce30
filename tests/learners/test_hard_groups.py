"""Hard groups of every task in one statement: what a good status promises of each model."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuskml.groups.selection.trials import USABLE

NUMBERS = {
    "linear": {},
    "linear by sgd": {"task": "linear", "algorithm": "sgd", "max_iter": 3},
    "huge steps": {"task": "linear", "algorithm": "mgd", "step": 1e4, "max_iter": 3},
    "lasso": {"lambda": 0.01},
    "gbdt": {"trees": 5},
    "gbdt, huge rate": {"task": "gbdt", "trees": 5, "learning_rate": 5.0},
    "mlp": {"max_iter": 2, "layers": [4]},
    "mlp, huge rate": {"task": "mlp", "max_iter": 3, "layers": [4], "learning_rate": 1e4},
    "fm": {"max_iter": 3},
    "fm, huge rate": {"task": "fm", "max_iter": 3, "learning_rate": 1e3},
}
BY_CLASS = {"objective": "logistic"}
CLASSES = {
    "logistic": {"l2": 0.01},
    "huge steps": {"task": "logistic", "algorithm": "sgd", "step": 1e4, "max_iter": 3},
    "sparse_logistic": {"lambda": 0.01},
    "svm": {"l2": 0.01},
    "gbdt": {**BY_CLASS, "trees": 20},
    "gbdt, high rate": {"task": "gbdt", **BY_CLASS, "trees": 40, "learning_rate": 0.5},
    "gbdt, huge rate": {"task": "gbdt", **BY_CLASS, "trees": 5, "learning_rate": 30.0},
    "gbdt, goss": {"task": "gbdt", **BY_CLASS, "trees": 20, "goss": True, "learning_rate": 0.5},
    "random_forest": {"objective": "gini", "trees": 4},
    "mlp": {**BY_CLASS, "max_iter": 2, "layers": [4]},
    "mlp, huge rate": {
        "task": "mlp", **BY_CLASS, "max_iter": 3, "layers": [4], "learning_rate": 1e4
    },
    "fm": {**BY_CLASS, "max_iter": 3},
    "fm, huge rate": {"task": "fm", **BY_CLASS, "max_iter": 3, "learning_rate": 1e3},
}  # fmt: skip
OF_ROWS_HELD_OUT = ("random_forest",)
"""Whose loss is out of bag, so that a constant may be better."""


def groups(seed: int) -> pd.DataFrame:
    """Of few rows, of rare classes, of labels that are all the same, and of far labels."""
    rng = np.random.default_rng(seed)
    sizes = [1, 2, 3, int(rng.integers(4, 30)), 200, 400, 100]
    frames = []
    for g, n in enumerate(sizes):
        a, b = rng.normal(size=(2, n))
        share = (0.5, 0.5, 0.5, 0.2, 0.01, 0.03, 0.0)[g]
        high = (a + 0.5 * rng.normal(size=n) > np.quantile(a, 1 - share)) if share else a > 99
        unit = 10.0 ** rng.integers(-3, 4)
        y = unit * (a * b + 0.3 * rng.normal(size=n)) * (g < 6)
        frames.append(pd.DataFrame({"g": g, "a": a, "b": b, "y": y, "c": 1.0 + high}))
    return pd.concat(frames)


def models_of(name: str, given: dict[str, Any], label: str, con: Any) -> list[tuple[Any, ...]]:
    options = {key: value for key, value in given.items() if key != "task"}
    trained = f"train_model('{given.get('task', name)}', {label}, [a, b], '{json.dumps(options)}')"
    return con.execute(
        f"SELECT mod, predict(mod, [0.3, -0.2]) FROM (SELECT g, {trained} AS mod FROM groups "
        "GROUP BY g) ORDER BY g"
    ).fetchall()


TWO = settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", NUMBERS)
@TWO
@given(seed=st.integers(0, 2**32 - 1))
def test_a_model_of_numbers_is_no_worse_than_a_constant(con: Any, name: str, seed: int) -> None:
    frame = groups(seed)
    con.register("groups", frame)
    found = models_of(name, NUMBERS[name], "y", con)
    for (model, predicted), (_, rows) in zip(found, frame.groupby("g"), strict=True):
        assert math.isfinite(predicted)
        if model["status"] in USABLE:
            constant = rows["y"].var(ddof=0) / 2
            assert model["loss"] <= constant * (1 + 1e-6) + 1e-9 * (rows["y"] ** 2).max()
        else:
            assert not model["converged"] or model["status"] == "too few rows"


@pytest.mark.parametrize("name", CLASSES)
@TWO
@given(seed=st.integers(0, 2**32 - 1))
def test_a_model_of_classes_is_no_worse_than_a_constant(con: Any, name: str, seed: int) -> None:
    """Probabilities add up to 1, and of a class that was seen alone it is 1."""
    frame = groups(seed)
    con.register("groups", frame)
    found = models_of(name, CLASSES[name], "c", con)
    for (model, predicted), (_, rows) in zip(found, frame.groupby("g"), strict=True):
        assert predicted in set(rows["c"])
        share = (rows["c"] == 2).mean()
        if share in (0, 1):
            assert (model["status"], model["loss"]) == ("one class", 0)
        elif model["status"] in USABLE and model["task"] not in OF_ROWS_HELD_OUT:
            entropy = -share * math.log(share) - (1 - share) * math.log(1 - share)
            assert model["loss"] <= (1 if model["task"] == "svm" else entropy) * (1 + 1e-6)
    if CLASSES[name].get("task", name) == "svm":
        return
    task, options = CLASSES[name].get("task", name), dict(CLASSES[name])
    options.pop("task", None)
    shares = con.execute(
        "SELECT g, predict_probas(mod, [0.3, -0.2]), predict_proba(mod, [0.3, -0.2]), "
        f"predict_proba(mod, [0.3, -0.2], '2') FROM (SELECT g, train_model('{task}', c, [a, b], "
        f"'{json.dumps(options)}') AS mod FROM groups GROUP BY g) ORDER BY g"
    ).fetchall()
    for g, each, higher, of_two in shares:
        assert sum(each.values()) == pytest.approx(1, abs=1e-12)
        seen = set(frame["c"][frame["g"] == g])
        if len(seen) == 1:
            assert (list(each.values()), higher) == ([1], None)
            assert of_two == (1 if seen == {2.0} else None)
        else:
            assert higher == of_two == each["2"]
