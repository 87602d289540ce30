"""The trainings of the last statement, with their estimates, for Python.

Models are noted as they leave the trainer, by plan: the records do not grow with the groups.
"""

import json
import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import row_bytes
from tuskml.learners.models import Models
from tuskml.schedule.forks import held_in_forks

MOST_STATEMENTS, MOST_PLANS = 16, 64
OTHERS = "other plans"
ESTIMATE = re.compile(r", estimated [\d,.]+ iterations, [\d,.]+ (ms|s|min|h)")
STRIDE = re.compile(r"started on 1/\d+ of the rows")


@dataclass
class PlanRecord:
    """The results of the groups of one plan; estimates if there were some for all of them."""

    task: str
    algorithm: str
    plan: str
    groups: int = 0
    rows: int = 0
    bytes: int = 0
    batches: int = 0
    iterations: int = 0
    least: int = 2**62
    most: int = 0
    longest: int = 0
    seconds: float = 0.0
    estimated: int = 0
    estimated_iterations: float = 0.0
    estimated_seconds: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)

    def add(self, models: Models, size: int, members: dict[str, Any]) -> None:
        """Takes in a batch of models, all of this plan, which trained together."""
        n = len(models.group)
        self.groups += n
        self.batches += 1
        self.rows += int(models.n_rows.sum())
        self.bytes += size
        self.iterations += int(models.iterations.sum())
        self.least = min(self.least, int(models.iterations.min()))
        self.most = max(self.most, int(models.iterations.max()))
        self.longest += int(models.iterations.max())
        self.seconds += float(models.seconds.sum())
        codes, counts = np.unique(models.status.code, return_counts=True)
        for code, number in zip(codes, counts, strict=True):
            status = models.status.pool[code]
            self.statuses[status] = self.statuses.get(status, 0) + int(number)
        told = members.get("estimated")
        if told is not None:
            self.estimated += 1
            self.estimated_iterations += told["iterations"]
            self.estimated_seconds += told["seconds"]

    def document(self) -> dict[str, Any]:
        """Returns its figures as a JSON object."""
        estimated = None
        if self.estimated == self.batches:
            iterations = self.estimated_iterations / self.batches
            estimated = {
                "iterations": iterations,
                "seconds": self.estimated_seconds,
                "seconds_per_iteration": self.estimated_seconds
                / max(1, self.estimated_iterations),
            }
        return {
            "task": self.task,
            "algorithm": self.algorithm,
            "plan": self.plan,
            "groups": self.groups,
            "batches": self.batches,
            "rows": self.rows,
            "bytes": self.bytes,
            "statuses": dict(self.statuses),
            "estimated": estimated,
            "actual": {
                "iterations": {
                    "least": self.least,
                    "mean": self.iterations / self.groups,
                    "most": self.most,
                },
                "seconds": self.seconds,
                "seconds_per_iteration": self.seconds / max(1, self.longest),
            },
        }


@dataclass
class Statement:
    """The plans of one statement, and of its last stored model the counters and their estimate."""

    plans: dict[tuple[str, str], PlanRecord] = field(default_factory=dict)
    counters: dict[str, Any] | None = None
    store_estimate: dict[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        """Returns its figures as a JSON object."""
        plans = [plan.document() for plan in self.plans.values()]
        found = {name: sum(plan[name] for plan in plans) for name in ("groups", "rows", "bytes")}
        seconds = sum(plan["actual"]["seconds"] for plan in plans)
        return (
            found
            | {"seconds": seconds, "plans": plans, "counters": self.counters}
            | {"store_estimate": self.store_estimate}
        )


_statements: OrderedDict[int, Statement] = OrderedDict()
_lock = held_in_forks(threading.Lock())
_unnumbered = count(-1, -1)


def note(models: Models, groups: NDArray[np.void] | None, statement: int = 0) -> None:
    """Records the results of models.

    groups: theirs, None if their rows were not all packed, as double, at one time; statement: its
    number, 0 for one of its own.
    """
    if not len(models.group):
        return
    parts = list(by_plan(models))
    with _lock:
        number = statement or next(_unnumbered)
        record = _statements.setdefault(number, Statement())
        _statements.move_to_end(number)
        while len(_statements) > MOST_STATEMENTS:
            _statements.popitem(last=False)
        for key, algorithm, which, members in parts:
            found = record.plans.get(key)
            if found is None:
                if len(record.plans) >= MOST_PLANS:
                    key, algorithm = (key[0], OTHERS), OTHERS  # noqa: PLW2901
                found = record.plans.setdefault(key, PlanRecord(key[0], algorithm, key[1]))
            theirs = some(models, which)
            found.add(theirs, bytes_of(theirs, None if groups is None else groups[which]), members)
            record.counters = members.get("counters", record.counters)
            record.store_estimate = members.get("store_estimate", record.store_estimate)


def bytes_of(models: Models, groups: NDArray[np.void] | None) -> int:
    """Bytes of the packed rows."""
    if groups is None:
        return int((models.n_rows * (8 * models.n_features + 8)).sum())
    return row_bytes(groups)


def by_plan(models: Models) -> Any:
    """(task and plan, algorithm, which models, options) of models that trained together."""
    for code in np.unique(models.plan.code):
        which = np.flatnonzero(models.plan.code == code)
        members = json.loads(models.options.pool[models.options.code[which[0]]])
        task = models.task.pool[models.task.code[which[0]]]
        plan = short(models.plan.pool[code])
        yield (task, plan), members.get("algorithm", plan), which, members


def some(models: Models, which: NDArray[np.intp]) -> Models:
    """Selects some of the models, with the fields that records keep."""
    if len(which) == len(models.group):
        return models
    names = ("group", "n_rows", "n_features", "iterations", "seconds")
    status = replace(models.status, code=models.status.code[which])
    return replace(models, status=status, **{name: getattr(models, name)[which] for name in names})


def short(plan: str) -> str:
    """A model's plan in one line, without the parts that differ from batch to batch."""
    if plan.startswith("{"):
        plan = json.loads(plan)["plan"]["description"]
    elif "\n" in plan:
        plan = next(line[10:].strip() for line in plan.splitlines() if line[:8] == "  plan  ")
    return STRIDE.sub("started on some of the rows", ESTIMATE.sub("", plan))


def last_training() -> dict[str, Any] | None:
    """The trainings of the last statement in this process; None before the first.

    `groups`, `rows`, `bytes` of the packed rows and `seconds` of work, summed over `plans`: for
    each plan its task, algorithm and description, groups, batches of groups that trained together,
    statuses by number of groups, what was `estimated` (None if nothing was) and the `actual`
    iterations per group, seconds, and seconds per iteration of a batch. `counters`: for a model in
    a store, its requests, and `store_estimate`: the expected ones. The model value has both. At
    most 64 plans are listed.
    """
    with _lock:
        if not _statements:
            return None
        return next(reversed(_statements.values())).document()
