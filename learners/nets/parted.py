"""The task `mlp` for a group whose rows lie in parts: a net hops over them, or a crew trains."""

import time
from dataclasses import replace

import numpy as np

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.parts.dealing import holding_of
from tuskml.kernels.parts.sharded import Parts, ShardedPass, of_parts
from tuskml.learners.held_out import count_held_out
from tuskml.learners.learner import Request, refuse_offsets
from tuskml.learners.models import Models
from tuskml.learners.nets.exchange.leading import Exchanging
from tuskml.learners.nets.hopping import Hopping
from tuskml.learners.nets.options import OPTIONS, NetOptions
from tuskml.learners.nets.outcome import models_of
from tuskml.learners.nets.tables import tables_of
from tuskml.learners.nets.training import SPARSE, classifies, kinds_of
from tuskml.learners.options.table import needs_one_place
from tuskml.learners.tasks import Task
from tuskml.schedule import budget


def whole(request: Request[Task, NetOptions]) -> str | None:
    """The reason why a group's rows cannot be split; None if they can."""
    return needs_one_place(OPTIONS.by_name, request.options)


def train_by_parts(parts: Parts, request: Request[Task, NetOptions]) -> Models | None:
    """The model of the group; None where it has no usable row."""
    began = time.monotonic()
    options = request.options
    groups = of_parts(parts)
    if groups is None:
        return None
    refuse_offsets(groups, request.task.name)
    if request.categories is None and (groups["kind"] >= SPARSE).any():
        raise DataError("features of 'mlp' are a list, got sparse(...)")
    rows = ShardedPass(
        groups,
        int(classifies(options)),
        threads=budget.threads(options.threads),
        cancel_mark=passes.cancel_mark(),
        parts=parts,
        classifies=classifies(options),
    )
    if held := int(count_held_out(groups["n_rows"], options.validation)[0]):
        parts.deal(holding_of(rows, options.seed, held).messages)
    else:
        options = replace(options, validation=0.0)
    labels = rows.labels()
    (kind,) = kinds_of(rows, labels, request)
    alike = replace(kind, tables=tables_of(request, 0))
    with np.errstate(all="ignore"):  # values that are not finite are found at the end
        training = Hopping if parts.crew is None else Exchanging
        found = training(rows, labels, alike, options).train(began)
    models = models_of(rows, labels, alike, found, request)
    return replace(models, seconds=np.array([time.monotonic() - began]))
