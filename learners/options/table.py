"""The options of `train_model`: those that learners share, and how a learner's are read.

A learner declares an `OptionTable`: shared options by their name, its own as `Option`s, and the
class that all are read into.
"""

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tuskml.errors import OptionError, nearest
from tuskml.learners.options.acting import AboutTraining, refuse_idle
from tuskml.learners.options.kinds import (
    ALONE,
    BOOLEAN,
    CACHE,
    CATEGORY,
    CLASS_WEIGHT,
    CLASSES,
    DATE,
    DATES,
    EVERY_KIND,
    INTERACTIONS,
    LIST,
    MISSING,
    NAME,
    NAMES,
    OF_CLASSES,
    PAIRS,
    PARTITION,
    ROW,
    SPARSE,
    STORE,
    TIME,
    WARM_START,
    WORDS,
    Acts,
    Beside,
    Option,
    WarmStart,
    choice,
    integer,
    of_features,
    real,
    with_option,
)
from tuskml.learners.options.other_names import hint

MAX_TEXT = 64 * 1024
MAX_WARM_START = 64 * 1024 * 1024
MAX_DIGITS = 400
OF_SPEED = "it is about time and memory"
OF_BITS = "it is about how results repeat"
OF_TEXT = "it is about what is told of a training"

OF_ROW = frozenset((ROW,))


def acts_on_missing(*of_lists: str) -> tuple[Acts, ...]:
    """Where option `missing` acts; of_lists: its values that all kinds of features have."""
    return (Acts(EVERY_KIND - {WORDS}, values=of_lists), Acts(OF_ROW))


SHARED = {
    option.name: option
    for option in (
        Option("max_iter", integer(1, 2**31 - 1), None, "the most iterations, or epochs"),
        Option(
            "epsilon", real(0), 1e-6, "the tolerance of `converge`; 0 runs max_iter iterations"
        ),
        Option("time", TIME, None, "the most time for the training", unseen=OF_SPEED),
        Option(
            "class_weight",
            CLASS_WEIGHT,
            None,
            "the weights of the losses of the classes",
            OF_CLASSES,
        ),
        Option(
            "threads",
            integer(1, 1024),
            None,
            "the most threads; 1 is deterministic",
            unseen=OF_SPEED,
        ),
        Option(
            "seed",
            integer(0, 2**53),
            0,
            "the seed of the random order of rows",
            unseen="nothing may be drawn by chance",
        ),
        Option(
            "deterministic",
            BOOLEAN,
            False,
            "the same bits whatever the order of the rows",
            unseen=OF_BITS,
        ),
        Option(
            "validation", real(0, 1), 0.0, "the fraction of rows to hold out for early stopping"
        ),
        Option(
            "classes",
            CLASSES,
            None,
            "the two labels, of which the second is the positive class; for groups that have only "
            "one of them",
            OF_CLASSES,
            unseen="a group may have both",
        ),
        Option("warm_start", WARM_START, None, "the model to start from"),
        Option("store", STORE, None, "the name under which the weights are stored on disk"),
        Option(
            "cache",
            CACHE,
            None,
            "the memory for the weights of a stored model",
            with_option("store"),
            OF_SPEED,
        ),
        Option(
            "partition",
            PARTITION,
            1000,
            "how many frequent features of a stored model share keys; 0: one key per feature; or "
            "the name of a partitioning that `partition_model` kept",
            with_option("store"),
            OF_SPEED,
        ),
        Option(
            "layout",
            choice("auto", "affinity", "frequency", "id", "paper"),
            "auto",
            "which rare features of a stored model share keys, where the cache does not hold all",
            with_option("store"),
            OF_SPEED,
        ),
        Option(
            "sharing",
            choice("cache", "push"),
            "cache",
            "how threads share the weights of a stored model that they read: by the cache alone, "
            "or also handed to threads that need them next",
            with_option("store"),
            OF_SPEED,
        ),
        Option(
            "resume",
            BOOLEAN,
            False,
            "whether to continue an interrupted training of this store",
            with_option("store"),
        ),
        Option(
            "device",
            choice("auto", "gpu", "cpu"),
            "auto",
            "where to train; gpu: dense features or ratings, with tuskml[gpu] and an NVIDIA GPU",
            (Acts(where=ALONE), Acts(values=("auto", "cpu"))),
            OF_SPEED,
        ),
        Option(
            "explain",
            BOOLEAN,
            False,
            "whether the model's `plan` is the whole explanation, with the actual figures",
            unseen=OF_TEXT,
        ),
        Option(
            "format",
            choice("text", "json"),
            "text",
            "the format of an explanation",
            unseen=OF_TEXT,
        ),
        Option(
            "feature_names",
            NAMES,
            None,
            "names of the features, which the model's field `features` keeps",
            of_features(LIST, SPARSE, PAIRS),
        ),
        Option(
            "missing",
            choice(*MISSING[:-1]),
            "skip",
            "what becomes of a NULL in rows by name: `skip` leaves the row out; `impute` puts the "
            "group's mean or most frequent value in its place; `level` makes it a category of its "
            "own",
            acts_on_missing("skip"),
        ),
        Option(
            "invalid",
            choice("group", "skip", "error"),
            "group",
            "what becomes of rows that no model can be trained on, such as those with NaN, an "
            "infinite number or a negative count: `group` gives their group a model that predicts "
            "NULL, with the status `invalid rows` and a `plan` that says which row it was; `skip` "
            "leaves the rows out, counts them in `n_skipped`, and treats NaN among the features "
            "as NULL; `error` ends the statement",
        ),
        Option(
            "max_categories",
            integer(1, 100_000),
            None,
            "how many values of a category have a feature of their own; the rarer ones share the "
            "level *other*",
            of_features(CATEGORY),
        ),
        Option(
            "min_count",
            integer(1, 2**53),
            1,
            "in how many rows a value of a category must occur to have a feature of its own",
            of_features(CATEGORY),
        ),
        Option(
            "unseen",
            choice("other", "error"),
            "other",
            "what a prediction does with a value of a category that was not trained on: it counts "
            "as *other*, or weighs 0 where there is none; or it is an error",
            of_features(CATEGORY),
        ),
        Option(
            "categories",
            NAMES,
            None,
            "columns of numbers that are categories",
            of_features(ROW),
        ),
        Option(
            "dates",
            choice(*DATES),
            "days",
            "what dates and timestamps become: `days` since 1970-01-01; `parts`: the year, and "
            "month, weekday and hour as categories; `cycles`: the year, and sine and cosine of "
            "the others",
            (Acts(OF_ROW, values=("days",)), Acts(frozenset((DATE,)))),
        ),
        Option(
            "interactions",
            INTERACTIONS,
            None,
            "columns whose combinations are features of their own, besides those of each column",
            of_features(ROW),
        ),
        Option(
            "text",
            NAMES,
            None,
            "columns of text whose words, and pairs of neighbouring words, are counted in "
            "hashed buckets",
            of_features(ROW),
        ),
        Option(
            "cluster",
            NAME,
            None,
            "the column of rows with names whose equal values make a cluster: it is no feature, "
            "and standard errors hold where rows of one cluster depend on each other",
            of_features(ROW),
        ),
        Option(
            "text_bits",
            integer(4, 20),
            14,
            "`text` has 2^text_bits buckets",
            (Acts(OF_ROW, (Beside("text"),)),),
        ),
    )
}
"""Options that mean the same to every learner that has them."""
EVERY_LEARNER = (
    "feature_names",
    "missing",
    "invalid",
    "max_categories",
    "min_count",
    "unseen",
    "categories",
    "dates",
    "interactions",
    "text",
    "text_bits",
)
"""Shared options that a learner need not name: they are about the features alone. It may have one
of its own by the same name, with other values."""
BY_ANY = frozenset((LIST, SPARSE, ROW, CATEGORY, DATE))
"""The features of learners that take rows with names."""


