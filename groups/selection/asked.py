"""What a call asks to be searched: candidates, how rows are held out, and by what they are judged.

An option given as a list is a grid, unless the option's own values are lists. The candidates are
all combinations, or draws from them (J. Bergstra, Y. Bengio, Random search for hyper-parameter
optimization, JMLR 2012).
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuskml.errors import OptionError, nearest, one_of
from tuskml.groups.selection.candidates import (
    MOST_CANDIDATES,
    SEARCHES,
    Candidate,
    candidates_of,
    option_of,
    refuse_other_rows,
    refuse_unknown,
    values_of,
)
from tuskml.groups.selection.metrics import METRICS, parameter_for, refuse_numbers, usual
from tuskml.learners.options.kinds import Option
from tuskml.learners.options.table import object_in
from tuskml.learners.registry import all_options, task_named

STRATEGIES = ("grid", "random", "halving")
FOLDS, MOST_FOLDS = 5, 100
ANY_TASK = "auto"
"""The task whose model is the best one of option `tasks`."""


@dataclass(frozen=True)
class Search:
    """A search over candidates, in the order in which they were asked for.

    folds, held: each of the `held` first of so many folds is held out once, apart; together: or
    these are held out together, once. metric: by name in SQL. eta: what the rows of successive
    halving grow by; 1: there is none. time: the most seconds.
    """

    candidates: tuple[Candidate, ...]
    folds: int
    held: int
    together: bool
    metric: str
    parameter: float
    one_standard_error: bool
    eta: int
    time: float | None
    seed: int

    @property
    def sets(self) -> Sequence[tuple[int, ...]]:
        """The folds that are held out, each time that candidates are trained."""
        out = range(self.held)
        return (tuple(out),) if self.together else [(fold,) for fold in out]

    def with_threads(self, threads: int) -> "Search":
        """The same with a number of threads for candidates whose options have none."""
        given = [
            one
            if one.options.threads is not None
            else replace(one, options=replace(one.options, threads=threads))
            for one in self.candidates
        ]
        return replace(self, candidates=tuple(given))


def search_of(task: str, text: str) -> Search | None:
    """The search in a JSON text of options, None where it asks for none. Raises OptionError."""
    if task != ANY_TASK and "[" not in text and not any(f'"{key}"' in text for key in SEARCHES):
        return None
    return _kept(task, text)


@functools.lru_cache(maxsize=64)
def _kept(task: str, text: str) -> Search | None:
    given = object_in(text)
    specs = tasks_in(task, given)
    plain = {name: value for name, value in given.items() if name not in SEARCHES}
    settings = {name: value for name, value in given.items() if name in SEARCHES}
    if task != ANY_TASK and not settings and not any(varied(specs, plain)):
        return None
    return searched(specs, plain, settings)


def tasks_in(task: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tasks that compete, each with the options that are its own alone, `task` among them."""
    listed = given.get("tasks")
    if task != ANY_TASK:
        if listed is not None:
            raise OptionError(
                f"option 'tasks' is for task '{ANY_TASK}', and the task is '{task}': expected "
                f"train_model('{ANY_TASK}', ...), or no option 'tasks'"
            )
        task_named(task)
        return [{"task": task}]
    if not isinstance(listed, list) or not listed:
        raise OptionError(
            f"task '{ANY_TASK}' needs option 'tasks', expected a list of tasks such as "
            '\'{"tasks": ["logistic", "gbdt"]}\''
        )
    found = [{"task": one} if isinstance(one, str) else one for one in listed]
    for one in found:
        if not isinstance(one, dict) or not isinstance(one.get("task"), str):
            raise OptionError(
                f"option 'tasks' has {json.dumps(one)[:60]}, expected the name of a task, or an "
                'object such as {"task": "gbdt", "num_leaves": [7, 31]}'
            )
        task_named(one["task"])
    return found


def varied(specs: Sequence[Mapping[str, Any]], plain: Mapping[str, Any]) -> list[str]:
    """The options that have several values."""
    return [
        name
        for spec in specs
        for name, value in {**plain, **{k: v for k, v in spec.items() if k != "task"}}.items()
        if (option := option_of(spec["task"], name)) is not None
        and values_of(option, value) is not None
    ]


