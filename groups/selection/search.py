"""Parses the search in a call: candidates, held-out rows, and the metric.

An option given as a list is a grid, unless the option's own values are lists. The candidates are
all combinations, or draws from them (J. Bergstra, Y. Bengio, Random search for hyper-parameter
optimization, JMLR 2012), or those of the draws that each group chooses (`choosing.py`).
"""

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuskml.errors import OptionError, nearest
from tuskml.groups.selection.candidates import (
    KEEPING,
    MOST_CANDIDATES,
    SEARCHES,
    Candidate,
    candidates_of,
    option_of,
    refuse_options,
    refuse_other_distances,
    refuse_other_rows,
    refuse_other_words,
    refuse_unknown,
    refuse_unlabelled,
    values_of,
)
from tuskml.groups.selection.choosing import Estimate, estimate_of, in_turn, pool
from tuskml.groups.selection.held_rows import METHODS, Distances, HeldRows, Margins
from tuskml.groups.selection.metrics import (
    METRICS,
    OF_OTHERS,
    fitting,
    parameter_for,
    refuse_metric,
    usual,
)
from tuskml.learners.held_out import GAP, MOST_FOLDS, HeldOut, make_held_out
from tuskml.learners.learner import Request
from tuskml.learners.options.by_name import DEALING
from tuskml.learners.options.kinds import BOOLEAN, TIME, Option, choice, integer
from tuskml.learners.options.table import object_in, value_of
from tuskml.learners.registry import learner_of, task_named
from tuskml.learners.tasks import has_levels

HOW = {
    option.name: option
    for option in (
        Option(
            "strategy",
            choice("grid", "random", "halving", "tpe"),
            None,
            "which of the candidates are tried, and on how many rows",
        ),
        Option("trials", integer(1, MOST_CANDIDATES), None, "how many candidates are drawn"),
        Option("time", TIME, None, "the most time of the whole search"),
    )
}
"""The settings of option `search`."""
JUDGED = {
    option.name: option
    for option in (
        Option("folds", integer(2, MOST_FOLDS), None, "the folds, each of which is held out once"),
        *DEALING.values(),
        Option(
            "gap",
            GAP,
            None,
            "with `time_by`: rows of this distance before those that are held out, or less, are "
            "not trained on",
        ),
        Option(
            "window",
            integer(1, MOST_FOLDS),
            None,
            "with `time_by` and `folds`: how many stretches of time, each as long as a fold, are "
            "trained on before it; without it all",
        ),
        Option("metric", choice(*METRICS), None, "what the candidates are judged by"),
        Option(
            "one_standard_error",
            BOOLEAN,
            False,
            "whether the simplest candidate within one standard error of the best one wins",
        ),
        Option(
            "conformal",
            BOOLEAN,
            False,
            "whether the model keeps how far labels of held-out rows lie from their predictions, "
            "for `predict_interval`",
        ),
        Option(
            "calibration",
            choice(*METHODS),
            None,
            "how probabilities of two classes follow from the margins of held-out rows",
        ),
    )
}
"""The other options of a search that have values of their own."""
ANY_TASK = "auto"
"""The task whose model is the best one of option `tasks`."""


@dataclass(frozen=True)
class Search:
    """A search over candidates, in the order of the call.

    dealt: the folds, and which of them are held out. metric: its SQL name and parameter. halving:
    whether the better half of the candidates continues, with twice the rows. time: the most
    seconds. estimate: of what groups choose from the candidates, None if they try all; plain:
    whether there is nothing to choose, and the one candidate holds out rows itself, or none;
    held_rows: creates an empty collection of the numbers of held-out rows that models keep; None
    if they keep none.
    """

    candidates: tuple[Candidate, ...]
    dealt: HeldOut
    metric: str
    parameter: float
    one_standard_error: bool
    halving: bool
    time: float | None
    seed: int
    estimate: Estimate | None = None
    plain: bool = False
    held_rows: Callable[[], HeldRows] | None = None

    @property
    def sets(self) -> Sequence[tuple[int, ...]]:
        """The folds that are held out, each time that candidates are trained."""
        return self.dealt.sets

    def with_threads(self, threads: int) -> "Search":
        """Returns the search with this number of threads for candidates without the option."""
        given = [
            one
            if one.options.threads is not None
            else replace(one, options=replace(one.options, threads=threads))
            for one in self.candidates
        ]
        return replace(self, candidates=tuple(given))


