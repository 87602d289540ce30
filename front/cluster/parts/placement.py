"""The choice of groups that are trained by parts, and their number at a time: the argument
`placement`.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, sections 2, 4.2 and 5 (the baselines).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from tuskml.api.call import ExecutorChoice, Training
from tuskml.cluster import units
from tuskml.cluster.shards.catalogue import Catalogue, Group
from tuskml.errors import OptionError, nearest, one_of
from tuskml.groups.execution.choosing import Executor, executor_of
from tuskml.groups.selection.folds import alike
from tuskml.groups.selection.parted import whole as search_whole
from tuskml.learners.options.table import refuse_one_place
from tuskml.learners.registry import learner_of

AT_ONCE = 12
"""Groups that are led at the same time: their threads wait most of the time."""


@dataclass(frozen=True)
class Placement:
    """How groups are trained.

    name: the value of the argument; title: for the manual; by_parts: which groups are trained by
    parts; at_once: how many of these at a time; apart: whether each other group is a unit of its
    own, instead of several small ones; together: whether workers take the steps of a group
    together.
    """

    name: str
    title: str
    by_parts: Callable[[Sequence[Group]], Sequence[Group]]
    at_once: int = AT_ONCE
    apart: bool = False
    together: bool = False

    @property
    def approach(self) -> str:
        """The cost model's name of the placement."""
        names = {name: approach for approach, name in APPROACHES.items()}
        return names.get(self.name, self.name.upper())


def none(groups: Sequence[Group]) -> Sequence[Group]:
    """Selects no group."""
    return ()


def large(groups: Sequence[Group]) -> Sequence[Group]:
    """Selects groups that have several parts."""
    return [one for one in groups if one.rows > units.BATCH_ROWS]


def upper_half(groups: Sequence[Group]) -> Sequence[Group]:
    """Selects groups that have at least the median number of rows."""
    middle = median(group.rows for group in groups)
    return [group for group in groups if group.rows >= middle]


def all_groups(groups: Sequence[Group]) -> Sequence[Group]:
    """Selects all groups."""
    return groups


PLACEMENTS = (
    Placement("gtp", "group task parallelism: each group on one worker", none),
    Placement("gap", "gradient accumulation parallelism: large groups by parts", large),
    Placement("mtp", "model task parallelism: a task for each model", none, apart=True),
    Placement("dp", "data parallelism: one group at a time on all workers", all_groups, 1),
    Placement(
        "sp", "switching parallelism: dp for the larger half, gtp for others", upper_half, 1
    ),
    Placement(
        "exchange",
        "large groups by steps that all workers take together, over sockets of their own",
        large,
        1,
        together=True,
    ),
    Placement("auto", "the one of gtp, gap and dp that is estimated to take least", none),
)
BY_NAME = {one.name: one for one in PLACEMENTS}
AUTO = "auto"
APPROACHES = {"TP": "gtp", "GAP": "gap", "DP": "dp"}
"""The choices of `auto`: approaches of the cost model, and their names here."""


def placement_of(where: ExecutorChoice) -> tuple[Executor, Placement]:
    """Returns the placement that the arguments ask for; None is the first one (but see
    `usual`). Raises OptionError for anything else.
    """
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


@dataclass(frozen=True)
class PartedChoice:
    """The groups that are trained by parts, and the reason why other large ones are not."""

    placement: Placement
    groups: Sequence[Group]
    why: str | None = None


def choose_parted(
    training: Training, found: Catalogue, placement: Placement, usual: bool
) -> PartedChoice:
    """The groups that are trained by parts.

    That depends on the groups alone and not on the workers, and so do the models' bits. usual: no
    placement was named, and a model without groups is trained by parts where this is faster.
    """
    if usual and not training.keys:
        return placement_without_groups(training, found)
    groups = list(placement.by_parts(found.groups)) if found.groups else []
    why = why_not_parts(training, placement.together) if groups else None
    if not groups and placement.by_parts is not none:
        few = "none has more" if training.keys else "it has no more"
        why = f"{few} than {units.BATCH_ROWS:,} rows"
    if why is None:
        return PartedChoice(placement, groups)
    trained = "each group" if training.keys else "the model"
    why = f"placement is '{placement.name}', but {trained} is trained on one worker: {why}"
    return PartedChoice(PLACEMENTS[0], [], why)


