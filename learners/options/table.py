"""The options of `train_model`: those that learners share, and how a learner's are read.

A learner declares an `OptionTable`: shared options by their name, its own as `Option`s, and the
class that holds their values.
"""

import functools
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tuskml.errors import OptionError, nearest, one_of
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
    LEVELS,
    LIST,
    MISSING,
    NAME,
    NAMES,
    OF_CLASSES,
    ONE_PLACE,
    PAIRS,
    PARTITION,
    PARTS,
    POOLED,
    ROW,
    SOME_NAMES,
    SPARSE,
    STORE,
    STORED,
    TIME,
    UNSEEN,
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
    """The conditions of the option `missing`; of_lists: its values that all kinds of features
    have.
    """
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
            "the weights of the classes",
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
            "the seed of all that is drawn",
            unseen="nothing may be drawn by chance",
        ),
        Option(
            "deterministic",
            BOOLEAN,
            False,
            "the same bits whatever the order of the rows",
            unseen=OF_BITS,
        ),
        Option("validation", real(0, 1), 0.0, "the fraction of rows held out for early stopping"),
        Option(
            "classes",
            CLASSES,
            None,
            "the two labels, the positive one last, for groups that have only one",
            OF_CLASSES,
            unseen="a group may have both",
        ),
        Option("warm_start", WARM_START, None, "the model to start from"),
        Option("store", STORE, None, "the name of the stored model"),
        Option(
            "cache",
            CACHE,
            None,
            "the memory for the weights of a stored model",
            with_option("store"),
            OF_SPEED,
        ),
        Option(
            "method",
            choice("routes", "kv-vp", "kv"),
            "routes",
            "where weights lie while they train: they travel between chunks of rows, or lie under "
            "keys, of features that occur together or of one each",
            with_option("store"),
            OF_SPEED,
        ),
        Option(
            "partition",
            PARTITION,
            None,
            "with `kv-vp`, the number of the most frequent features that share keys, while each "
            "other has its own, or a kept partitioning; otherwise all may share",
            with_option("store"),
            OF_SPEED,
        ),
        Option(
            "layout",
            choice("affinity", "frequency", "id"),
            "affinity",
            "with `kv-vp`, the features that share keys: those that occur together, those that "
            "occur as often, or neighbours by id",
            with_option("store"),
            OF_SPEED,
        ),
        Option(
            "sharing",
            choice("cache", "push"),
            "cache",
            "with `kv-vp`, push: weights that a thread reads are handed to the threads that need "
            "them next",
            with_option("store"),
            OF_SPEED,
        ),
        Option(
            "resume",
            BOOLEAN,
            False,
            "whether to continue an interrupted training",
            with_option("store"),
        ),
        Option(
            "device",
            choice("auto", "gpu", "cpu"),
            "auto",
            "the place of the training; gpu: dense features or ratings, with tuskml[gpu]",
            (Acts(where=ALONE), Acts(values=("auto", "cpu"))),
            OF_SPEED,
        ),
        Option(
            "explain",
            BOOLEAN,
            False,
            "whether the model's `plan` is the whole explanation, with actual figures",
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
            "names of the features, kept in the model's field `features`",
            of_features(LIST, SPARSE, PAIRS),
        ),
        Option(
            "missing",
            choice(*MISSING[:-1]),
            "skip",
            "a NULL in a row by name: `skip` leaves the row out, `impute` takes the group's "
            "mean or most frequent value, `level` makes it a level",
            acts_on_missing("skip"),
        ),
        Option(
            "invalid",
            choice("group", "skip", "error"),
            "group",
            "rows such as those with NaN: `group` gives their group a model that predicts NULL,"
            " whose `plan` names the row; `skip` leaves them out and takes NaN among the "
            "features for NULL; `error` ends the statement",
        ),
        Option(
            "max_categories",
            integer(1, 100_000),
            None,
            "the most levels of a category with a feature; rarer ones are *other*",
            of_features(CATEGORY),
        ),
        Option(
            "min_count",
            integer(1, 2**53),
            1,
            "the rows in which a level must occur to have a feature",
            of_features(CATEGORY),
        ),
        Option(
            "unseen",
            choice(*UNSEEN),
            "other",
            "a level that was not trained on is *other*; without *other* it weighs 0 (`other`),"
            " is an error, or makes the prediction NULL",
            of_features(CATEGORY),
        ),
        Option(
            "levels",
            LEVELS,
            None,
            "the levels of some categories, in the same order in all groups",
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
            "dates and timestamps become `days` since 1970-01-01; `parts`: the year, and month,"
            " weekday and hour as categories; `cycles`: the year, and sine and cosine of the "
            "others",
            (Acts(OF_ROW, values=("days",)), Acts(frozenset((DATE,)))),
        ),
        Option(
            "interactions",
            INTERACTIONS,
            None,
            "columns whose combinations are features too",
            of_features(ROW),
        ),
        Option(
            "text",
            NAMES,
            None,
            "columns of text whose words and pairs of words are counted in hashed buckets",
            of_features(ROW),
        ),
        Option(
            "cluster",
            NAME,
            None,
            "the column of clusters, for cluster-robust standard errors; it is no feature",
            of_features(ROW),
        ),
        Option(
            "absorb",
            SOME_NAMES,
            None,
            "categories of many levels, whose effects are absorbed: they have no standard errors",
            of_features(ROW),
        ),
        Option(
            "text_bits",
            integer(4, 20),
            14,
            "`text` has 2^text_bits buckets",
            (Acts(OF_ROW, (Beside("text"),)),),
        ),
        Option(
            "histogram",
            BOOLEAN,
            False,
            "whether the model keeps the distribution of each feature, for `drift`",
            (Acts(frozenset((LIST, ROW)), where=frozenset((ONE_PLACE, STORED))),),
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
    "levels",
    "categories",
    "dates",
    "interactions",
    "text",
    "text_bits",
    "histogram",
)
"""Shared options that a learner need not name, as they are about the features alone. It may have
its own version of one, with other values.
"""
BY_ANY = frozenset((LIST, SPARSE, ROW, CATEGORY, DATE))
"""The features of learners that take rows with names."""


