"""Progress of a training whose weights are in a store: counters, values and reports."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, StoreError
from tuskml.kernels.passes import Pass
from tuskml.kernels.stored.training import Model
from tuskml.kvstore.frames import FrameCounters
from tuskml.learners.models import Lists, Models, Strings
from tuskml.learners.tasks import Task


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time of the context."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - began)

    def add(self, name: str, seconds: float) -> None:
        """Adds to a phase."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def seconds_of(self, *names: str) -> float:
        """Seconds of some phases so far."""
        return sum(self.seconds.get(name, 0.0) for name in names)


@dataclass(frozen=True)
class Counters:
    """The counters of one training, since it began or was resumed; trials of steps have memory of
    their own.

    Every distinct feature of a chunk of rows, in every epoch, is either saved by partitioning,
    read together with others, saved by pushing, a cache hit or a request: these five add up to
    `features`.

    features: distinct features of the chunks, summed over chunks and epochs: the requests of a
    store with a key per feature and without a cache (Qin, Torres, Rusu, VLDB 2017, fig. 4d); with
    l1 or l2 also the keys that are brought up to date at checkpoints and at the end;
    saved_by_partitioning: features less the keys that hold them; read_together: with method
    `routes`, which partitions nothing, features less the runs in which they come from other
    chunks, or less the blocks that the cache holds; saved_by_pushing: keys that
    another worker read and handed to this one before it asked for them, with option 'sharing' of
    'push'; cache_hits: keys that were in memory otherwise, or that another worker was reading;
    requests: keys read from the store;
    found: of them, those it had; writes: keys written; bytes_read, bytes_written: of payloads;
    seconds: by phase; of the phases that workers share, summed over the workers.
    """

    features: int
    saved_by_partitioning: int
    read_together: int
    saved_by_pushing: int
    cache_hits: int
    requests: int
    found: int
    writes: int
    bytes_read: int
    bytes_written: int
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of_frames(
        cls,
        counted: FrameCounters,
        features: int,
        saved: int,
        clock: Clock,
        routed: bool = False,
    ) -> Self:
        """Combines the counters of the cache with the phases of the clock.

        features: as the counter; saved: as `saved_by_partitioning`, or as `read_together` if
        routed.
        """
        waits = {"read": counted.reading, "write": counted.writing, "wait": counted.waiting}
        return cls(
            features=features,
            saved_by_partitioning=0 if routed else saved,
            read_together=saved if routed else 0,
            saved_by_pushing=counted.pushed,
            cache_hits=counted.hits,
            requests=counted.requests,
            found=counted.found,
            writes=counted.written,
            bytes_read=counted.bytes_read,
            bytes_written=counted.bytes_written,
            seconds=clock.seconds | {name: ns / 1e9 for name, ns in waits.items()},
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the counters for JSON; seconds to the microsecond."""
        shown = asdict(self)
        shown["seconds"] = {name: round(value, 6) for name, value in self.seconds.items()}
        return shown


# Models that trained in memory as values of a store: their weights and metadata.

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
    """The metadata of the sealed file."""
    classes = model.classes.values.tolist()
    return {
        "task": model.task.pool[model.task.code[0]],
        "intercept": None if len(classes) > 2 else float(model.intercept[0]),
        "classes": classes or None,
        "n_rows": int(model.n_rows[0]),
        "loss": float(model.loss[0]),
        "epochs": int(model.iterations[0]),
    }


def model_value(
    model: Models, reference: str, width: int, given: Mapping[str, Any] | None = None
) -> Models:
    """The model's value: everything except the coefficients and their errors, and a reference to
    them.

    given: options of the value that replace the training's.
    """
    none = Lists.none(1)
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


# The progress of the training of a stored model, as its checkpoints record it.

CHECKPOINT_SECONDS = 60.0
"""About the time between two checkpoints."""
Facts = dict[str, Any]


def facts_of(task: Task, rows: Pass, labels: NDArray[np.void]) -> Facts:
    """Facts that identify a training's rows and task, in any order of the rows."""
    return {
        "task": task.name,
        "n_rows": int(rows.groups["n_rows"][0]),
        "n_entries": rows.nonzeros(),
        "n_features": int(rows.groups["dim"][0]),
        "n_high": int(labels["n_high"][0]) if task.classifies else 0,
    }


def refuse_others(record: Facts, facts: Facts, told: Callable[[Facts], str]) -> None:
    """Raises StoreError if the record of a checkpoint is of other facts; told: describes facts in
    words.
    """
    if record.get("of") != facts:
        raise StoreError(
            f"the interrupted training was of {told(record.get('of', {}))}, this one is of "
            f"{told(facts)}: give it the rows and the task it had, or leave out 'resume'"
        )


def _describe(facts: Facts) -> str:
    told = (
        f"task '{facts.get('task')}' over {facts.get('n_rows')} rows with "
        f"{facts.get('n_entries')} entries of {facts.get('n_features')} features"
    )
    return told + (f", {facts['n_high']} of the higher class" if facts.get("n_high") else "")


@dataclass
class Progress:
    """step: of the first epoch; dimension: features of the model, those of a warm start too.

    continued: the weights started as those of a warm start, so there may be some that no row
    names. begun: the initial objective, about; None: unknown.
    """

    step: float
    dimension: int
    continued: bool = False
    epoch: int = 0
    history: list[float] = field(default_factory=list)
    model: Model = field(default_factory=Model)
    begun: float | None = None

    def again(self, step: float) -> "Progress":
        """The same start with another step."""
        return replace(self, step=step, history=list(self.history))

    def as_record(self, facts: Facts) -> Facts:
        """Returns the progress for a checkpoint's metadata."""
        return asdict(self) | {"of": facts}

    @classmethod
    def from_record(cls, record: Facts, facts: Facts) -> "Progress":
        """Restores a record of `as_record`; raises StoreError if it is of other rows or another
        task.
        """
        refuse_others(record, facts, _describe)
        kept = {name: value for name, value in record.items() if name not in ("of", "model")}
        return cls(**kept, model=Model(**record["model"]))