def placement_without_groups(training: Training, found: Catalogue) -> PartedChoice:
    """Returns the placement of a model without groups: in parts if it is large and sums over parts
    suffice.

    If a model hops from part to part, or most of a forest grows on one worker, it takes as long on
    all workers as on one (the cost model's idle time), unless a search has several that hop. Trees
    take as long on two, since parts add work of their own.
    """
    requests = training.call.requests
    rows = sum(group.rows for group in found.groups)
    if rows <= units.BATCH_ROWS:
        return PartedChoice(PLACEMENTS[0], [])
    why = why_not_parts(training)
    memory = "placement='gap' gains all workers' memory"
    if why is None and not all(learner_of(one.task).by_parts.gains for one in requests):
        why = f"two workers take as long as one by sums of histograms; {memory}"
    if why is None and waits(training):
        why = f"its parts would wait for each other; {memory}"
        if why_not_parts(training, together=True) is None:
            why += ", and 'exchange' takes steps on all of them together"
    if why is None:
        return PartedChoice(BY_NAME["gap"], found.groups)
    return PartedChoice(PLACEMENTS[0], [], f"the model is trained on one worker: {why}")


def refuse_schedule(training: Training, found: Catalogue, parts: PartedChoice) -> None:
    """Raises OptionError for an option that acts on groups in parts alone, where others are."""
    alone = len(found.groups) - len(parts.groups)
    where = parts.why or "the model is trained on one worker"
    if training.keys and parts.why is None:
        where = f"{alone:,} of {len(found.groups):,} groups are trained on one worker each"
    for request in training.call.requests if alone else ():
        table = learner_of(request.task).options.by_name
        refuse_one_place(table, request.options.given, where)


def waits(training: Training) -> bool:
    """Returns whether workers wait for each other if there is one group."""
    call = training.call
    return any(
        learner_of(one.task).by_parts.waits(one)
        and (call.search is None or learner_of(one.task).by_parts.keeps)
        for one in call.requests
    )


def has_named_rows(training: Training) -> bool:
    """Returns whether rows have names or labels are text, so that they are prepared."""
    return training.n_features == 0 or training.text_label


def why_not_parts(training: Training, together: bool = False) -> str | None:
    """Says why no group of a training can be trained by parts; None where they can. together: by
    workers that take steps together."""
    search = training.call.search
    if search is not None:
        if together:
            return "each configuration of a search is trained on one worker"
        if has_named_rows(training) and len(alike(search)) > 1:
            return (
                "candidates that make different features of rows with names need all rows of a "
                "group in one place"
            )
        return search_whole(search)
    request = training.call.requests[0]
    learner = learner_of(request.task)
    return learner.crew.alone(request) if together else learner.by_parts.whole(request)


def possible(training: Training, groups: Sequence[Group], workers: int) -> list[str]:
    """The approaches that `auto` chooses from.

    GAP needs a group that it can cut, and DP parts of each group for all workers.
    """
    found = ["TP"]
    if why_not_parts(training) is None and groups:
        found += ["GAP"] if large(groups) else []
        found += ["DP"] if min(one.rows for one in groups) >= workers * units.BATCH_ROWS else []
    return found


def refuse_chance(training: Training) -> None:
    """Raises OptionError for a choice by measured seconds where all runs are to have the same
    bits.
    """
    if any(request.options.deterministic for request in training.call.requests):
        raise OptionError(
            "placement 'auto' chooses by seconds that it measures, which differ from run to run, "
            "and option 'deterministic' is given: expected one of them, or placement 'gtp'"
        )
