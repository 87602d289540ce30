"""An explanation of a training as data: the part that all learners share.

`document` is the schema of the option `format: json`, which docs/sql/plans.md describes; `text.py`
writes the same as text, `tuskml.plots.plot_plan` draws it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import KINDS, row_bytes
from tuskml.learners.options.table import Options

VERSION = 1
Document = dict[str, Any]


def sole_candidate(
    algorithm: str, least: float, most: float, start: float, each: float, memory: int
) -> dict[str, Any]:
    """The one plan of a learner that does not choose, as `explain_training` lists candidates.

    least, most: its iterations, usually the latter; start, each: seconds before the first one and
    of each; memory: bytes.
    """
    span = {"low": least, "point": most, "high": most}
    return {
        "algorithm": algorithm,
        "chosen": True,
        "refusal": None,
        "iterations": span,
        "seconds_per_iteration": each,
        "seconds": {name: start + each * count for name, count in span.items()},
        "memory_bytes": memory,
        "store_requests": 0,
        "store_bytes": 0,
        "tried": None,
    }


def plan_document(
    options: Any, description: str, because: str, order: str, max_iter: int, **more: Any
) -> Document:
    """The plan of a learner that does not choose, by its options; more: members that differ."""
    return {
        "algorithm": options.algorithm,
        "description": description,
        "because": because,
        "order": order,
        "threads": options.threads,
        "max_iter": max_iter,
        "epsilon": 0.0,
        "converge": "loss",
        "time": options.time,
    } | more


def reason_for_algorithm(options: Options) -> str:
    """The reason why an algorithm that has a default is taken."""
    asked = "algorithm" in options.given
    return "asked for" if asked else "the default of the option `algorithm`"


def document(
    groups: NDArray[np.void], task: str, objective: str, reading: float | None, **more: Any
) -> Document:
    """The explanation of groups (`passes.GROUP`) that train together, of JSON's types.

    reading: seconds spent reading their rows; more: what the learner adds to the schema: model,
    plan, device, cannot, candidates, actual.
    """
    return {
        "explanation": VERSION,
        "task": task,
        "objective": objective,
        "groups": len(groups),
        "rows": int(groups["n_rows"].sum()),
        "rows_skipped": int(groups["n_skipped"].sum()),
        "features": int(groups["dim"].max()),
        "storage": KINDS[groups["kind"][0]],
        "bytes": row_bytes(groups),
        "model": None,
        "plan": None,
        "device": None,
        "reading_seconds": reading,
        "cannot": None,
        "candidates": [],
        "actual": None,
        "source": None,
    } | more
