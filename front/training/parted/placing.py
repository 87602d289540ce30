"""Which groups are trained by parts, and how many at a time: the argument `placement`.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, sections 2 and 4.2.
"""

from dataclasses import dataclass

from tuskml.errors import OptionError, nearest, one_of
from tuskml.groups.execution.choosing import executor_of
from tuskml.groups.execution.executor import Executor
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

    name: the value of the argument; title: for the manual; by_parts: whether groups that are
    larger than a shard are; at_once: how many of these at a time.
    """

    name: str
    title: str
    by_parts: bool = False
    at_once: int = AT_ONCE


PLACEMENTS = (
    Placement("gtp", "group task parallelism: each group on one worker"),
    Placement("gap", "gradient accumulation parallelism: groups on several shards by parts", True),
)
BY_NAME = {one.name: one for one in PLACEMENTS}


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


def whole(training: Training) -> str | None:
    """Why no group of a training can be trained by parts; None where they can."""
    if training.asked.searches:
        return "a search needs all rows of a group in one place"
    if training.n_features == 0 or training.text_label:
        return "features with names and labels that are text need all rows of a group in one place"
    request = training.asked.requests[0]
    return learner_of(request.task).whole(request)


def apart(placement: Placement, catalogue: Catalogue) -> list[Group]:
    """The groups that are trained by parts: those on several shards that are large enough.

    That depends on the groups alone and not on the workers, and so do the models' bits.
    """
    if not placement.by_parts:
        return []
    least = units.BATCH_ROWS
    return [one for one in catalogue.groups if len(one.shards) > 1 and one.rows > least]
