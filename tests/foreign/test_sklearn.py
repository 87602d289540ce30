"""scikit-learn's own tests, of which every metric and every linear fit is asked of SQL too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tally import Tally

HERE = Path(__file__).parent
MODULES = {
    "shadow_metrics": [
        "metrics.tests.test_classification",
        "metrics.tests.test_common",
        "metrics.tests.test_ranking",
        "metrics.tests.test_regression",
    ],
    "shadow_fits": [
        "linear_model.tests.test_base",
        "linear_model.tests.test_ridge",
        "linear_model.tests.test_coordinate_descent",
        "linear_model.tests.test_logistic",
        "linear_model._glm.tests.test_glm",
    ],
}
REASONS: Mapping[str, str] = {}
"""Why answers differ, by the beginning of a test's name."""


@pytest.mark.parametrize("plugin", MODULES)
def test_sql_answers_as_scikit_learn(plugin: str, tally: Tally, tmp_path: Path) -> None:
    found = shadowed(plugin, tmp_path)
    unexplained = []
    for one in found["different"]:
        reason = next((r for name, r in REASONS.items() if name in one["test"]), None)
        if reason is None:
            unexplained.append(json.dumps(one))
        tally.note("scikit-learn", "DuckDB", reason or "without a reason")
    tally.add("scikit-learn", "DuckDB", sum(found["asked"].values()) - len(found["different"]))
    assert found["asked"], "the tests asked SQL nothing"
    assert unexplained == []


def shadowed(plugin: str, folder: Path) -> dict[str, Any]:
    """What the plugin noted while scikit-learn's tests ran, whether they passed or not."""
    out = folder / "shadow.json"
    modules = [f"sklearn.{name}" for name in MODULES[plugin]]
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "-p", plugin]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "SHADOW_OUT": str(out)}
    subprocess.run(
        [*command, "--rootdir", str(folder), "--pyargs", *modules],
        cwd=folder,
        env=environment,
        check=False,
        capture_output=True,
        timeout=1800,
    )
    found: dict[str, Any] = json.loads(out.read_text())
    return found
