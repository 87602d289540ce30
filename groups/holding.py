"""What models say of the rows that were held out: the column, and where none were."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.held_out import HeldOut, held_out_counts
from tuskml.learners.learner import Request
from tuskml.learners.models import Models
from tuskml.learners.statuses import with_status
from tuskml.schedule import budget

NOT_COMPARED = "not compared"


def with_held_out(models: Models, groups: NDArray[np.void], request: Request[Any, Any]) -> Models:
    """The models, whose options name the column and whose status says of which groups no row was
    held out; models carry their groups' places in `groups` (kernels.GROUP), of which by chance
    the numbers of rows suffice."""
    how, share = request.held_out, request.options.validation
    if how is not None and how.column is not None:
        own = replace(how, share=share or how.share)
        some = holds_some(own, groups[models.group], request)
        models = with_column(models, how)
    elif share:
        some = held_out_counts(groups["n_rows"][models.group], share) > 0
    else:
        return models
    return with_status(models, NOT_COMPARED, ~some)


def holds_some(
    how: HeldOut, groups: NDArray[np.void], request: Request[Any, Any]
) -> NDArray[np.bool_]:
    """Marks the groups (G,) of which a column holds out some rows, but not all."""
    threads = request.options.threads or budget.threads()
    every = how.stretch_of(groups, request.options.seed, threads, by_label=False)
    ends = np.cumsum(groups["n_rows"])[:-1]
    counts = np.array([np.bincount(one, minlength=how.stretches) for one in np.split(every, ends)])
    found: NDArray[np.bool_] = np.logical_or.reduce(
        [
            (counts[:, list(out)].sum(axis=1) > 0)
            & (counts[:, list(how.kept(out))].sum(axis=1) > 0)
            for out in how.sets
        ]
    )
    return found


def with_column(models: Models, how: HeldOut) -> Models:
    """The models, whose field `options` names the column by which rows were held out."""
    if how.column is None:
        return models
    given: dict[str, Any] = {"time_by" if how.in_time else "fold_by": how.column}
    if how.gap is not None:
        given["gap"] = how.gap.shown.strip("'") if how.gap.in_days else how.gap.distance
    more = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    pool = tuple(text and f"{text[:-1]},{more[1:]}" for text in models.options.pool)
    return replace(models, options=replace(models.options, pool=pool))