def acts_on(option: Option, features: frozenset[str]) -> bool:
    """Returns whether an option acts on some of these kinds of features."""
    return any(one.features & features for one in option.acts)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one call, checked; None where the algorithm's default applies.

    A learner adds its own in a subclass. Shared options that it lacks have their defaults. given:
    the names of the options in the call.
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
    method: str
    partition: int | str | None
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
    levels: Mapping[str, tuple[str, ...]] | None
    categories: tuple[str, ...] | None
    dates: str
    interactions: tuple[tuple[str, ...], ...] | None
    text: tuple[str, ...] | None
    text_bits: int
    cluster: str | None
    absorb: tuple[str, ...] | None
    histogram: bool
    given: frozenset[str]

    def departs(self, *names: str) -> bool:
        """Returns whether the call has one of these shared options at another value than its
        default.
        """
        return any(
            name in self.given and getattr(self, name) != SHARED[name].default for name in names
        )

    @property
    def keeps_order(self) -> bool:
        """Returns whether the result may not depend on the order in which rows arrive."""
        return self.deterministic or self.threads == 1


AnyOptions = TypeVar("AnyOptions", bound=Options)


class OptionTable(Generic[AnyOptions]):
    """The options of one learner.

    result: makes the options from their values by name, such as their class; options: shared ones
    by name, and the learner's own, in the order of errors and the manual; check: raises
    OptionError for invalid combinations; features: the kinds that the learner accepts. `by_name`
    has all options that act on some of these.
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
            return self._parse(text, task, others)
        found: AnyOptions = _cache_options(self, text, task, others)
        return found

    def _parse(self, text: str, task: str, others: Callable[[], Iterable[str]]) -> AnyOptions:
        values, given = read(text, self.by_name, task, others)
        defaults = {name: option.default for name, option in SHARED.items()}
        options = self.result(**(defaults | values), given=given)
        refuse_idle(self.by_name, options, AboutTraining(task))
        self.check(options)
        return options


@functools.lru_cache(maxsize=256)
def _cache_options(table: Any, text: str, task: str, others: Callable[[], Iterable[str]]) -> Any:
    return table._parse(text, task, others)


forget_parsed = _cache_options.cache_clear
"""Call it when the values that an option allows have changed."""


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
            f"unknown option '{shorten(name)}', expected one of "
            f"{', '.join(table)}{hint(name) or nearest(name, table)}"
        )
    values = {
        name: value_of(option, given[name]) if name in given else option.default
        for name, option in table.items()
    }
    return values, frozenset(given)


def refuse_format(options: Options) -> None:
    """Raises OptionError for a training with the option of an explanation's format."""
    if "format" in options.given and not options.explain:
        raise OptionError(
            "option 'format' is only for explain_training or with option 'explain', which is false"
        )


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name in counts if counts[name] > 1)
        raise OptionError(f"options name '{shorten(twice)}' twice, expected each option once")
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


