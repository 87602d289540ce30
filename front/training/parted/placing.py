"""Which groups are trained by parts, and how many at a time: the argument `placement`.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, sections 2, 4.2 and 5 (the baselines).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from tuskml.errors import OptionError, nearest, one_of
from tuskml.groups.execution.choosing import executor_of
from tuskml.groups.execution.executor import Executor
from tuskml.groups.selection.parted import whole as search_whole
from tuskml.groups.selection.prepared import alike
from tuskml.learners.registry import learner_of
from tuskml.shards.catalogue import Catalogue, Group
from tuskml.training import units
from tuskml.training.asked import Where
from tuskml.training.training import Training

AT_ONCE = 12
"""Groups that are led at the same time: their threads wait most of the time."""


@dataclass(frozen=True)
class Placement:
    """How groups are trained.

    name: the value of the argument; title: for the manual; by_parts: which groups are trained by
    parts; at_once: how many of these at a time; apart: whether each other group is a unit of its
    own, and not one of several small ones.
    """

    name: str
    title: str
    by_parts: Callable[[Sequence[Group]], Sequence[Group]]
    at_once: int = AT_ONCE
    apart: bool = False

    @property
    def approach(self) -> str:
        """What the cost model calls it."""
        names = {name: approach for approach, name in APPROACHES.items()}
        return names.get(self.name, self.name.upper())


def none(groups: Sequence[Group]) -> Sequence[Group]:
    """No group."""
    return ()


def large(groups: Sequence[Group]) -> Sequence[Group]:
    """Those on several shards that are large enough."""
    return [one for one in groups if len(one.shards) > 1 and one.rows > units.BATCH_ROWS]


def upper_half(groups: Sequence[Group]) -> Sequence[Group]:
    """Those that have at least the median of rows."""
    middle = median(group.rows for group in groups)
    return [group for group in groups if group.rows >= middle]


def every(groups: Sequence[Group]) -> Sequence[Group]:
    """All groups."""
    return groups


PLACEMENTS = (
    Placement("gtp", "group task parallelism: each group on one worker", none),
    Placement("gap", "gradient accumulation parallelism: large groups by parts", large),
    Placement("mtp", "model task parallelism: a task for each model", none, apart=True),
    Placement("dp", "data parallelism: one group at a time on all workers", every, 1),
    Placement(
        "sp", "switching parallelism: dp for the larger half, gtp for others", upper_half, 1
    ),
    Placement("auto", "the one of gtp, gap and dp that is estimated to take least", none),
)
BY_NAME = {one.name: one for one in PLACEMENTS}
AUTO = "auto"
APPROACHES = {"TP": "gtp", "GAP": "gap", "DP": "dp"}
"""What `auto` chooses from: approaches of the cost model, and what they are called here."""


def placement_of(where: Where) -> tuple[Executor, Placement]:
    """Of the arguments; placement None is the first one. OptionError for anything else."""
    given = where.placement
    if given is not None and where.executor is None:
        raise OptionError(
            "placement is given without executor, expected executor too, such as 'ray'"
        )
    executor = executor_of(where.executor, where.worker_timeout)
    if given is None:
        return executor, PLACEMENTS[0]
    if isinstance(given, str) and given in BY_NAME:
        return executor, BY_NAME[given]
    near = nearest(given, BY_NAME) if isinstance(given, str) else ""
    raise OptionError(f"placement is {given!r}, expected {one_of(BY_NAME)}{near}")


def named(training: Training) -> bool:
    """Whether rows have names or labels are text, so that they are prepared."""
    return training.n_features == 0 or training.text_label


def whole(training: Training) -> str | None:
    """Why no group of a training can be trained by parts; None where they can."""
    search = training.asked.search
    if search is not None:
        if named(training) and len(alike(search)) > 1:
            return (
                "candidates that make different features of rows with names need all rows of a "
                "group in one place"
            )
        return search_whole(search)
    request = training.asked.requests[0]
    return learner_of(request.task).whole(request)


def possible(training: Training, groups: Sequence[Group], workers: int) -> list[str]:
    """The approaches that `auto` chooses from.

    GAP needs a group that it can cut, and DP parts of each group for all workers.
    """
    found = ["TP"]
    if whole(training) is None and groups:
        found += ["GAP"] if large(groups) else []
        found += ["DP"] if min(len(one.shards) for one in groups) >= workers else []
    return found


def refuse_chance(training: Training) -> None:
    """OptionError for a choice by measured seconds where all runs are to have the same bits."""
    if any(request.options.deterministic for request in training.asked.requests):
        raise OptionError(
            "placement 'auto' chooses by seconds that it measures, which differ from run to run, "
            "and option 'deterministic' is given: expected one of them, or placement 'gtp'"
        )


def apart(placement: Placement, catalogue: Catalogue) -> list[Group]:
    """The groups that are trained by parts.

    That depends on the groups alone and not on the workers, and so do the models' bits.
    """
    return list(placement.by_parts(catalogue.groups)) if catalogue.groups else []
