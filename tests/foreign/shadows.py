"""A pytest plugin with what the shadows of scikit-learn share: what SQL was asked, and answered.

    pytest -p shadows -p shadow_fits --pyargs sklearn.linear_model.tests.test_ridge

SHADOW_OUT names the file for it: a JSON object with the calls by function, those that SQL cannot
express, and those whose answers differ.
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from foreign_databases import in_environment

DATABASE = in_environment()


class Inexpressible(Exception):
    """SQL has no such call or model."""


@dataclass
class Shadow:
    """Calls by function, those that differ, and how many each test made."""

    asked: Counter[str] = field(default_factory=Counter)
    not_expressible: Counter[str] = field(default_factory=Counter)
    different: list[dict[str, Any]] = field(default_factory=list)
    by_test: Counter[str] = field(default_factory=Counter)

    def is_enough(self, test: str, most: int) -> bool:
        """Counts a call of a test; some make thousands."""
        self.by_test[test] += 1
        return self.by_test[test] > most

    def note(self, call: str, theirs: float | None, ours: Any, **more: Any) -> None:
        """Keeps a call whose answers differ, with what helps to see why."""
        self.different.append(
            {"call": call, "theirs": theirs, "ours": ours, "test": running(), **more}
        )


SHADOW = Shadow()


def running() -> str:
    """Returns the name of the test that runs."""
    return os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]


def shadow_fit(kind: Any, train: Callable[[Any, Any, Any, Any], None], most: int) -> None:
    """Puts a fit in the place of an estimator's that trains by SQL too.

    train: compares, of a fitted estimator, its features, labels and weights; most: the fits of a
    test function, over all its parameters, that are compared.
    """
    theirs = kind.fit

    @functools.wraps(theirs)
    def fit(self: Any, X: Any, y: Any, sample_weight: Any = None, *args: Any, **more: Any) -> Any:
        if sample_weight is not None:
            more["sample_weight"] = sample_weight
        found = theirs(self, X, y, *args, **more)
        if SHADOW.is_enough(running().split("[")[0], most) or type(self) is not kind:
            return found
        try:
            train(self, X, y, sample_weight)
        except DATABASE.error as error:
            SHADOW.note(kind.__name__, None, str(error).splitlines()[0])
        except Exception:
            SHADOW.not_expressible[kind.__name__] += 1
        return found

    kind.fit = fit


def pytest_sessionfinish() -> None:
    """Writes what was asked."""
    with open(os.environ["SHADOW_OUT"], "w") as file:
        json.dump(vars(SHADOW), file, default=str)
