"""scikit-learn's own tests, of which metrics, linear fits and trees are asked of SQL too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import Database, Post
from tally import Tally

HERE = Path(__file__).parent
MODULES = {
    "metrics.tests.test_classification": "shadow_metrics",
    "metrics.tests.test_common": "shadow_metrics",
    "metrics.tests.test_ranking": "shadow_metrics",
    "metrics.tests.test_regression": "shadow_metrics",
    "linear_model.tests.test_base": "shadow_fits",
    "linear_model.tests.test_ridge": "shadow_fits",
    "linear_model.tests.test_coordinate_descent": "shadow_fits",
    "linear_model.tests.test_logistic": "shadow_fits",
    "linear_model.tests.test_quantile": "shadow_fits",
    "linear_model.tests.test_huber": "shadow_fits",
    "linear_model._glm.tests.test_glm": "shadow_fits",
    "ensemble.tests.test_gradient_boosting": "shadow_trees",
    "ensemble._hist_gradient_boosting.tests.test_gradient_boosting": "shadow_trees",
    "ensemble._hist_gradient_boosting.tests.test_monotonic_constraints": "shadow_trees",
    "ensemble._hist_gradient_boosting.tests.test_warm_start": "shadow_trees",
}
DESELECTED = "early_stopping or pickle or errors or custom or X_val or interaction or minmax"
"""Tests, by parts of their names, that have nothing to ask, and take long."""
CONSTANT = "r2 of labels that do not vary is NULL, as corr is in SQL"
REASONS: Mapping[str, str] = {
    "test_regression_metrics_at_limits": CONSTANT,
    "test_log_loss_eps": "probabilities of 0 are clipped at the epsilon of doubles, not of floats",
    "test_quantile_equals_huber": "with l1 a quantile ends 1.3e-6 above the optimum, and its "
    "status is `not converged`",
    "test_squared_error_exact": "rows of little weight are less than a row to `min_child_rows`",
}
"""Why answers differ, by a part of a test's name."""
NOT_EXPRESSIBLE = "SQL has no such call, or its rows are too many"


@pytest.mark.parametrize("module", MODULES)
def test_sql_answers_as_scikit_learn(
    both: Database, module: str, tally: Tally, tmp_path: Path
) -> None:
    found = shadowed(both, module, tmp_path)
    line = tally.line("scikit-learn", module, both.name)
    unexplained = []
    for one in found["different"]:
        reason = next((why for name, why in REASONS.items() if name in one["test"]), None)
        if reason is None:
            unexplained.append(json.dumps(one))
        line.differing[reason or "without a reason"] += 1
    line.cases = sum(found["asked"].values())
    line.agreed = line.cases - len(found["different"])
    line.left_out[NOT_EXPRESSIBLE] = sum(found["not_expressible"].values())
    assert found["asked"], "the tests asked SQL nothing"
    assert unexplained == []


def shadowed(database: Database, module: str, folder: Path) -> dict[str, Any]:
    """What the plugin noted while scikit-learn's tests ran, whether they passed or not."""
    out = folder / "shadow.json"
    plugins = ["-p", "shadows", "-p", MODULES[module], "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", *plugins]
    if module.startswith("ensemble"):
        command += ["-k", f"not ({DESELECTED})"]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "SHADOW_OUT": str(out)}
    if isinstance(database, Post):
        environment["FOREIGN_POSTGRES"] = database.connection.info.dsn
    subprocess.run(
        [*command, "--rootdir", str(folder), "--pyargs", f"sklearn.{module}"],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        timeout=1800,
    )
    found: dict[str, Any] = json.loads(out.read_text())
    return found
