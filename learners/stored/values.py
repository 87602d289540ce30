"""Models that trained in memory as values of a store: their weights, and what names them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.learners.models import Lists, Models, Strings

DTYPE = "float64"
SUFFIX = ", trained in memory"
WINDOW = 1 << 20


def pairs_of(
    weights: NDArray[np.float64], ids: NDArray[np.integer] | None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """(ids, weights) of the weights that are not 0, by rising id, in parts; ids None: 0, 1, ...

    Raises DataError where one is not a number.
    """
    for first in range(0, len(weights), WINDOW):
        part = weights[first : first + WINDOW]
        if not np.isfinite(part).all():
            raise DataError("the training diverged: scale the features' values to about 1")
        places = np.flatnonzero(part)
        named = places + first if ids is None else ids[first : first + WINDOW][places]
        yield named.astype(np.int64), np.ascontiguousarray(part[places])


def about(model: Models) -> dict[str, Any]:
    """What the sealed file says of itself."""
    classes = model.classes.values.tolist()
    return {
        "task": model.task.pool[model.task.code[0]],
        "intercept": None if len(classes) > 2 else float(model.intercept[0]),
        "classes": classes or None,
        "n_rows": int(model.n_rows[0]),
        "loss": float(model.loss[0]),
        "epochs": int(model.iterations[0]),
    }


def stored(
    model: Models, reference: str, width: int, given: Mapping[str, Any] | None = None
) -> Models:
    """The model's value: all but the coefficients and their errors, and where they are.

    given: options that the value has in place of the training's.
    """
    none = Lists(np.empty(0), np.zeros(2, np.int64))
    options = json.loads(model.options.pool[model.options.code[0]])
    options |= {**(given or {}), "store": reference}
    plan = model.plan.pool[model.plan.code[0]]
    return replace(
        model,
        coef=none,
        std_err=none,
        n_features=np.array([width], np.int64),
        options=Strings.same(json.dumps(options, separators=(",", ":")), 1),
        plan=Strings.same(plan if plan.startswith("{") or "\n" in plan else plan + SUFFIX, 1),
        store=Strings.same(reference, 1),
    )
