"""Contributions to predictions of trees, beside those of the package `shap` and of LightGBM."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import tuskml
from tuskml.learners.models import FORMAT

sys.path.insert(0, str(Path(__file__).parent))
from shap_trees import CASES, TREES, case

RECORDED = json.loads((Path(__file__).parent / "shap_values.json").read_text())
"""By shap 0.51.0."""


def model_of(trees: list[np.ndarray], d: int) -> tuskml.Model:
    """A model of given trees without a margin before them."""
    coef = [float(d), float(len(trees)), 0.0, *(float(len(tree)) for tree in trees)]
    coef += np.concatenate(trees).ravel().tolist()
    return tuskml.Model(
        "gbdt", coef, 0.0, None, None, 9, 0, d, 0.0, None, TREES, True, "ok", "", 0.0,
        {"tuskml": FORMAT, "objective": "squared"}, None,
    )  # fmt: skip


@pytest.mark.parametrize("place", range(len(CASES)))
def test_contributions_are_those_of_shap(place: int) -> None:
    trees, x = case(*CASES[place])
    told = model_of(trees, x.shape[1]).explain(x)
    expected = RECORDED[place]
    assert told.contributions == pytest.approx(np.array(expected["contributions"]), abs=1e-9)
    assert told.base == pytest.approx(np.full(len(x), expected["base"]), abs=1e-9)


SETS = {
    "regression": (load_diabetes, "squared"),
    "binary": (load_breast_cancer, "logistic"),
    "multiclass": (load_wine, "logistic"),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SETS)
def test_contributions_are_those_of_lightgbm(name: str) -> None:
    """Of the same trees, with missing values."""
    lightgbm = pytest.importorskip("lightgbm")
    load, objective = SETS[name]
    x, y = load(return_X_y=True)
    options = {"objective": objective, "trees": 8, "num_leaves": 9, "min_child_rows": 5}
    with tuskml.connect() as con:
        con.execute("CREATE TABLE t (x DOUBLE[], y DOUBLE)")
        rows = [[row.tolist(), float(label)] for row, label in zip(x, y, strict=True)]
        con.executemany("INSERT INTO t VALUES (?, ?)", rows)
        sql = f"SELECT train_model('gbdt', y, x, '{json.dumps(options)}') FROM t"
        model = tuskml.Model.of(con.execute(sql).fetchall()[0][0])
    x = x[::5].copy()
    x[::3, 0], x[::4, 2] = np.nan, np.nan
    booster = lightgbm.Booster(model_str=model.to_lightgbm())
    theirs = np.asarray(booster.predict(x, pred_contrib=True))
    theirs = theirs.reshape(len(x), -1, x.shape[1] + 1)
    told = model.explain(x)
    ours = np.reshape(told.contributions, (len(x), -1, x.shape[1]))
    assert ours == pytest.approx(theirs[..., :-1], rel=1e-9, abs=1e-9)
    assert np.reshape(told.base, (len(x), -1)) == pytest.approx(
        theirs[..., -1], rel=1e-9, abs=1e-9
    )
