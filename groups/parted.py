"""A group whose rows lie in parts: its model, as that of any other group."""

from typing import Any

import numpy as np

from tuskml.errors import RowsError
from tuskml.groups.contract.trainer import refuse_weights, with_feature_names
from tuskml.groups.preparation import (
    Readable,
    kinds_of,
    refusal_of_rounded,
    refuse_options,
    with_held_out,
    with_names,
    with_preparation,
)
from tuskml.kernels.parts.sharded import Parts, ShardedPass, has_words
from tuskml.learners.learner import Request
from tuskml.learners.models import (
    LEAK,
    LEAST_ROWS,
    Models,
    labels_lost,
    with_lost_labels,
    with_status,
)
from tuskml.learners.options.kinds import LIST, SPARSE, WORDS
from tuskml.learners.registry import learner_of
from tuskml.learners.remarks import LABEL, Remarks, with_notes
from tuskml.learners.tasks import is_labelled


def train_by_parts(parts: Parts, request: Request[Any, Any]) -> Models | None:
    """The model of the group; None where it has no usable row."""
    known = parts.told
    if known is None:
        documents = not is_labelled(request.task.name)
        listed = (WORDS if has_words(parts) else SPARSE) if documents else LIST
        refuse_options(request, listed)
        request = with_names(request)
    else:
        request = with_preparation(request, known, kinds_of(known, LIST))
    models = learner_of(request.task).by_parts.train(parts, request)
    if models is None or parts.found is None:
        return None
    refuse_weights(parts.found, request)
    rows = ShardedPass(parts.found, parts=parts)
    models = with_held_out(models, parts.found, request)
    models = with_status(models, LEAK, np.full(len(models.group), rows.leaks(LEAST_ROWS)))
    remarks = Remarks()
    for one in parts.remarks:
        remarks.add(Remarks.of_json(one))
    rounded = any(place.column == LABEL for place in remarks.rounded)
    lost = labels_lost(rows.labels(), np.array([rounded]))
    models = with_lost_labels(models, lost[models.group])
    models = Readable(parts.found, request, known).describe(models)
    models = with_feature_names(
        models, parts.found, request.options.feature_names, known is not None
    )
    why = refusal_of_rounded(remarks, request)
    if why is not None:
        raise RowsError(why)
    return with_notes(models, {0: remarks})
