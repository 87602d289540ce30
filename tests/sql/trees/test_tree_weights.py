"""The task `gbdt` with weights of rows, in both databases."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forests import grown

sys.path.append(str(Path(__file__).parents[1] / "inference"))

from databases import Client, client, here, there

from tuskml.kernels.trees.boosting import LOGISTIC, SOFTMAX, SQUARED

__all__ = ["client", "here", "there"]

RANDOM = np.random.default_rng(17)
N = 600
X = RANDOM.integers(0, 20, (N, 2)) * 1.0
Y = np.sin(X[:, 0] / 4) + X[:, 1] / 20 + RANDOM.normal(scale=0.3, size=N)
WEIGHT = RANDOM.integers(0, 9, N) / 4
HOW = {"trees": 15, "num_leaves": 7, "min_child_rows": 1, "min_child_hessian": 4.0}
OBJECTIVES = {"squared": SQUARED, "logistic": LOGISTIC, "classes": SOFTMAX}


def labels_of(name: str) -> Any:
    return {
        "squared": Y,
        "logistic": (Y > 0.5) * 1.0,
        "classes": np.digitize(Y, [0.3, 0.9]) * 1.0,
    }[name]


@pytest.mark.parametrize("storage", ["dense", "float"])
@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_sql_trains_what_the_kernels_grow(client: Client, name: str, storage: str) -> None:
    """Rows of weight 0 are skipped."""
    y, given = labels_of(name), "squared" if name == "squared" else "logistic"
    more = {"w": WEIGHT}
    model = client.fit("gbdt", X, y, storage, more=more, objective=given, threads=1, **HOW)
    used = WEIGHT > 0
    forest = grown(X[used], y[used], weight=WEIGHT[used], objective=OBJECTIVES[name], **HOW)
    assert (model.status, model.n_rows) == ("ok", used.sum())
    assert model.loss == pytest.approx(forest.loss[-1], rel=1e-9)
    plain = client.fit("gbdt", X, y, storage, objective=given, threads=1, **HOW)
    assert abs(plain.loss - model.loss) > 1e-4


def test_held_out_rows_keep_their_weights(client: Client) -> None:
    """Rows of tiny weight say nothing, whatever their labels: neither trained on nor held out."""
    wild = RANDOM.random(N) < 0.3
    y, weight = np.where(wild, 50.0, Y), np.where(wild, 1e-12, 1.0)
    how = HOW | {"validation": 0.3, "patience": 5, "threads": 1}
    model = client.fit("gbdt", X, y, more={"w": weight}, **how)
    assert model.loss < 0.2
    assert client.fit("gbdt", X, y, **how).loss > 1


@pytest.mark.parametrize("rows", [100, N])
@pytest.mark.parametrize("unit", [1e-270, 1e-30, 1e30, 1e300])
@pytest.mark.parametrize("given", ["squared", "logistic", "huber"])
def test_only_the_shares_of_weights_count(
    client: Client, rows: int, unit: float, given: str
) -> None:
    """Few rows take another search than many."""
    y = labels_of("logistic" if given == "logistic" else "squared")[:rows]
    how = {"objective": given, "trees": 5, "min_child_rows": 5, "threads": 1}
    one, other = (
        client.fit("gbdt", X[:rows], y, more={"w": by * (WEIGHT[:rows] + 0.1)}, **how)
        for by in (1.0, unit)
    )
    assert (one.status, other.status) == ("ok", "ok")
    assert other.loss == pytest.approx(one.loss, rel=1e-5)
