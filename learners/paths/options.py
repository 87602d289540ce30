"""The options of linear models that select features, with their defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuskml.errors import OptionError
from tuskml.kernels.paths import LOGISTIC, SQUARED
from tuskml.learners.options.kinds import (
    ALONE,
    BOOLEAN,
    ONE_PLACE,
    PARTS,
    Acts,
    Kind,
    Option,
    choice,
    integer,
    real,
    within,
)
from tuskml.learners.options.table import SHARED, Options, OptionTable
from tuskml.learners.tasks import Task, built_in, in_table


@dataclass(frozen=True, kw_only=True)
class PathTask(Task):
    """A task whose penalty has an L1 part. loss: the kernels' number; response: the function of
    the margin, `identity` or `logistic`.
    """

    loss: int
    response: str


TASKS = {
    name: built_in(task)
    for name, task in {
        "lasso": PathTask(**in_table("lasso"), loss=SQUARED, response="identity"),
        "elastic_net": PathTask(**in_table("elastic_net"), loss=SQUARED, response="identity"),
        "sparse_logistic": PathTask(
            **in_table("sparse_logistic"), loss=LOGISTIC, response="logistic"
        ),
    }.items()
}
"""The tasks by learner, in the form that a learner has them."""


RANDOM, PRIORITY, DYNAMIC = SCHEDULES = ("random", "priority", "dynamic")
MOST_LENGTH = 1000
MOST_FOLDS = 1000
USUAL_FOLDS = 5
USUAL_LENGTH = 100
MEMBERS = ("length", "ratio", "values", "folds", "one_standard_error")


@dataclass(frozen=True)
class Path:
    """A falling sequence of penalties, and how one of them is chosen.

    values: the penalties, or None: `length` of them from the largest one that matters down to
    `ratio` times it. folds: each of which is held out once, 0: the last penalty is taken; None:
    as many as usual.
    one_standard_error: whether the largest penalty within one standard error of the best is taken.
    """

    length: int = USUAL_LENGTH
    ratio: float = 1e-3
    values: tuple[float, ...] | None = None
    folds: int | None = None
    one_standard_error: bool = False

    @property
    def times(self) -> int:
        """The number of folds."""
        return USUAL_FOLDS if self.folds is None else self.folds


@dataclass(frozen=True, kw_only=True)
class PathOptions(Options):
    """The options of a call; penalty: option `lambda`; alpha: 1 where a task has no such one."""

    penalty: float | None
    alpha: float = 1.0
    path: Path | None
    tol: float
    positive: bool
    standardize: bool
    unpenalized: tuple[int | str, ...] | None
    groups: str | tuple[tuple[int | str, ...], ...] | None
    fit_intercept: bool
    schedule: str

    @property
    def holds_out(self) -> bool:
        """Returns whether rows that are held out choose the penalty."""
        return self.penalty is None and (self.path is None or self.path.times > 0)

    @property
    def epochs(self) -> int:
        """The most epochs per penalty."""
        return self.max_iter or 1


def make_options(**values: Any) -> PathOptions:
    """The options from their values by name."""
    return PathOptions(penalty=values.pop("lambda"), **values)


def _path(value: Any) -> Path:
    if not isinstance(value, dict) or not set(value) <= set(MEMBERS):
        raise ValueError
    given: dict[str, Any] = dict(value)
    if "values" in given:
        if "length" in given or "ratio" in given:
            raise ValueError
        given["values"] = _falling(given["values"])
        given["length"] = len(given["values"])
    for name, kind in KINDS.items():
        if name in given:
            given[name] = kind.parse(given[name])
    if given.get("folds") == 1 or (given.get("folds") == 0 and given.get("one_standard_error")):
        raise ValueError
    return Path(**given)


def _falling(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_LENGTH:
        raise ValueError
    found = sorted((PENALTY.parse(one) for one in value), reverse=True)
    if len(set(found)) < len(found):
        raise ValueError
    return tuple(found)


def _check_unpenalized(value: Any) -> tuple[int | str, ...]:
    given = value if isinstance(value, list) else []
    for one in given:
        if not (isinstance(one, str) and one) and (type(one) is not int or one < 1):
            raise ValueError
    if not given or len(set(given)) < len(given):
        raise ValueError
    return tuple(given)


def _groups(value: Any) -> str | tuple[tuple[int | str, ...], ...]:
    if value == CATEGORIES:
        return CATEGORIES
    if not isinstance(value, list) or not value:
        raise ValueError
    found = tuple(_check_unpenalized(one) for one in value)
    every = [one for block in found for one in block]
    if len(set(every)) < len(every):
        raise ValueError
    return found


CATEGORIES = "categories"
"""The option `groups` where the levels of each category make one."""
PENALTY = real(0, open_low=True)
KINDS: Mapping[str, Any] = {
    "length": integer(1, MOST_LENGTH),
    "ratio": real(0, 1, open_low=True),
    "folds": integer(0, MOST_FOLDS),
    "one_standard_error": BOOLEAN,
}
PATH = Kind(
    'an object such as {"length": 100, "ratio": 0.001, "folds": 5} with length (1 to '
    f"{MOST_LENGTH}), ratio (between 0 and 1) or values (penalties in the place of both), folds "
    f"(0, or 2 to {MOST_FOLDS}), one_standard_error (with folds)",
    _path,
)
UNPENALIZED = Kind(
    "a list of places of features, the first being 1, or of their names, each once",
    _check_unpenalized,
)
GROUPS = Kind(
    "'categories', or a list of lists of features, by place, the first being 1, or by name, each "
    "once",
    _groups,
)


def _alpha(value: Any) -> float:
    number: float = PENALTY.parse(value)
    if number > 1:
        raise ValueError
    return number


ALPHA = Kind("a number greater than 0 and at most 1", _alpha)


def _check(options: PathOptions) -> None:
    """Raises OptionError for values that cannot go together."""
    if options.penalty is not None and options.path is not None:
        raise OptionError(
            f"options 'lambda' and 'path' are both given, {options.penalty:g} the former: "
            "expected one of them"
        )
    if options.positive and options.groups is not None:
        raise OptionError(
            "option 'positive' is true, and option 'groups' is given: expected one of them"
        )


def _table(alpha: float | None, *more: str | Option) -> OptionTable[PathOptions]:
    """The options of a task; alpha: the default of its option, None: it has none."""
    mixing = Option(
        "alpha", ALPHA, alpha, "the share of the penalty that is L1: 1 is the lasso's penalty"
    )
    first, *others = OWN
    of_alpha = () if alpha is None else (mixing,)
    shared = ("time", "threads", "seed", *more, "store", "format")
    return OptionTable(make_options, (first, *of_alpha, *others, *shared), _check)


OWN = (
    Option(
        "lambda",
        PENALTY,
        None,
        "the weight of the penalty; if neither it nor `path` is given, a path chooses it",
    ),
    Option(
        "path",
        PATH,
        None,
        f"fits `length` ({USUAL_LENGTH}) penalties from the largest one that matters down to "
        f"`ratio` (0.001) times it, or `values`; `folds` ({USUAL_FOLDS}; 0: the last one) choose "
        "the one with the least held-out loss, or with `one_standard_error` the largest one "
        "within one standard error of it",
    ),
    Option(
        "tol",
        real(0, open_low=True),
        1e-6,
        "the duality gap at which a fit ends, as a share of the objective without penalised"
        " features",
        unseen="a fit may be exact at once",
    ),
    Option(
        "max_iter",
        integer(1, 2**31 - 1),
        100_000,
        "the most epochs per penalty",
        unseen="a fit may end before",
    ),
    Option("positive", BOOLEAN, False, "whether penalised weights must be at least 0"),
    Option(
        "standardize",
        BOOLEAN,
        False,
        "whether the penalty is on the weights of standardised features",
    ),
    Option(
        "unpenalized",
        UNPENALIZED,
        None,
        "the features without a penalty",
        (Acts(where=ALONE),),
    ),
    Option(
        "groups",
        GROUPS,
        None,
        "features that enter together (group lasso): the levels of each category, or lists "
        "of features, where a category's name stands for its levels",
        (Acts(where=ALONE),),
    ),
    Option("fit_intercept", BOOLEAN, True, "whether the model has an intercept"),
    Option(
        "schedule",
        choice(*SCHEDULES),
        DYNAMIC,
        "the features that several workers update at once: `random` ones, with `priority` those "
        "that move most, or with `dynamic` those of them that are hardly correlated",
        (Acts(where=frozenset((PARTS,))),),
        unseen="it changes the order of updates",
    ),
)
"""The options of all these tasks, that of the penalty first."""
LASSO = _table(None)
ELASTIC_NET = _table(0.5)
SPARSE_LOGISTIC = _table(1.0, within(SHARED["class_weight"], frozenset((ONE_PLACE,))), "classes")
