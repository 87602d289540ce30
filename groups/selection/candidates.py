"""The candidates of a search: combinations of values of options, or draws from them."""

import itertools
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuskml.errors import OptionError, nearest
from tuskml.learners.options.by_name import OF_ROWS
from tuskml.learners.options.kinds import Option
from tuskml.learners.options.table import IdleOption, Options
from tuskml.learners.registry import learner_of, options_of, task_named
from tuskml.learners.tasks import Task

HOLDING = ("folds", "fold_by", "time_by", "gap", "window")
"""The options that say how rows are held out."""
KEEPING = ("conformal", "calibration")
"""The options by which models keep something of held-out rows."""
SEARCHES = ("search", *HOLDING, "metric", "one_standard_error", *KEEPING, "tasks")
"""The options of a search itself."""
MOST_CANDIDATES = 10_000


@dataclass(frozen=True)
class Candidate:
    """One configuration: a task with its options; shown: the distinguishing ones, as JSON."""

    task: Task
    options: Options
    shown: str


def option_of(task: str, name: str) -> Option | None:
    """A task's option by its name."""
    return learner_of(task_named(task)).options.by_name.get(name)


def values_of(option: Option, value: Any) -> "list[Any] | Draw | None":
    """The values of a list, or a distribution, None for one value of the option.

    A list without any value of the option is an invalid value of it, for its own sentence.
    """
    if not isinstance(value, list | dict) or allows(option, value):
        return None
    if isinstance(value, dict):
        return draw_of(option, value) if RANGES & set(value) else None
    return value if any(allows(option, one) for one in value) else None


def allows(option: Option, value: Any) -> bool:
    """Returns whether an option may have a value."""
    try:
        option.kind.parse(value)
    except (ValueError, OverflowError, TypeError):
        return False
    return True


def refuse_unknown(specs: Sequence[Mapping[str, Any]], plain: Mapping[str, Any]) -> None:
    """Raises OptionError for an option that none of several tasks has, or that is nearly a
    search's.
    """
    if len(specs) == 1:
        for name in plain:
            meant = nearest(name, SEARCHES)
            if meant and option_of(specs[0]["task"], name) is None:
                raise OptionError(f"unknown option '{name[:60]}'{meant}")
        return  # its own sentence follows when it is read
    known = {
        name for spec in specs for name in learner_of(task_named(spec["task"])).options.by_name
    }
    for name in plain:
        if name not in known:
            raise OptionError(
                f"unknown option '{name[:60]}', expected one of {', '.join(sorted(known))}"
                f"{nearest(name, known)}"
            )


NOT_OF_SEARCHES = {
    "store": "search without it, and store the model of the options that won",
    "warm_start": "its model may have seen rows that candidates are judged by: train the options "
    "that won with it",
}
"""Options that no search accepts, with the alternatives."""
ALIKE = ("classes", "threads", "format", "device")
"""Options with one value for all candidates: they describe the rows, or the device."""


def refuse_options(given: Mapping[str, Any]) -> None:
    """Raises OptionError for options of a task that a search does not take, or takes no list
    of.
    """
    for name, instead in NOT_OF_SEARCHES.items():
        if given.get(name) is not None:
            raise OptionError(f"option '{name}' is not available in a search: {instead}")
    for name in ALIKE:
        value = given.get(name)
        if isinstance(value, list) and not plain_list(name, value):
            raise OptionError(
                f"option '{name}' is {json.dumps(value)[:60]}, and all candidates of a search "
                "have the same one: expected one value"
            )


def plain_list(name: str, value: list[Any]) -> bool:
    """Returns whether a list is one value: of two classes."""
    return name == "classes" and not any(isinstance(one, list) for one in value)


def refuse_other_rows(specs: Sequence[Mapping[str, Any]], plain: Mapping[str, Any]) -> None:
    """Raises OptionError for values of option `missing` with which candidates would have other
    rows.

    Rows are packed, and some of them skipped, before there are candidates.
    """
    given = plain.get("missing")
    if isinstance(given, list) and "skip" in given:
        raise OptionError(
            "option 'missing' has 'skip' in its list, and all candidates train on the same rows: "
            'expected "missing": "skip" without a list, or a list without it'
        )
    for spec in specs:
        if "missing" in spec:
            raise OptionError(
                f"option 'missing' stands within task '{spec['task'][:60]}', and all candidates "
                "train on the same rows: expected it beside option 'tasks'"
            )


