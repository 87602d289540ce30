"""The lasso on STRADS's sample: its published optima, by the kernels and by scheduled updates."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rows import block

import tuskml
from tuskml.kernels.passes import Pass
from tuskml.kernels.paths import SQUARED, Rules, fit

sys.path.append(str(Path(__file__).parent))
from strads import OBJECTIVES, objective, sample


@pytest.mark.native
@pytest.mark.parametrize("kind", ["dense float64", "sparse float64"])
@pytest.mark.parametrize("penalty", OBJECTIVES)
def test_the_kernels_reach_the_published_optimum(kind, penalty):
    x, y = sample()
    rows = Pass(block(x, y, kind), SQUARED, None, None, False, 1)
    rules = Rules(SQUARED, 1, 1.0, 1e-12, 10**6, penalties=(penalty / len(y),))
    points, weights = fit(rows, rules, None, 0)
    best = OBJECTIVES[penalty]
    assert objective(x, y, weights[0].dense(0, 1000), penalty) == pytest.approx(best, abs=1e-10)
    assert points[0, 0]["objective"] * len(y) == pytest.approx(best, abs=1e-10)


@pytest.mark.nightly
def test_scheduled_updates_reach_the_published_optimum(con, tmp_path):
    x, y = sample()
    for place, part in enumerate(np.array_split(np.arange(500), 2)):
        pq.write_table(pa.table({"x": list(x[part]), "y": y[part]}), tmp_path / f"{place}.parquet")
    found = tuskml.train(
        con, "lasso", source=f"{tmp_path}/*.parquet", label="y", features="x", tol=1e-8,
        fit_intercept=False, executor="threads", placement="dp", **{"lambda": 0.1 / 500},
    )  # fmt: skip
    best = OBJECTIVES[0.1]
    assert objective(x, y, np.array(found.coef), 0.1) == pytest.approx(best, abs=1e-8)
    assert "scheduled updates" in found.plan