def search_of(task: str, text: str) -> Search | None:
    """The search in a JSON text of options, None where it asks for none. Raises OptionError."""
    asks = any(f'"{key}"' in text for key in (*SEARCHES, "validation"))
    if task != ANY_TASK and "[" not in text and not asks:
        return None
    return _cache_search(task, text)


@functools.lru_cache(maxsize=64)
def _cache_search(task: str, text: str) -> Search | None:
    given = object_in(text)
    specs = tasks_in(task, given)
    plain = {name: value for name, value in given.items() if name not in SEARCHES}
    settings = {name: value for name, value in given.items() if name in SEARCHES}
    if task != ANY_TASK and not settings and not any(varying_options(specs, plain)):
        if "validation" not in plain or option_of(task, "validation") is not None:
            return None
        found = make_search(specs, plain, settings)
        return found if found.plain else None
    return make_search(specs, plain, settings)


forget_searches = _cache_search.cache_clear
"""Call it when a task was registered anew."""


def tasks_in(task: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The competing tasks, `task` included, each with its own options."""
    listed = given.get("tasks")
    if task != ANY_TASK:
        if "tasks" in given:
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


def varying_options(specs: Sequence[Mapping[str, Any]], plain: Mapping[str, Any]) -> list[str]:
    """The options that have several values."""
    return [
        name
        for spec in specs
        for name, value in {**plain, **{k: v for k, v in spec.items() if k != "task"}}.items()
        if (option := option_of(spec["task"], name)) is not None
        and values_of(option, value) is not None
    ]


def make_search(
    specs: Sequence[Mapping[str, Any]], plain: Mapping[str, Any], settings: Mapping[str, Any]
) -> Search:
    """Makes a search from the specs of tasks, shared options, and the search's settings."""
    how = how_of(settings)
    strategy = how["strategy"] or ("grid" if how["trials"] is None else "random")
    folds = judging_option(settings, "folds")
    rows = make_held_out(
        folds,
        plain.get("validation"),
        *(judging_option(settings, name) for name in ("fold_by", "time_by", "gap", "window")),
    )
    if not any(option_of(spec["task"], "validation") for spec in specs) and rows.together:
        plain = {name: value for name, value in plain.items() if name != "validation"}
    refuse_unknown(specs, plain)
    refuse_unlabelled(specs)
    refuse_other_rows(specs, plain)
    for given in (plain, *specs):
        refuse_options(given)
    seed = plain.get("seed", 0)
    random = np.random.default_rng(seed if isinstance(seed, int) and seed >= 0 else 0)
    trials = trials_of(strategy, how)
    candidates = candidates_of(specs, plain, strategy, trials, random)
    refuse_other_words(candidates)
    refuse_other_distances(candidates)
    if strategy == "tpe":
        candidates = in_turn(candidates)
    metric, parameter = metric_for(candidates, judging_option(settings, "metric"))
    found = Search(
        candidates,
        rows,
        metric,
        parameter,
        judging_option(settings, "one_standard_error"),
        strategy == "halving",
        how["time"],
        candidates[0].options.seed,
        estimate_of(how["trials"], candidates) if strategy == "tpe" else None,
    )
    refuse_kept(found, settings)
    method = judging_option(settings, "calibration")
    if judging_option(settings, "conformal"):
        if method is not None:
            raise OptionError(
                "options 'conformal' and 'calibration' are both given, one for numbers and one "
                "for classes: expected one of them"
            )
        return conformal_search(found)
    if method is not None:
        return calibrating_search(found, method)
    if len(candidates) == 1 and are_defaults(settings) and "validation" not in plain:
        return replace(found, plain=True)
    chooses = set(settings) & {"search", "metric", "one_standard_error", "tasks"}
    return found if chooses else without_choice(found, folds)


def are_defaults(settings: Mapping[str, Any]) -> bool:
    """Returns whether a search's options are given, and all as they are without it."""
    return bool(settings) and all(
        name in JUDGED and judging_option(settings, name) == JUDGED[name].default
        for name in settings
    )


def refuse_kept(search: Search, settings: Mapping[str, Any]) -> None:
    """Raises OptionError for options that keep predictions of labels, of models without them."""
    for name in KEEPING:
        if judging_option(settings, name) and search.metric in OF_OTHERS:
            raise OptionError(
                f"option '{name}' is about predictions of labels, and the search judges "
                f"{OF_OTHERS[search.metric]}: expected a task that predicts labels"
            )


def conformal_search(search: Search) -> Search:
    """The search, whose models keep distances. Raises OptionError for models that cannot."""
    for one in search.candidates:
        if getattr(one.options, "intervals", None) is not None:
            raise OptionError(
                "options 'conformal' and 'intervals' are both given, which are two ways to "
                "intervals: expected one of them"
            )
        if learner_of(one.task).classifies(Request(one.task, one.options)):
            raise OptionError(
                "option 'conformal' is about predictions of numbers, and the task is "
                f"'{one.task.name}' of classes: expected a task or objective of numbers"
            )
    return replace(search, held_rows=Distances)


def calibrating_search(search: Search, method: str) -> Search:
    """The search, whose models calibrate probabilities. Raises OptionError for models that
    cannot.
    """
    for one in search.candidates:
        if getattr(one.options, "intervals", None) is not None:
            raise OptionError(
                "options 'calibration' and 'intervals' are both given, and intervals are of "
                "probabilities that are not calibrated: expected one of them"
            )
        if not learner_of(one.task).classifies(Request(one.task, one.options)):
            raise OptionError(
                f"option 'calibration' is about probabilities of classes, and the task is "
                f"'{one.task.name}' of numbers: expected a task or objective of classes"
            )
        if has_levels(one.task.name):
            raise OptionError(
                "option 'calibration' is about two classes without an order, and the task is "
                f"'{one.task.name}': expected 'logistic'"
            )
    return replace(search, held_rows=functools.partial(Margins, method=method))


def without_choice(search: Search, folds: int | None) -> Search:
    """A search whose one candidate holds out the rows itself, so that nothing is compared."""
    if len(search.candidates) > 1:
        return search
    (one,) = search.candidates
    own = learner_of(one.task).trials.holding_out(one.options, search.dealt, folds)
    if own is None:
        return search
    return replace(search, candidates=(replace(one, options=own),), plain=True)


def trials_of(strategy: str, how: Mapping[str, Any]) -> int | None:
    """The number of candidates to draw, None for all combinations. Raises OptionError."""
    trials: int | None = how["trials"]
    if strategy == "grid" and trials is not None:
        raise OptionError(
            f"option 'search' has the strategy 'grid' and {trials} 'trials', and a grid is tried "
            "as a whole: expected one of them, or the strategy 'random'"
        )
    if strategy in ("random", "tpe") and trials is None:
        raise OptionError(
            f"option 'search' has the strategy '{strategy}' without 'trials': expected how many "
            f'candidates each group tries, such as {{"strategy": "{strategy}", "trials": 20}}'
        )
    if strategy != "tpe" or trials is None:
        return trials
    return min(pool(trials), MOST_CANDIDATES)


def how_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each setting of option `search`. Raises OptionError."""
    how = settings.get("search", {})
    if not isinstance(how, dict):
        raise OptionError(
            f"option 'search' is {json.dumps(how)[:60]}, expected an object such as "
            '{"strategy": "random", "trials": 20}'
        )
    for name in how:
        if name not in HOW:
            raise OptionError(
                f"option 'search' has '{name[:60]}', expected one of {', '.join(HOW)}"
                f"{nearest(name, HOW)}"
            )
    return {
        name: option.default
        if how.get(name) is None
        else value_of(option, how[name], f"'{name}' in option 'search'")
        for name, option in HOW.items()
    }


def judging_option(settings: Mapping[str, Any], name: str) -> Any:
    """The value of one of the options in JUDGED. Raises OptionError."""
    option = JUDGED[name]
    return value_of(option, settings[name]) if name in settings else option.default


def metric_for(candidates: Sequence[Candidate], given: str | None) -> tuple[str, float]:
    """The metric's name and its parameter, by default the candidates' own."""
    own = {usual(one.task, one.options)[0] for one in candidates}
    if given is None and len(own) > 1:
        raise OptionError(
            f"the tasks have the metrics {', '.join(sorted(own))}: expected option 'metric', one "
            f"that all have: {fitting(candidates)}"
        )
    metric = given or next(iter(own))
    refuse_metric(candidates, metric)
    return metric, parameter_for(candidates, metric)