def shorten(text: str) -> str:
    """At most 60 characters of the caller's text."""
    return text if len(text) <= 60 else text[:57] + "..."


def _format_value(value: Any) -> str:
    try:
        return shorten(json.dumps(value, ensure_ascii=False))
    except RecursionError:
        return "nested too deeply"


def value_of(option: Option, value: Any, called: str = "") -> Any:
    """The value of an option, converted from JSON. Raises OptionError.

    called: the option's name in errors, by default `option 'NAME'`.
    """
    try:
        return option.kind.parse(value)
    except (ValueError, OverflowError) as error:
        hint = str(error) if str(error).startswith(";") else ""
        name = called or f"option '{option.name}'"
        raise OptionError(
            f"{name} is {_format_value(value)}, expected {option.kind.allowed}{hint}"
        ) from None


# Rejection of options without an effect, in one loop.
#
# Each `Option` has conditions under which it acts. A call that has it elsewhere would be trained
# as without it, so it is rejected, at its default too: whoever names an option expects an effect.
# Values of other options and the task are known when options are read; the kinds of features and
# labels when their rows have arrived.

EXAMPLE = "expected features such as {'a': a, 'b': b}"
NOUNS = {
    LIST: "features that are lists",
    SPARSE: "sparse features",
    ROW: "rows with names",
    WORDS: "words",
    PAIRS: "pairs",
    CATEGORY: "categories",
    DATE: "dates and timestamps",
}
"""What an option is for, by kind."""
SEEN = {
    ROW: "these rows have names",
    LIST: "these features are lists",
    SPARSE: "these features are sparse",
    WORDS: "these features are words",
    PAIRS: "these features are [user, item]",
}
"""What the features of a training are, by kind."""
OF_ROWS = {
    CATEGORY: "a column of text or booleans, or one of numbers in option 'categories'",
    DATE: "a column of dates or timestamps",
}
"""How rows with names get such columns, by kind."""


class IdleOption(OptionError):
    """An option that would change nothing. option: its name."""

    def __init__(self, sentence: str, option: str) -> None:
        super().__init__(sentence)
        self.option = option

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.option)


@dataclass(frozen=True)
class AboutTraining:
    """Facts about a training, None where not known yet.

    features: the kinds of its features, and of the columns of its rows; classes: whether labels
    are classes; remedy: how to make them classes.
    """

    task: str = ""
    features: Callable[[], Collection[str]] | None = None
    classes: bool | None = None
    remedy: str = ""


def refuse_idle(table: Mapping[str, Option], options: Any, training: AboutTraining) -> None:
    """Raises IdleOption for the first option of the call that has no effect."""
    for name, option in table.items():
        if name in options.given:
            why = idle(option, options, training)
            if why is not None:
                raise IdleOption(why, name)


def idle(option: Option, options: Any, training: AboutTraining) -> str | None:
    """The reason why an option changes nothing, in a sentence; None where it does."""
    value = getattr(options, option.name, None)
    cases = [one for one in option.acts if not one.values or value in one.values] or option.acts
    found = [list(against(one, option, options, training)) for one in cases]
    if not all(found):
        return None
    given = [sum(beside.option in options.given for beside in one.beside) for one in cases]
    return min(zip(map(len, found), (-n for n in given), found, strict=True))[2][0]


def acts_where(option: Option, value: Any, where: str) -> bool:
    """Returns whether an option with a value changes something where rows are (`Acts.where`)."""
    cases = [one for one in option.acts if not one.values or value in one.values]
    return any(where in one.where for one in cases)


def idle_where(table: Mapping[str, Option], options: Any, where: str) -> str | None:
    """The name of the first option of the call without an effect at this location of rows, if
    any.
    """
    given = (name for name in table if name in options.given)
    values = ((name, getattr(options, name)) for name in given)
    return next((name for name, v in values if not acts_where(table[name], v, where)), None)


def needs_one_place(table: Mapping[str, Option], options: Any) -> str | None:
    """The reason why a group's rows cannot lie in parts: an option would then change nothing."""
    for name, option in table.items():
        value = getattr(options, name)
        if value != option.default and not acts_where(option, value, PARTS):
            return f"option '{name}' needs all rows in one place"
    return None


