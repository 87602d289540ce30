"""The kinds of option values: the allowed ones, in words, and how a value is read."""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tuskml.errors import StoreError, nearest, one_of

LEAST_CACHE = 16 * 10**6
DEFAULT_CACHE = 256 << 20
"""Bytes of memory for the weights of a stored model, by default (option `cache`)."""
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(MB|GB|TB|MiB|GiB|TiB)", re.IGNORECASE)
UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
WHOLE = re.compile(r"[-+]?\d{1,300}")
DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


class Allowing(Protocol):
    """The interface of `Kind` that an option uses."""

    @property
    def allowed(self) -> str: ...

    @property
    def parse(self) -> Callable[[Any], Any]: ...


@dataclass(frozen=True)
class Kind:
    """A type of value: `allowed` completes "expected ..."; parse raises ValueError."""

    allowed: str
    parse: Callable[[Any], Any]


LIST, SPARSE, ROW, WORDS, PAIRS = "list", "sparse", "row", "words", "pairs"
"""Kinds of features: a list of numbers, sparse ids, a row with names, words of a document, and
`[user, item]`."""
CATEGORY, DATE = "category", "date"
"""Kinds of columns that rows with names may have."""
ROW_GROUPS = "row groups"
"""Lists of a table that is read by row group."""
EVERY_KIND = frozenset((LIST, SPARSE, ROW, WORDS, PAIRS))
ONE_PLACE, PARTS, POOLED = "one place", "parts", "pooled"
STORED, STREAMED = "store", "streamed"
"""Locations of rows during a group's training: ONE_PLACE, all in one process; PARTS, split over
workers that answer with sums; POOLED, with those of other groups that it learns from; STORED, in
one process, but with the weights in a store; STREAMED, read by row group, as many as the training
needs.
"""
ALONE = frozenset((ONE_PLACE, STORED, STREAMED))
IN_PARTS = ALONE | {PARTS}
ANYWHERE = IN_PARTS | {POOLED}


@dataclass(frozen=True, init=False)
class Beside:
    """A further option that an option requires, with one of some values.

    values: none given means any except null, false, 0 and those in `but`.
    """

    option: str
    values: tuple[Any, ...]
    but: tuple[Any, ...]

    def __init__(self, option: str, *values: Any, but: tuple[Any, ...] = ()) -> None:
        for name, value in (("option", option), ("values", values), ("but", but)):
            object.__setattr__(self, name, value)

    def holds(self, value: Any) -> bool:
        """Returns whether a value of the other option is one of these."""
        if self.values:
            return value in self.values
        return value not in self.but if self.but else bool(value)


@dataclass(frozen=True)
class Acts:
    """The conditions under which an option has an effect: all of them have to hold.

    features: kinds of features, or of columns in rows with names; beside: other options; values:
    of the option itself, none: all; tasks: by name, none: all that have the option; but: tasks
    without it; classes: whether labels have to be classes. instead: what other features have;
    where: locations of rows (ONE_PLACE, PARTS, POOLED, STORED, STREAMED).
    """

    features: frozenset[str] = EVERY_KIND
    beside: tuple[Beside, ...] = ()
    values: tuple[Any, ...] = ()
    tasks: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    classes: bool = False
    instead: str = ""
    where: frozenset[str] = IN_PARTS


def with_option(option: str, *values: Any, but: tuple[Any, ...] = ()) -> tuple[Acts, ...]:
    """The condition that another option has one of these values."""
    return (Acts(beside=(Beside(option, *values, but=but),)),)


def of_features(*features: str) -> tuple[Acts, ...]:
    """The condition that features are of some kinds."""
    return (Acts(features=frozenset(features)),)


EVERYWHERE = (Acts(),)
OF_CLASSES = (Acts(classes=True),)


@dataclass(frozen=True)
class Option:
    """One key of the options; default None: there is none, or the algorithm chooses it.

    acts: conditions under which it has an effect, each sufficient; elsewhere it is rejected.
    unseen: why it may leave the model unchanged even so, such as an option about speed.
    """

    name: str
    kind: Allowing
    default: Any
    meaning: str
    acts: tuple[Acts, ...] = EVERYWHERE
    unseen: str = ""


