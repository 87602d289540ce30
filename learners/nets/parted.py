"""The task `mlp` for a group whose rows lie in parts: a net hops over them, or a crew trains.

For a crew, the leader gets the facts about rows, the units and the weights of classes from the
parts, as for a net that hops from part to part. Then the workers train, and the leader assembles
the net.
"""

import math
import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.nets.pieces import layers_of, pad_length, places_of, scatter
from tuskml.kernels.nets.visits import State
from tuskml.kernels.parts.dealing import holding_of
from tuskml.kernels.parts.message import Array, pack_message, unpack_message
from tuskml.kernels.parts.sharded import Parts, ShardedPass, of_parts
from tuskml.kernels.passes import Floats
from tuskml.learners.held_out import count_held_out
from tuskml.learners.learner import Request, refuse_offsets
from tuskml.learners.models import Models
from tuskml.learners.nets.exchange.rows import pieces_of
from tuskml.learners.nets.hopping import Hopping
from tuskml.learners.nets.layers import tables_of
from tuskml.learners.nets.options import OPTIONS, NetOptions
from tuskml.learners.nets.outcome import models_of
from tuskml.learners.nets.training import SPARSE, classifies, kinds_of
from tuskml.learners.options.table import needs_one_place
from tuskml.learners.tasks import Task
from tuskml.schedule import budget

FIELDS = ("epochs", "kept", "ending")
"""The integers that workers report on a training."""
TASK = "mlp"


class Exchanging(Hopping):
    """A net that a crew trains."""

    lost = math.nan

    def epochs(self, history: Floats) -> State:
        """Fills the history; the state of the result."""
        assert self.rows.parts is not None
        crew = self.rows.parts.crew
        assert crew is not None
        answers = crew.train(TASK, self.crew_message(), pieces_of(self.rules.batch))
        told, state = self.together(answers)
        for name in FIELDS:
            self.about[0][name] = told[name]
        self.steps, self.lost = told["steps"], told["loss"]
        if told["held_loss"] is not None:
            self.about[0]["held_loss"] = self.loss_in_units(told["held_loss"])
        for epoch, loss in enumerate(told["history"]):
            history[0, epoch] = self.loss_in_units(loss)
        return state

    def crew_message(self) -> bytes:
        """The message to all workers."""
        left = max(self.until - time.monotonic(), 1e-9) if math.isfinite(self.until) else None
        header = {
            "rules": asdict(self.rules),
            "seconds": left,
            "counts": self.training.counts().tolist(),
            "held": None if self.held_out_rows is None else self.held_out_rows.counts().tolist(),
        }
        held = None if self.held_out_rows is None else self.of_rows(self.held_out_rows)
        messages = [self.of_rows(self.training), held]
        return pack_message(header, [self.units, self.start, *messages])

    def of_rows(self, rows: ShardedPass) -> Array:
        """The message that asks a part for its rows, as bytes."""
        given = {"rules": asdict(self.rules)}
        text = rows.message("net_rows", [self.alike.classes, self.weights, self.units], given)
        return np.frombuffer(text, np.uint8)

    def together(self, answers: Any) -> tuple[dict[str, Any], State]:
        """Combines the workers' answers: the first worker's report, and the whole net."""
        rules, plain = self.rules, (len(self.units) - 3) // 2
        layers = layers_of(rules, plain)
        at, length = places_of(layers, rules.tables)
        floats = layers + sum(pad_length(levels * size) for _, levels, size in rules.tables)
        state = np.zeros((3, floats), np.float32)
        told: dict[str, Any] = {}
        for rank, answer in enumerate(answers):
            header, (vectors, own) = unpack_message(answer)
            assert vectors is not None
            some = slice(rank, None, len(answers))
            scatter(state[0], at[some], length[some], vectors)
            if own is not None:
                told, state[0, :layers] = header, own
        return told, state

    def mean_loss(self, rows: ShardedPass, state: State) -> float:
        """The mean loss of the training rows, which the workers have added up."""
        return self.loss_in_units(self.lost)


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