def refuse_one_place(table: Mapping[str, Option], given: Collection[str], where: str) -> None:
    """Raises OptionError for an option of the call that acts only on a group that several workers
    train; where: says who trains it.
    """
    for name, option in table.items():
        if name in given and all(one.where == {PARTS} for one in option.acts):
            raise OptionError(
                f"option '{name}' is for a group that several workers train, and {where}: leave "
                "it out, or give executor, rows in several files, and placement='dp' for few rows"
            )


def refuse_pooled(table: Mapping[str, Option], options: Any) -> None:
    """Raises OptionError for options that change nothing where groups learn from each other."""
    for name in sorted(options.given):
        if not acts_where(table[name], getattr(options, name), POOLED):
            there = sorted(key for key, one in table.items() if POOLED in one.acts[0].where)
            raise OptionError(
                f"option '{name}' is not available with 'pooled', expected {', '.join(there)}"
            )


def against(one: Acts, option: Option, options: Any, training: AboutTraining) -> Iterator[str]:
    """Yields the unmet parts of a condition, each as a sentence: the features first, which change
    least.
    """
    value = getattr(options, option.name, None)
    if training.features is not None and not one.features & set(training.features()):
        yield of_other_features(one, option, training.features(), value)
    if training.task in one.but:
        yield f"option '{option.name}' is not available with task '{training.task}'"
    if one.tasks and training.task and training.task not in one.tasks:
        expected = one_of(one.tasks) if one.tasks[1:] else f"task '{one.tasks[0]}'"
        yield (
            f"option '{option.name}' is not available with task '{training.task}', expected "
            f"{expected}"
        )
    for beside in one.beside:
        given = getattr(options, beside.option)
        if not beside.holds(given):
            yield lacking(option, beside, given)
    if STORED not in one.where and getattr(options, "store", None) is not None:
        yield (
            f"option '{option.name}' is not available with option 'store', whose models keep no "
            "standard errors: leave one of them out"
        )
    if one.classes and training.classes is False:
        yield (
            f"option '{option.name}' is not available with task '{training.task}', which has no "
            f"classes{training.remedy}"
        )
    if one.values and value not in one.values:
        expected = alternatives(one.values)
        yield f"option '{option.name}' is {format_value(value)}, expected {expected}"


def lacking(option: Option, beside: Beside, given: Any) -> str:
    """The sentence about an option that lacks another one that it requires."""
    name, other = f"option '{option.name}'", f"option '{beside.option}'"
    if beside.values == (None,):
        return f"{name} is not available with {other}: leave one of them out"
    if beside.values:
        is_now = "is not given" if given is None else f"is {format_value(given)}"
        values = alternatives(beside.values)
        return f"{name} is for {other}: {values}, which {is_now}: expected both, or neither"
    if beside.but:
        but = alternatives(tuple(value for value in beside.but if value is not None))
        here = f"{name} changes nothing where {other} is {format_value(given)}"
        return f"{here}, expected another than {but}"
    return f"{name} needs {other} beside it: expected both, or neither"


def of_other_features(one: Acts, option: Option, seen: Collection[str], value: Any) -> str:
    """The sentence about an option that is for other features."""
    name = f"option '{option.name}'"
    others = [value for case in option.acts if set(seen) & case.features for value in case.values]
    also = f", or {alternatives(tuple(others))}" if others else ""
    if others:
        name = f"{name} is {format_value(value)}, which"
    kinds = [kind for kind in NOUNS if kind in one.features]
    if ROW in seen and (lacks := next((kind for kind in OF_ROWS if kind in kinds), None)):
        wanted = f"expected {OF_ROWS[lacks]}{also}"
        return f"{name} is for {NOUNS[lacks]}, and these rows have none: {wanted}"
    here = next(told for kind, told in SEEN.items() if kind in seen)
    by_name = {ROW, CATEGORY, DATE} & set(kinds)
    what = join_texts([NOUNS[kind] for kind in kinds])
    if by_name and ROW not in kinds:
        what = f"{what} of rows with names"
    instead = f": {EXAMPLE}{also}" if by_name else f", {one.instead}" if one.instead else ""
    return f"{name} is for {what}, and {here}{instead}"


def alternatives(values: tuple[Any, ...]) -> str:
    """Values as options write them, the last behind `or`."""
    return join_texts([format_value(value) for value in values])


def join_texts(texts: Sequence[str]) -> str:
    """Texts in a row, the last behind `or`."""
    return " or ".join([", ".join(texts[:-1]), texts[-1]] if texts[1:] else texts)


def format_value(value: Any) -> str:
    """A value as options write it, with texts in single quotes."""
    return f"'{value}'" if isinstance(value, str) else json.dumps(value, default=str)
