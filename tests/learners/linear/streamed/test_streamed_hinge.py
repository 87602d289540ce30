"""Trainings of the hinge by row group end where held-out rows prove the optimum."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from tuskml import Model, train
from tuskml.learners.linear.streamed import skipping, training
from tuskml.learners.linear.streamed import training as streaming

ROWS, GROUP = 400_000, 4096
FEATURES = ["x0", "x1", "x2"]
L2, EPSILON = 1e-4, 0.01
MADE = f"""
SELECT *, noise < 1 / (1 + exp(-(2 * (x0 - 1) + x1 / 5 - 0.3))) AS late
FROM (SELECT (hash(i) % 10000) / 5000 AS x0, (hash(-i) % 10000) / 500 - 10 AS x1,
             100 + (hash(i * 7 + 1) % 10000) / 100 AS x2,
             (hash(i * 3 + 2) % 10000) / 10000 AS noise
      FROM range({ROWS}) t(i))
"""


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 98 row groups."""
    path = tmp_path_factory.mktemp("hinge") / "rows.parquet"
    with duckdb.connect() as con:
        con.execute(f"COPY ({MADE}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {GROUP})")
    return path


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    with duckdb.connect() as con:
        return con.execute(MADE).fetchnumpy()


def trained(source: Path, **given: Any) -> Model:
    given = {"label": "late", "features": FEATURES, "l2": L2, "epsilon": EPSILON} | given
    return train(":memory:", "svm", source=source, **given)


def hinge(model: Model, rows: dict[str, Any]) -> float:
    """The objective on all rows."""
    x = np.stack([rows[name] for name in FEATURES], axis=1)
    margin = np.where(rows["late"], 1, -1) * (x @ np.array(model.coef) + model.intercept)
    return float(np.maximum(0, 1 - margin).mean() + L2 / 2 * np.square(model.coef).sum())


@pytest.fixture(scope="module")
def least(parquet: Path, rows: dict[str, Any]) -> float:
    """The least objective, to a thousandth at most."""
    return hinge(trained(parquet, algorithm="newton", epsilon=2e-3), rows)


@pytest.mark.parametrize("algorithm", ["sgd", "mgd"])
def test_held_out_rows_prove_the_optimum(
    parquet: Path, rows: dict[str, Any], least: float, algorithm: str
) -> None:
    """A small l2 magnifies the sample's noise in the gradient, and it ends all the same."""
    model = trained(parquet, algorithm=algorithm)
    assert (model.status, model.converged) == ("ok", True)
    assert model.options["counters"]["rows_read"] < ROWS
    assert hinge(model, rows) <= least + EPSILON


def test_without_that_proof_it_does_not_end(
    parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "least_objective", lambda *_: None)
    model = trained(parquet, algorithm="sgd", max_iter=3)
    assert model.status == "not converged"
    assert model.iterations == 3


@pytest.fixture
def few_are_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if trainings to 0.01 read 40,000 rows, of which they take 8,192 at a time."""
    monkeypatch.setattr(skipping, "USUAL_ROWS", 40_000)
    monkeypatch.setattr(streaming, "CHUNK_ROWS", 8192)


def test_auto_reads_a_part(
    parquet: Path, rows: dict[str, Any], least: float, few_are_usual: None
) -> None:
    model = trained(parquet)
    assert (model.status, model.converged) == ("ok", True)
    assert model.options["counters"]["rows_read"] < ROWS / 2
    assert model.options["counters"]["row_groups_read"] < skipping.FIRST_ROW_GROUPS
    assert hinge(model, rows) <= least + EPSILON


def test_other_rows_have_to_confirm_it(
    parquet: Path, few_are_usual: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no other rows do, row groups are not alike, and more of them are held out."""
    monkeypatch.setattr(streaming, "is_confirmed", lambda *_: False)
    assert trained(parquet).options["counters"]["row_groups_read"] >= skipping.FIRST_ROW_GROUPS