def refuse_unlabelled(specs: Sequence[Mapping[str, Any]]) -> None:
    """Raises OptionError for tasks without labels whose candidates no metric could judge."""
    for spec in specs:
        task = task_named(spec["task"])
        if not task.has_labels and task.metric is None:
            raise OptionError(
                f"task '{spec['task']}' has no labels by which a search could judge models: "
                "expected one value of each option, and no option of a search"
            )


def refuse_other_words(candidates: Sequence[Candidate]) -> None:
    """Raises OptionError for candidates of topics that leave out different words, since their
    perplexity is of different tokens.
    """
    topics = [one.options for one in candidates if one.task.metric == "perplexity"]
    for name in ("min_count", "max_categories", "stop_words"):
        if len({getattr(options, name) for options in topics}) > 1:
            raise OptionError(
                f"option '{name}' has several values, by which candidates have different words, "
                "whose perplexity cannot be compared: expected one value"
            )


def refuse_other_distances(candidates: Sequence[Candidate]) -> None:
    """Raises OptionError for candidates of clusters whose rows have other features or units, since
    their silhouettes are of different distances.
    """
    clusters = [one for one in candidates if one.task.metric == "silhouette"]
    for name in ("standardize", *(option.name for option in OF_ROWS)):
        found = {repr(getattr(one.options, name, None)) for one in clusters}
        if len(found) > 1:
            raise OptionError(
                f"option '{name}' has several values, by which candidates measure different "
                "distances, whose silhouettes cannot be compared: expected one value"
            )


def candidates_of(
    specs: Sequence[Mapping[str, Any]],
    plain: Mapping[str, Any],
    strategy: str,
    trials: int | None,
    random: "np.random.Generator",
) -> tuple[Candidate, ...]:
    """All combinations of each task, or `trials` draws, spread evenly over the tasks."""
    classes = any(task_named(spec["task"]).classifies for spec in specs)
    spaces = [space_of(spec, plain, classes, len(specs) > 1) for spec in specs]
    if trials is None or strategy == "grid":
        chosen = [grid(space) for space in spaces]
    else:
        counts = [len(part) for part in np.array_split(np.arange(trials), len(spaces))]
        chosen = [
            draw_combinations(space, n, random) for space, n in zip(spaces, counts, strict=True)
        ]
    found: dict[str, Candidate] = {}
    acting: set[str] = set()
    idle: dict[str, IdleOption] = {}
    for spec, space, values in zip(specs, spaces, chosen, strict=True):
        for one in values:
            candidate = candidate_of(spec["task"], space, one, len(specs) > 1, idle)
            found.setdefault(candidate.task.name + candidate.shown, candidate)
            acting |= candidate.options.given
    for name, error in idle.items():
        if name not in acting:
            raise error
    refuse_many(len(found))
    return tuple(found.values())


def refuse_many(combinations: int) -> None:
    """Raises OptionError for more combinations than can be tried."""
    if combinations > MOST_CANDIDATES:
        raise OptionError(
            f"the lists have {combinations} combinations, at most {MOST_CANDIDATES} are allowed: "
            'draw some with "search": {"strategy": "random", "trials": 100}'
        )


Space = dict[str, Any]
"""By option: its value, a list of values, or a distribution."""


def space_of(
    spec: Mapping[str, Any], plain: Mapping[str, Any], classes: bool, several: bool
) -> Space:
    """The possible options of a task; of options that several tasks share, those that it has."""
    task = task_named(spec["task"])
    table = learner_of(task).options.by_name
    shared = {k: v for k, v in plain.items() if not several or k in table}
    if classes and task.classes_by_option:
        shared = {**learner_of(task).facts.classifying, **shared}
    own = {k: v for k, v in spec.items() if k != "task"}
    space: Space = {}
    for name, value in (shared | own).items():
        option = table.get(name)
        several_values = values_of(option, value) if option is not None else None
        space[name] = _Several(several_values) if several_values is not None else value
    return space