def searched(
    specs: Sequence[Mapping[str, Any]], plain: Mapping[str, Any], settings: Mapping[str, Any]
) -> Search:
    """The search of some tasks, of options that all have, and of its own settings."""
    how = settings.get("search", {})
    if not isinstance(how, dict):
        raise OptionError(
            f"option 'search' is {json.dumps(how)[:60]}, expected an object such as "
            '{"strategy": "random", "trials": 20}'
        )
    check_names(how)
    strategy, trials = strategy_of(how), trials_of(how)
    folds, held, together = folds_of(settings, plain)
    if together:
        plain = {name: value for name, value in plain.items() if name != "validation"}
    refuse_unknown(specs, plain)
    refuse_other_rows(specs, plain)
    seed = plain.get("seed", 0)
    random = np.random.default_rng(seed if isinstance(seed, int) and seed >= 0 else 0)
    candidates = candidates_of(specs, plain, strategy, trials, random)
    metric, parameter = metric_for(candidates, settings.get("metric"))
    return Search(
        candidates,
        folds,
        held,
        together,
        metric,
        parameter,
        flag(settings, "one_standard_error"),
        2 if strategy == "halving" else 1,
        seconds_of(how),
        candidates[0].options.seed,
    )


def check_names(how: Mapping[str, Any]) -> None:
    """OptionError for settings of option `search` that there are not."""
    allowed = ("strategy", "trials", "time")
    for name in how:
        if name not in allowed:
            raise OptionError(
                f"option 'search' has '{name[:60]}', expected one of {', '.join(allowed)}"
                f"{nearest(name, allowed)}"
            )


def strategy_of(how: Mapping[str, Any]) -> str:
    """Which of the candidates are tried, and on how many rows."""
    given = how.get("strategy", "random" if "trials" in how else "grid")
    if given not in STRATEGIES:
        hint = nearest(given, STRATEGIES) if isinstance(given, str) else ""
        raise OptionError(
            f"'strategy' in option 'search' is {json.dumps(given)[:60]}, expected "
            f"{one_of(STRATEGIES)}{hint}"
        )
    return str(given)


def trials_of(how: Mapping[str, Any]) -> int | None:
    """How many candidates are drawn; None: all combinations."""
    given = how.get("trials")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST_CANDIDATES:
        raise OptionError(
            f"'trials' in option 'search' is {json.dumps(given)[:60]}, expected a whole number "
            f"from 1 to {MOST_CANDIDATES}"
        )
    return int(given)


def seconds_of(how: Mapping[str, Any]) -> float | None:
    """The most time of the whole search."""
    if "time" not in how:
        return None
    time: Option = all_options()["time"]
    try:
        found: float = time.kind.parse(how["time"])
    except (ValueError, OverflowError):
        raise OptionError(
            f"'time' in option 'search' is {json.dumps(how['time'])[:60]}, expected "
            f"{time.kind.allowed}"
        ) from None
    return found


def flag(settings: Mapping[str, Any], name: str) -> bool:
    """A setting that is true or false."""
    given = settings.get(name, False)
    if not isinstance(given, bool):
        raise OptionError(f"option '{name}' is {json.dumps(given)[:60]}, expected true or false")
    return given


def folds_of(settings: Mapping[str, Any], plain: Mapping[str, Any]) -> tuple[int, int, bool]:
    """Folds, how many are held out, and whether together: as `Search` has them."""
    folds, share = settings.get("folds"), plain.get("validation")
    if folds is None and isinstance(share, int | float) and 0 < share < 1:
        held, of = nearest_share(float(share))
        return of, held, True
    if folds is None:
        return FOLDS, FOLDS, False
    if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= MOST_FOLDS:
        raise OptionError(
            f"option 'folds' is {json.dumps(folds)[:60]}, expected a whole number from 2 to "
            f"{MOST_FOLDS}"
        )
    return folds, folds, False


def nearest_share(share: float) -> tuple[int, int]:
    """The fraction of at most MOST_FOLDS folds that is nearest to a share between 0 and 1."""
    pairs = [(max(1, round(share * n)), n) for n in range(2, MOST_FOLDS + 1)]
    usable = [(held, n) for held, n in pairs if held < n]
    return min(usable, key=lambda pair: (round(abs(pair[0] / pair[1] - share), 12), pair[1]))


def metric_for(candidates: Sequence[Candidate], given: Any) -> tuple[str, float]:
    """The metric's name and its parameter, the candidates' own where none is given."""
    own = {usual(one.task, one.options)[0] for one in candidates}
    if given is None:
        if len(own) > 1:
            raise OptionError(
                f"the tasks have the metrics {', '.join(sorted(own))}: expected option 'metric', "
                "one that all have"
            )
        given = next(iter(own))
    if not isinstance(given, str) or given not in METRICS:
        hint = nearest(given, METRICS) if isinstance(given, str) else ""
        raise OptionError(
            f"option 'metric' is {json.dumps(given)[:60]}, expected {one_of(list(METRICS))}{hint}"
        )
    refuse_numbers(candidates, given)
    return given, parameter_for(candidates, given)
