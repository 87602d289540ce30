"""Small groups whose curvature is known make all their passes in one kernel, by the same rules."""

import json
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from tuskml.learners.linear.algorithms.parts import kept_curvature
from tuskml.learners.linear.problem import Problem

SIZES, D = (900, 700, 300, 90), 4
GRID = {"l2": [0.3, 0.01, 1e-4], "folds": 4}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "logistic": ("logistic", "y", {}),
    "class weights": ("logistic", "y", {"class_weight": ["balanced", [1, 3]]}),
    "poisson": ("poisson", "z", {}),
    "gamma": ("gamma", "z + 1", {}),
    "no intercept": ("logistic", "y", {"fit_intercept": False}),
}


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Features in several units; x3 never varies in the second group."""
    random = np.random.default_rng(8)
    g = np.repeat(np.arange(len(SIZES)), SIZES)
    x = random.normal(size=(len(g), D)) * [1, 10, 0.1, 1] + [0, 3, 0, 5]
    x[g == 1, 3] = 2
    margin = 0.5 * x[:, 0] + random.uniform(-1, 1, len(SIZES))[g] * (x[:, 1] - 3) / 10
    y = margin + random.logistic(size=len(g)) > 0.3
    given = pd.DataFrame({"g": g, "y": y, "z": random.poisson(np.exp(margin)), "x": list(x)})
    con.register("given", given)
    con.execute("CREATE TABLE t AS SELECT * FROM given")
    return con


def told(con: duckdb.DuckDBPyConnection, case: str, **more: Any) -> tuple[np.ndarray, list[Any]]:
    """Metrics (groups, candidates, folds), and iterations and statuses in that order."""
    task, label, options = CASES[case]
    call = f"train_model('{task}', {label}, x, '{json.dumps(GRID | options | more)}')"
    found = con.execute(f"SELECT ({call}).trials FROM t GROUP BY g ORDER BY g").fetchall()
    folds = [[one["folds"] for one in json.loads(text)["trials"]] for (text,) in found]
    metrics = [[[fold["metric"] for fold in one] for one in group] for group in folds]
    ends = [(f["iterations"], f["status"]) for group in folds for one in group for f in one]
    return np.array(metrics), ends


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Of each call of the kernel: groups, and those that it brought to an end."""
    calls: list[tuple[int, int]] = []
    usual = kept_curvature.descend

    def counted(*given: Any) -> Any:
        found = usual(*given)
        calls.append((len(given[1]), int(found.ended.sum())))
        return found

    monkeypatch.setattr(kept_curvature, "descend", counted)
    return calls


@pytest.mark.parametrize("case", CASES)
def test_groups_end_as_in_the_loop(
    rows: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
    ended: list[tuple[int, int]],
    case: str,
) -> None:
    metrics, ends = told(rows, case)
    tried, arrived = np.sum(ended, axis=0)
    assert tried >= 3 * len(SIZES)
    assert arrived >= 0.8 * tried
    monkeypatch.setattr(kept_curvature, "MOST_ROWS", 0)
    ended.clear()
    expected, others = told(rows, case)
    assert not ended
    assert metrics == pytest.approx(expected, abs=1e-9)
    assert np.mean([one == other for one, other in zip(ends, others, strict=True)]) > 0.95


@pytest.mark.parametrize("passes", [1, 2])
def test_groups_that_give_up_go_on_from_there(
    rows: duckdb.DuckDBPyConnection,
    monkeypatch: pytest.MonkeyPatch,
    ended: list[tuple[int, int]],
    passes: int,
) -> None:
    expected, _ = told(rows, "class weights")
    ended.clear()
    monkeypatch.setattr(kept_curvature, "MOST_PASSES", passes)
    found, _ = told(rows, "class weights")
    tried, arrived = np.sum(ended, axis=0)
    assert arrived < tried
    assert found == pytest.approx(expected, abs=1e-7)


def test_losses_that_no_curvature_fits_are_left_to_the_loop(
    rows: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a step makes the objective rise, the group stays where it was."""
    expected, _ = told(rows, "poisson")
    usual = Problem.with_penalty

    def wrong(self: Problem, packed: Any, sign: float = 1.0) -> Any:
        return usual(self, packed * 0.2 if sign > 0 else packed, sign)

    monkeypatch.setattr(Problem, "with_penalty", wrong)
    found, _ = told(rows, "poisson")
    assert found == pytest.approx(expected, abs=1e-5)