@dataclass(frozen=True)
class _Several:
    """The values that an option may have."""

    values: "list[Any] | Draw"

    def one(self, random: "np.random.Generator") -> Any:
        if isinstance(self.values, Draw):
            return self.values.one(random)
        return self.values[int(random.integers(len(self.values)))]


def grid(space: Space) -> list[dict[str, Any]]:
    """All combinations; raises OptionError if one has more values than can be listed."""
    names = [name for name, value in space.items() if isinstance(value, _Several)]
    for name in names:
        if isinstance(space[name].values, Draw):
            raise OptionError(
                f"option '{name}' is a range, whose values are drawn: expected "
                '"search": {"strategy": "random", "trials": 20} beside it, or a list of values'
            )
    count = int(np.prod([float(len(space[name].values)) for name in names])) if names else 1
    refuse_many(count)
    combinations = itertools.product(*(space[name].values for name in names))
    return [dict(zip(names, values, strict=True)) for values in combinations]


def draw_combinations(
    space: Space, trials: int, random: "np.random.Generator"
) -> list[dict[str, Any]]:
    """`trials` distinct combinations, or as many as there are."""
    names = [name for name, value in space.items() if isinstance(value, _Several)]
    found: dict[str, dict[str, Any]] = {}
    for _ in range(20 * trials):  # a small grid has no more that differ
        one = {name: space[name].one(random) for name in names}
        found.setdefault(json.dumps(one, sort_keys=True), one)
        if len(found) == trials:
            break
    return list(found.values())


def candidate_of(
    task: str,
    space: Space,
    values: Mapping[str, Any],
    several: bool,
    idle: dict[str, IdleOption],
) -> Candidate:
    """The candidate with these values. Raises OptionError for an invalid one.

    Options without an effect next to the others are left out and added to `idle`.
    """
    found, varied = task_named(task), dict(values)
    fixed = {name: value for name, value in space.items() if not isinstance(value, _Several)}
    while True:
        try:
            options = options_of(found, json.dumps(fixed | varied))
            break
        except IdleOption as error:
            idle.setdefault(error.option, error)
            for given in (fixed, varied):
                given.pop(error.option, None)
    shown = ({"task": task} if several else {}) | varied
    return Candidate(found, options, json.dumps(shown))


# Values that are drawn: a range of an option, and its distribution.

RANGES = {"uniform", "log_uniform", "int", "log_int"}
"""The distributions, each of a range whose ends may be drawn; `log_`: of the logarithm."""


@dataclass(frozen=True)
class Draw:
    """Numbers between two ends, drawn evenly, or evenly in their logarithms."""

    low: float
    high: float
    logarithmic: bool
    whole: bool

    def one(self, random: "np.random.Generator") -> float | int:
        low, high = (self.low, self.high + 1) if self.whole else (self.low, self.high)
        if self.logarithmic:
            value = math.exp(random.uniform(math.log(low), math.log(high)))
        else:
            value = float(random.uniform(low, high))
        return min(int(value), int(self.high)) if self.whole else min(value, self.high)


def draw_of(option: Option, given: Mapping[str, Any]) -> Draw:
    """The distribution of an object such as {"log_uniform": [1e-6, 1]}. Raises OptionError for
    others.
    """
    (name, ends), *more = given.items()
    logarithmic = name.startswith("log_")
    numbers = isinstance(ends, list) and len(ends) == 2 and all(map(_is_number, ends))
    if more or not numbers or not ends[0] <= ends[1] or (logarithmic and ends[0] <= 0):
        raise OptionError(
            f"option '{option.name}' is {json.dumps(given)[:60]}, expected its two ends, the "
            f'lower first, such as {{"{name}": [{"0.001, 1" if "uniform" in name else "7, 63"}]}}'
            f"{', above 0' if logarithmic else ''}"
        )
    found = Draw(float(ends[0]), float(ends[1]), logarithmic, "int" in name)
    for end in ends:
        try:
            option.kind.parse(int(end) if found.whole else float(end))
        except (ValueError, OverflowError):
            raise OptionError(
                f"option '{option.name}' is {json.dumps(given)[:60]}, expected ends that are "
                f"{option.kind.allowed}"
            ) from None
    return found


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return bool(abs(value) <= sys.float_info.max)