def acts_on(option: Option, features: frozenset[str]) -> bool:
    """Whether an option acts on some of these kinds of features."""
    return any(one.features & features for one in option.acts)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one call, checked; None where the algorithm's default applies.

    A learner adds its own in a subclass. Shared options that it lacks have their defaults. given:
    the names of those that the call has.
    """

    max_iter: int | None
    epsilon: float
    time: float | None
    class_weight: str | tuple[float, ...] | None
    threads: int | None
    seed: int
    deterministic: bool
    validation: float
    classes: tuple[float, float] | None
    warm_start: WarmStart | None
    store: str | None
    cache: int | None
    partition: int | str
    layout: str
    sharing: str
    resume: bool
    device: str
    explain: bool
    format: str
    feature_names: tuple[str, ...] | None
    missing: str
    invalid: str
    max_categories: int | None
    min_count: int
    unseen: str
    categories: tuple[str, ...] | None
    dates: str
    interactions: tuple[tuple[str, ...], ...] | None
    text: tuple[str, ...] | None
    text_bits: int
    cluster: str | None
    given: frozenset[str]

    def departs(self, *names: str) -> bool:
        """Whether one of these shared options is given, and is not its default."""
        return any(
            name in self.given and getattr(self, name) != SHARED[name].default for name in names
        )

    @property
    def ordered(self) -> bool:
        """Whether the result may not depend on the order in which rows arrive."""
        return self.deterministic or self.threads == 1


AnyOptions = TypeVar("AnyOptions", bound=Options)


class OptionTable(Generic[AnyOptions]):
    """The options of one learner.

    result: makes the options from their values by name, such as their class; options: shared ones
    by name, and the learner's own, in the order in which errors and the manual list them; check:
    raises OptionError for values that cannot go together; features: the kinds that the learner
    takes. `by_name` has all options that act on some of these.
    """

    def __init__(
        self,
        result: Callable[..., AnyOptions],
        options: Sequence[str | Option],
        check: Callable[[AnyOptions], None] = lambda _: None,
        features: frozenset[str] = BY_ANY,
    ) -> None:
        self.result, self.check = result, check
        own = [one if isinstance(one, str) else one.name for one in options]
        acting = [name for name in EVERY_LEARNER if acts_on(SHARED[name], features)]
        chosen = (*options, *(name for name in acting if name not in own))
        listed = [SHARED[one] if isinstance(one, str) else one for one in chosen]
        self.by_name: Mapping[str, Option] = {option.name: option for option in listed}

    def parse(
        self, text: str, task: str = "", others: Callable[[], Iterable[str]] = tuple
    ) -> AnyOptions:
        """The options in a JSON text; an empty text has none. Raises OptionError.

        task: whose options they are; others: the names of the options of all learners.
        """
        if len(text) > MAX_TEXT:  # it has a model in it, and is not kept
            return self._parsed(text, task, others)
        found: AnyOptions = _kept(self, text, task, others)
        return found

    def _parsed(self, text: str, task: str, others: Callable[[], Iterable[str]]) -> AnyOptions:
        values, given = read(text, self.by_name, task, others)
        defaults = {name: option.default for name, option in SHARED.items()}
        options = self.result(**(defaults | values), given=given)
        refuse_idle(self.by_name, options, AboutTraining(task))
        self.check(options)
        return options


@functools.lru_cache(maxsize=256)
def _kept(table: Any, text: str, task: str, others: Callable[[], Iterable[str]]) -> Any:
    return table._parsed(text, task, others)


forget_parsed = _kept.cache_clear
"""To be called where the values that an option allows have changed."""


def read(
    text: str,
    table: Mapping[str, Option],
    task: str = "",
    others: Callable[[], Iterable[str]] = tuple,
) -> tuple[dict[str, Any], frozenset[str]]:
    """The value of each option of a table, and the names of those that a JSON text gives.

    An empty text gives none. others: names that are options of another task. Raises OptionError.
    """
    given = object_in(text)
    for name in given:
        if name in table:
            continue
        if name in others():
            # Hints name the options of linear models. The name is right, so none is nearer.
            told = hint(name) if "epsilon" in table else ""
            raise OptionError(
                f"option '{name}' is not available with task '{task}', which has "
                f"{', '.join(table)}{told}"
            )
        raise OptionError(
            f"unknown option '{shortened(name)}', expected one of "
            f"{', '.join(table)}{hint(name) or nearest(name, table)}"
        )
    values = {
        name: value_of(option, given[name]) if name in given else option.default
        for name, option in table.items()
    }
    return values, frozenset(given)


def refuse_format(options: Options) -> None:
    """OptionError where a training is given a format, which is that of an explanation."""
    if "format" in options.given and not options.explain:
        raise OptionError(
            "option 'format' is only for explain_training or with option 'explain', which is false"
        )


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name in counts if counts[name] > 1)
        raise OptionError(f"options name '{shortened(twice)}' twice, expected each option once")
    return found


def _whole(digits: str) -> int:
    """Python converts thousands of digits slowly, or not at all."""
    if len(digits) > MAX_DIGITS:
        raise OptionError(
            f"options have a number of {len(digits)} digits, at most {MAX_DIGITS} are allowed"
        )
    return int(digits)


def object_in(text: str) -> dict[str, Any]:
    """The object in a JSON text of options; an empty text has none. Raises OptionError."""
    if not text.strip():
        return {}
    limit = MAX_WARM_START if '"warm_start"' in text else MAX_TEXT
    if len(text) > limit:
        raise OptionError(f"options have {len(text)} characters, at most {limit} are allowed")
    try:
        value = json.loads(text, object_pairs_hook=_no_duplicates, parse_int=_whole)
    except (json.JSONDecodeError, RecursionError) as error:
        where = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise OptionError(
            f"options are not valid JSON{where}: {text[:60]!r}, "
            "expected an object such as '{\"l2\": 0.01}'"
        ) from None
    if not isinstance(value, dict):
        raise OptionError(
            f"options are {text[:60]!r}, expected a JSON object such as '{{\"l2\": 0.01}}'"
        )
    return value


def shortened(text: str) -> str:
    """At most 60 characters of what the caller wrote."""
    return text if len(text) <= 60 else text[:57] + "..."


def _shown(value: Any) -> str:
    try:
        return shortened(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return "nested too deeply"


def value_of(option: Option, value: Any, called: str = "") -> Any:
    """The value of an option, read from what JSON has. Raises OptionError.

    called: how the error names the option, by default `option 'NAME'`.
    """
    try:
        return option.kind.parse(value)
    except (ValueError, OverflowError) as error:
        hint = str(error) if str(error).startswith(";") else ""
        name = called or f"option '{option.name}'"
        raise OptionError(
            f"{name} is {_shown(value)}, expected {option.kind.allowed}{hint}"
        ) from None
