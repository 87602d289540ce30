"""glum's golden master: coefficients of penalised models on rows that its benchmarks simulate.

Rows and coefficients come from glum's source distribution (scripts/foreign_packages.sh).
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from foreign_databases import Database
from tally import Number, Tally

SUITES = Path(__file__).parents[2] / "build" / "foreign" / "suites"
TASKS = {
    "normal": "linear",
    "poisson": "poisson",
    "gamma": "gamma",
    "tweedie_p=1.5": "tweedie",
    "binomial": "logistic",
}
INVERSES = {"normal": lambda m: m, "binomial": lambda m: 1 / (1 + np.exp(-m))}
PENALTIES: Mapping[str, Mapping[str, object]] = {
    "regularization": {"l2": 1.0},
    "half-regularization": {"l2": 0.5},
    "elastic-net": {"l1": 0.5, "l2": 0.5},
    "lasso": {"l1": 1.0},
    "fit_intercept": {"l2": 1.0, "fit_intercept": False},
}
LEFT_OUT = {
    "variable_p": "tuskml has one penalty for all features",
    "bounds": "tuskml has no bounds on coefficients of linear models",
    "CV": "glum's folds are its own",
    "custom": "tuskml has no normal model with a log link",
}
NO_OFFSET = "offsets are those of counts and amounts"
ALLOWED = 1e-5
"""Absolute, as in glum's own tests."""


@cache
def golden() -> tuple[ModuleType, dict[str, dict[str, Any]]]:
    """Returns the module that simulates rows, and the coefficients by family and case."""
    folder = next(iter(sorted(SUITES.glob("glum-*/tests"))), None)
    if folder is None:
        pytest.skip("no source of glum: scripts/foreign_packages.sh downloads it")
    master = folder / "glm" / "golden_master" / "simulation_gm.json"
    path = folder.parent / "glum_benchmarks" / "data" / "simulated_glm.py"
    glm, distribution = ModuleType("glum._glm"), ModuleType("glum._distribution")
    glm.get_family = lambda family: family  # type: ignore[attr-defined]
    glm.get_link = link_of  # type: ignore[attr-defined]
    distribution.TweedieDistribution = lambda power: power  # type: ignore[attr-defined]
    names = {"glum": ModuleType("glum"), glm.__name__: glm, distribution.__name__: distribution}
    found = importlib.util.spec_from_file_location("simulated_glm", path)
    assert found is not None
    assert found.loader is not None
    simulated = importlib.util.module_from_spec(found)
    with pytest.MonkeyPatch.context() as patch:
        for name, module in names.items():
            patch.setitem(sys.modules, name, module)
        found.loader.exec_module(simulated)
    return simulated, json.loads(master.read_text())


def link_of(link: str, family: str) -> SimpleNamespace:
    """Stands for glum's link of a family, of which the simulation needs the inverse."""
    return SimpleNamespace(inverse=INVERSES.get(family, np.exp))


@pytest.mark.parametrize("family", TASKS)
def test_glum_has_the_same_coefficients(both: Database, tally: Tally, family: str) -> None:
    simulated, master = golden()
    rows = simulated.simulate_mixed_data(family=family)
    names = [f"x{k}" for k in range(rows["X"].shape[1])]
    columns = {
        "y": rows["y"].astype(float).tolist(),
        "w": rows["sample_weight"].tolist(),
        "o": rows["offset"].tolist(),
        "one": [1.0] * len(rows["y"]),
    } | dict(zip(names, rows["X"].to_numpy().T.tolist(), strict=True))
    both.create("suite", columns)
    options: dict[str, object] = {"epsilon": 1e-8, "max_iter": 5000}
    if family.startswith("tweedie"):
        options["power"] = 1.5
    line = tally.line("glum", family, both.name)
    unexplained = []
    for (name, penalty), weight, offset in product(PENALTIES.items(), (0, 1), (0, 1)):
        case = name + "_weights" * weight + "_offset" * offset
        if offset and family in ("normal", "binomial"):
            line.left_out[NO_OFFSET] += 1
            continue
        theirs = master[family][case]
        more = ("w" if weight else "one", *(("o",) if offset else ()))
        both.train("suite", TASKS[family], "y", names, {**options, **penalty}, more)
        summary = both.summary()
        wanted = dict(zip(names, theirs["coef_"], strict=True))
        if penalty.get("fit_intercept", True):
            wanted["intercept"] = theirs["intercept_"]
        size = max(1.0, *map(abs, wanted.values()))
        numbers = [
            Number(f"{case} {term}", value, summary[term][0], ALLOWED / size, size)
            for term, value in wanted.items()
        ]
        unexplained += tally.compare("glum", family, both.name, numbers)
    for case in master[family]:
        reason = next((why for name, why in LEFT_OUT.items() if case.startswith(name)), None)
        if reason is not None:
            line.left_out[reason] += 1
    assert unexplained == []