def within(option: Option, where: frozenset[str]) -> Option:
    """Restricts an option's effect to these locations of rows."""
    return replace(option, acts=tuple(replace(one, where=where) for one in option.acts))


EXACT = 2.0**53
"""Up to here each whole number is a double."""
ROUNDED = "; larger ones with a point or an exponent are rounded: give digits alone"


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def choice(*names: str, elsewhere: Callable[[str], str] | None = None) -> Kind:
    """A kind of values: one of some names. elsewhere: a hint on a name of other packages, or
    ''.
    """

    def parse(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError
        if value not in names:
            raise ValueError((elsewhere(value) if elsewhere else "") or nearest(value, names))
        return value

    return Kind(one_of(names), parse)


def real(low: float, high: float | None = None, open_low: bool = False) -> Kind:
    """A number in an interval; open_low excludes low, high is excluded."""

    def parse(value: Any) -> float:
        number = _number(value)
        if number < low or (open_low and number == low) or (high is not None and number >= high):
            raise ValueError
        return number

    if high is not None:
        least = "greater than" if open_low else "of at least"
        return Kind(f"a number {least} {low:g} and less than {high:g}", parse)
    return Kind(f"a number {'greater than' if open_low else 'of at least'} {low:g}", parse)


def integer(low: int, high: int) -> Kind:
    """A whole number from low to high."""

    def parse(value: Any) -> int:
        number = _number(value)
        whole = value if isinstance(value, int) else int(number)
        if isinstance(value, float) and abs(value) >= EXACT:
            raise ValueError(ROUNDED)
        if number != whole or not low <= whole <= high:
            raise ValueError
        return whole

    return Kind(f"a whole number from {low} to {high}", parse)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _duration(value: Any) -> float:
    match = DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        raise ValueError
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = hours * 3600 + minutes * 60 + seconds
    if total <= 0:
        raise ValueError
    return total


def _step(value: Any) -> float | str:
    if value == "auto":
        return "auto"
    number = _number(value)
    if number <= 0:
        raise ValueError
    return number


def _penalty(value: Any) -> float | str:
    if value == "auto":
        return "auto"
    number = _number(value)
    if number < 0:
        raise ValueError
    return number


class ByClass(tuple[float, ...]):
    """Weights of classes that were named; classes: these, in rising order, or 0, 1, ... where the
    names are no numbers; by_name: the weights by name."""

    classes: tuple[float, ...]
    by_name: dict[str, float]

    @property
    def are_text(self) -> bool:
        """Returns whether only labels that are text can have these classes."""
        return any(_label(name) is None for name in self.by_name)

    @property
    def as_given(self) -> dict[str, float]:
        """The weights as the option has them."""
        if self.are_text:
            return self.by_name
        return {f"{one:.17g}": weight for one, weight in zip(self.classes, self, strict=True)}


class ClassNames(tuple[float, ...]):
    """Classes that are text, as the numbers 0, 1, ...; names: these, of two the second the
    positive one."""

    names: tuple[str, ...]

    @property
    def as_given(self) -> tuple[str, ...]:
        """The classes as the option has them."""
        return self.names


def class_names(names: tuple[str, ...]) -> ClassNames:
    """The classes of labels that are text."""
    found = ClassNames(map(float, range(len(names))))
    found.names = names
    return found


def weights_by_name(names: Sequence[str], by_name: dict[str, float]) -> ByClass:
    """The weights in the order of the names. Raises ValueError if a name has none."""
    if set(names) != set(by_name):
        raise ValueError
    found = ByClass(_weights([by_name[name] for name in names]))
    found.classes, found.by_name = tuple(map(float, range(len(names)))), by_name
    return found


def _class(value: Any) -> float:
    """A label that is a number. ValueError for whole ones that doubles round, as labels are."""
    number = _number(value)
    if isinstance(value, int) and int(number) != value:
        raise ValueError(f"; {value} is rounded to {number:.0f}: expected labels that are text")
    return number


def _label(key: str) -> float | None:
    """The number that a name of a class stands for; None if it is not a number."""
    truth = {"false": 0.0, "true": 1.0}
    if WHOLE.fullmatch(key):
        return _class(int(key))
    try:
        return _number(truth[key] if key in truth else float(key))
    except ValueError:
        return None


def _by_class(value: dict[str, Any]) -> ByClass:
    """The weights of {class: weight}, the lower class first; JSON has its keys as text."""
    labels = [_label(key) for key in value]
    if any(label is None for label in labels):
        return weights_by_name(sorted(value), value)
    known = {label or 0.0: weight for label, weight in zip(labels, value.values(), strict=True)}
    classes, weights = zip(*sorted(known.items()), strict=True)
    found = ByClass(_weights(list(weights)))
    found.classes, found.by_name = classes, value
    return found


def _weights(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) < 2:
        raise ValueError
    found = tuple(_number(weight) for weight in value)
    if min(found) <= 0:
        raise ValueError
    return found


def _class_weight(value: Any) -> str | tuple[float, ...]:
    if value == "balanced":
        return "balanced"
    return _by_class(value) if isinstance(value, dict) else _weights(value)


def _classes(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError
    if all(isinstance(one, str) and "\0" not in one for one in value) and value[0] != value[1]:
        return class_names((value[0], value[1]))
    low, high = (float(one) if isinstance(one, bool) else _class(one) for one in value)
    if low >= high:
        raise ValueError
    return low + 0.0, high + 0.0  # -0 is 0


@dataclass(frozen=True)
class WarmStart:
    """A start: coefficients in the caller's units and the intercept.

    store: reference of a stored model, which has its coefficients; coef is empty then. classes: of
    a model that says which it has, else none; with more than two coef has the numbers of one class
    after another, each class's intercept first. intercept_stored: the store has the intercept too.
    """

    coef: tuple[float, ...]
    intercept: float
    store: str | None = None
    classes: tuple[float, ...] = ()
    intercept_stored: bool = field(default=False, kw_only=True)

    @property
    def several(self) -> int:
        """The number of classes, where they are more than two, else 0."""
        return len(self.classes) if len(self.classes) > 2 else 0


def _warm_start(value: Any) -> WarmStart:
    if not isinstance(value, dict):
        raise ValueError
    coef, store, given = value.get("coef"), value.get("store"), value.get("intercept")
    intercept = 0.0 if given is None else _number(given)
    if coef is None and isinstance(store, str):
        return WarmStart((), intercept, store, intercept_stored=given is None)
    if not isinstance(coef, list) or not coef:
        raise ValueError
    classes = value.get("classes")
    if classes is not None and not isinstance(classes, list):
        raise ValueError
    given_classes = tuple(_number(one) for one in classes or ())
    return WarmStart(tuple(map(_number, coef)), intercept, None, given_classes)


def _check_named_start(value: Any) -> WarmStart:
    from tuskml.kvstore.access import Reference

    if not isinstance(value, str):
        return _warm_start(value)
    try:
        return WarmStart((), 0.0, str(Reference.parse(value)), intercept_stored=True)
    except StoreError:
        raise ValueError from None


def _partition(value: Any) -> int | str:
    from tuskml.kvstore.access import parse_partitioning

    if not isinstance(value, str):
        return int(integer(0, 1 << 20).parse(value))
    try:
        parse_partitioning(value)
    except StoreError:
        raise ValueError from None
    return value


def _store(value: Any) -> str:
    from tuskml.kvstore.access import check_name

    if not isinstance(value, str):
        raise ValueError
    try:
        return check_name(value)
    except StoreError:
        raise ValueError from None


def _size(value: Any) -> int:
    match = SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError
    size = int(float(match[1]) * UNITS[match[2].upper()])
    if size < LEAST_CACHE:
        raise ValueError
    return size


BOOLEAN = Kind("true or false", _boolean)
TIME = Kind("a duration such as '90s', '15m' or '1h30m'", _duration)
STEP = Kind("a number greater than 0 or 'auto'", _step)
PENALTY = Kind("a number of at least 0 or 'auto'", _penalty)
CLASS_WEIGHT = Kind(
    "'balanced', [weight of lower class, weight of higher class] or {class: weight} "
    "of all classes",
    _class_weight,
)
CLASSES = Kind('a list of two labels, the lower first, such as [1, 2] or ["no", "yes"]', _classes)
WARM_START = Kind("a model as JSON, an object with coef and intercept", _warm_start)
NAMED_START = Kind(
    f"{WARM_START.allowed}, or with option 'store' the name of a stored model, such as 'ads' or "
    "'ads@3'",
    _check_named_start,
)
STORE = Kind("a name of at most 63 letters, digits and _ . -, not starting with . or -", _store)
PARTITION = Kind(
    "a whole number from 0 to 1048576, or the name of a partitioning that partition_model kept",
    _partition,
)
CACHE = Kind("a size of at least '16MB', such as '256MB' or '1GB'", _size)


def _names(value: Any) -> tuple[str, ...]:
    texts = value if isinstance(value, list) else []
    whole = all(isinstance(one, str) and one and "\0" not in one for one in texts)
    if not texts or not whole or len(set(texts)) < len(texts):
        raise ValueError
    for one in texts:
        one.encode()  # a lone surrogate raises ValueError
    return tuple(texts)


MISSING = ("skip", "impute", "level", "error", "keep")
"""The treatment of a NULL in rows by name, in the order of the kernels' `tk_missing`; only few
learners read NaN and have the last one.
"""
UNSEEN = ("other", "error", "null")
"""The treatment of levels that training did not see, as models' preparations have it."""
DATES = ("days", "parts", "cycles")
"""The features made of dates and timestamps, in the order of the kernels' `tk_dates`."""
NAMES = Kind('a list of names, each once, such as ["age", "income"]', _names)


def _name(value: Any) -> str:
    return _names([value])[0]


NAME = Kind('a name such as "county"', _name)


def _name_or_names(value: Any) -> tuple[str, ...]:
    return _names([value] if isinstance(value, str) else value)


SOME_NAMES = Kind('a name or a list of names, each once, such as ["firm", "year"]', _name_or_names)


def _interactions(value: Any) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list) or not value:
        raise ValueError
    found = tuple(_names(names) for names in value)
    if not all(2 <= len(names) <= 3 for names in found) or len(set(found)) < len(found):
        raise ValueError
    return found


def level_text(name: str, level: Any) -> str:
    """A level of a category, `name`, as the text that models have; numbers and truths are JSON's.
    Raises ValueError for what is no level or no name.
    """
    if not isinstance(level, str | bool | int | float):
        raise ValueError
    text = level if isinstance(level, str) else json.dumps(level)
    if not name or "\0" in name + text:
        raise ValueError
    (name + text).encode()  # a lone surrogate raises ValueError
    return text


MOST_LISTED = 65_535
"""The most levels of a category in the option `levels`: trees number so many."""


def _levels(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict) or not value:
        raise ValueError
    found = {}
    for name, levels in value.items():
        if not isinstance(levels, list) or not 0 < len(levels) <= MOST_LISTED:
            raise ValueError
        found[name] = tuple(level_text(name, one) for one in levels)
        if len(set(found[name])) < len(levels):
            raise ValueError
    return found


LEVELS = Kind(
    "an object with a list of levels, each once, for each of some categories, such as "
    '{"size": ["small", "large"]}',
    _levels,
)


INTERACTIONS = Kind(
    'a list of lists of two or three names, such as [["origin", "hour"]]', _interactions
)


POWERS = {"constant": 0.0, "1/sqrt(i)": 0.5, "1/i": 1.0, "1/i^2": 2.0}
"""The power of the iteration by which each schedule divides the first step."""
