"""The plans of a training on all rows of a table or of files, and of those that read a part."""

from collections.abc import Sequence
from typing import Any

from tuskml.learners.explaining import format_seconds
from tuskml.learners.linear.own.operators import operators_of
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.streamed import skipping
from tuskml.learners.linear.streamed.choosing import candidate_document, plans_of
from tuskml.learners.linear.streamed.plans import UNSURE, SourcePlan, best_part, cheapest
from tuskml.learners.linear.streamed.training import lay_out_first
from tuskml.learners.row_groups import Storage


def compare_sources(storage: Storage, request: Request, n_features: int) -> dict[str, Any] | None:
    """The member `source` of an explanation; None for a custom plan or a stored model."""
    options, task = request.options, request.task
    mine = task.general or operators_of(options).keys() - {"sampler"}
    if mine or options.store is not None or options.device == "gpu":
        return None
    least = skipping.first_row_groups(len(storage.sizes))
    _, layout = lay_out_first(storage, request, n_features, least)
    plans = plans_of(storage, request, n_features, layout)
    return {
        "storage": storage.kind,
        "row_groups": len(storage.sizes),
        "bytes": round(storage.bytes_of_all()),
        "because": why_all(plans),
        "candidates": [candidate_document(one, False) for one in plans],
    }


def why_all(plans: Sequence[SourcePlan]) -> str:
    """The reason why all rows were read."""
    parts = [one for one in plans if one.part]
    best = cheapest(one for one in parts if one.refusal is None)
    if best is None:
        return next(one.refusal for one in parts if one.refusal is not None)
    if best_part(plans) is not None:
        return f"{best.name} did not reach the tolerance on a part"
    return (
        f"{best.name} is expected to take {format_seconds(best.seconds)}, not less than "
        f"{1 - UNSURE:.0%} of the best plan on all rows"
    )
