"""The options of `train_model`, as data: one table for parsing, errors and the manual."""

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tuskml.errors import OptionError, StoreError, nearest, one_of
from tuskml.udas.other_names import hint

MAX_TEXT = 64 * 1024
MAX_WARM_START = 64 * 1024 * 1024
MAX_DIGITS = 400
ALGORITHMS = (
    "auto",
    "bgd",
    "mgd",
    "sgd",
    "hogwild",
    "hogbatch",
    "lbfgs",
    "newton",
    "newton_cg",
    "svrg",
    "dcd",
)
STOCHASTIC = ("mgd", "sgd", "hogwild", "hogbatch", "svrg")
SCHEDULES = ("constant", "1/sqrt(i)", "1/i", "1/i^2", "linear")
LEAST_CACHE = 16 * 10**6
SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(MB|GB|TB|MiB|GiB|TiB)", re.IGNORECASE)
UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


@dataclass(frozen=True)
class Kind:
    """A type of value: `allowed` completes "expected ..."; parse raises ValueError."""

    allowed: str
    parse: Callable[[Any], Any]


OWN_NAMES: dict[str, Callable[[], Iterable[str]]] = {}
"""By option, the names that users have given to operators and algorithms of their own."""


@dataclass(frozen=True)
class OpenChoice:
    """One of some names, or of those that users have registered for this option."""

    option: str
    names: tuple[str, ...]

    @property
    def all_names(self) -> tuple[str, ...]:
        return (*self.names, *OWN_NAMES.get(self.option, tuple)())

    @property
    def allowed(self) -> str:
        return one_of(self.all_names)

    def parse(self, value: Any) -> str:
        return str(choice(*self.all_names).parse(value))


@dataclass(frozen=True)
class Option:
    """One key of the options; default None: chosen with the algorithm."""

    name: str
    kind: Kind | OpenChoice
    default: Any
    meaning: str


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def choice(*names: str) -> Kind:
    """One of some names."""

    def parse(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise ValueError(nearest(value, names) if isinstance(value, str) else "")
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
        return Kind(f"a number from {low:g} up to, but not, {high:g}", parse)
    return Kind(f"a number {'greater than' if open_low else 'of at least'} {low:g}", parse)


def integer(low: int, high: int) -> Kind:
    """A whole number from low to high."""

    def parse(value: Any) -> int:
        number = _number(value)
        if number != int(number) or not low <= number <= high:
            raise ValueError
        return int(number)

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


def _schedule(value: Any) -> str:
    return str(choice(*SCHEDULES, "line_search").parse(value))


def _by_class(value: dict[str, Any]) -> list[Any]:
    """The weights of {class: weight}, the lower class first; JSON has its keys as text."""
    truth = {"false": 0.0, "true": 1.0}
    known = {
        _number(truth[key] if key in truth else float(key)): weight
        for key, weight in value.items()
    }
    return [known[key] for key in sorted(known)]


def _class_weight(value: Any) -> str | tuple[float, float]:
    if value == "balanced":
        return "balanced"
    if isinstance(value, dict):
        value = _by_class(value)
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError
    low, high = (_number(weight) for weight in value)
    if min(low, high) <= 0:
        raise ValueError
    return low, high


@dataclass(frozen=True)
class WarmStart:
    """Where to start: coefficients in the caller's units and the intercept.

    store: reference of a stored model, which has its coefficients; coef is empty then.
    """

    coef: tuple[float, ...]
    intercept: float
    store: str | None = None


def _warm_start(value: Any) -> WarmStart:
    if not isinstance(value, dict):
        raise ValueError
    coef, store, given = value.get("coef"), value.get("store"), value.get("intercept")
    intercept = 0.0 if given is None else _number(given)
    if coef is None and isinstance(store, str):
        return WarmStart((), intercept, store)
    if not isinstance(coef, list) or not coef:
        raise ValueError
    return WarmStart(tuple(_number(coefficient) for coefficient in coef), intercept)


def _store(value: Any) -> str:
    from tuskml.kvstore.names import checked_name  # the store's room takes a while to import

    if not isinstance(value, str):
        raise ValueError
    try:
        return checked_name(value)
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

TABLE = {
    option.name: option
    for option in (
        Option("algorithm", OpenChoice("algorithm", ALGORITHMS), "auto", "how to train"),
        Option("max_iter", integer(1, 2**31 - 1), None, "most iterations, or epochs"),
        Option("epsilon", real(0), 1e-6, "tolerance of `converge`; 0: run max_iter iterations"),
        Option(
            "time",
            Kind("a duration such as '90s', '15m' or '1h30m'", _duration),
            None,
            "most time for the training",
        ),
        Option(
            "converge",
            OpenChoice("converge", ("gradient", "weights", "loss")),
            "gradient",
            "what must fall below epsilon: the largest violation of the optimality condition, "
            "the largest change of a weight, or the relative change of the objective",
        ),
        Option(
            "step",
            Kind("a number greater than 0 or 'auto'", _step),
            "auto",
            "first step size, for centred and scaled features",
        ),
        Option(
            "schedule",
            Kind(one_of((*SCHEDULES, "line_search")), _schedule),
            None,
            "how the step shrinks with iteration i; linear, to 0 at max_iter: "
            "matrix_factorization only; line_search: bgd only",
        ),
        Option("batch_size", integer(1, 2**20), None, "rows a step of the stochastic algorithms"),
        Option(
            "sampler",
            OpenChoice("sampler", ("shuffled-partition", "sequential")),
            None,
            "order of the rows: shuffled once, or as the database delivers them",
        ),
        Option(
            "transform",
            OpenChoice("transform", ("lazy",)),
            "lazy",
            "features are centred and scaled when read",
        ),
        Option("l1", real(0), 0.0, "weight of the sum of |coefficients|"),
        Option(
            "l2",
            real(0),
            0.0,
            "half of it weighs the sum of squared coefficients, in matrix_factorization of those "
            "of each rating, 0.07 there unless given",
        ),
        Option("fit_intercept", BOOLEAN, True, "whether the margin has a constant term"),
        Option(
            "class_weight",
            Kind(
                "'balanced', [weight of lower class, weight of higher class] or {class: weight} "
                "of both classes",
                _class_weight,
            ),
            None,
            "weights of the two classes' losses",
        ),
        Option("threads", integer(1, 1024), None, "most threads; 1 is deterministic"),
        Option("seed", integer(0, 2**53), 0, "of the shuffle"),
        Option("deterministic", BOOLEAN, False, "same bits whatever order rows arrive in"),
        Option("validation", real(0, 1), 0.0, "fraction of rows held out, for early stopping"),
        Option(
            "warm_start",
            Kind("a model as JSON, an object with coef and intercept", _warm_start),
            None,
            "model to start from",
        ),
        Option(
            "store",
            Kind("a name of at most 63 letters, digits and _ . -, the first no . or -", _store),
            None,
            "name under which the model is stored, its weights on the disk",
        ),
        Option(
            "cache",
            Kind("a size from '16MB' on, such as '256MB' or '1GB'", _size),
            None,
            "memory for the weights of a stored model",
        ),
        Option(
            "partition",
            integer(0, 1 << 20),
            1000,
            "frequent features of a stored model to share keys; 0: a key a feature",
        ),
        Option("resume", BOOLEAN, False, "go on with an interrupted training of this store"),
        Option("rank", integer(1, 4096), 10, "factors of matrix_factorization"),
        Option("biases", BOOLEAN, True, "biases of users and items in matrix_factorization"),
        Option(
            "device",
            choice("auto", "gpu", "cpu"),
            "auto",
            "where kernels run; gpu: dense features, ratings, with tuskml[gpu] and an NVIDIA GPU",
        ),
        Option(
            "explain",
            BOOLEAN,
            False,
            "whether the model's `plan` is the whole explanation, with what the training came to",
        ),
        Option("format", choice("text", "json"), "text", "of an explanation"),
    )
}


@dataclass(frozen=True)
class Options:
    """The options of one call, checked; None where the algorithm's default applies."""

    algorithm: str
    max_iter: int | None
    epsilon: float
    time: float | None
    converge: str
    step: float | str
    schedule: str | None
    batch_size: int | None
    sampler: str | None
    transform: str
    l1: float
    l2: float
    fit_intercept: bool
    class_weight: str | tuple[float, float] | None
    threads: int | None
    seed: int
    deterministic: bool
    validation: float
    warm_start: WarmStart | None
    store: str | None
    cache: int | None
    partition: int
    resume: bool
    rank: int
    biases: bool
    device: str
    explain: bool = False
    format: str = "text"
    given: frozenset[str] = frozenset()

    @property
    def ordered(self) -> bool:
        """Whether the result may not depend on the order in which rows arrive."""
        return self.deterministic or self.threads == 1


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


def _load(text: str) -> dict[str, Any]:
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


def _value(option: Option, value: Any) -> Any:
    try:
        return option.kind.parse(value)
    except (ValueError, OverflowError) as error:
        hint = str(error) if str(error).startswith(";") else ""
        raise OptionError(
            f"option '{option.name}' is {_shown(value)}, expected {option.kind.allowed}{hint}"
        ) from None


NO_L1 = {
    "newton": "l1 > 0 leaves no curvature for newton",
    "newton_cg": "l1 > 0 leaves no curvature for newton_cg",
    "dcd": "its dual has no l1",
}
"""Algorithms that have no l1, and why."""


def unfit(options: Options, algorithm: str) -> tuple[str, str] | None:
    """An option that keeps an algorithm from training, and why; None where none does."""
    if options.l1 > 0 and algorithm in NO_L1:
        return "l1", NO_L1[algorithm]
    if algorithm == "dcd" and options.l2 == 0:
        return "l2", "without the penalty there is no dual"
    if algorithm == "dcd" and options.warm_start is not None:
        return "warm_start", "no model tells its dual variables a start"
    return None


UNFIT = {
    "l1": "option 'l1' is not available with algorithm '{}': {}, "
    "expected 'lbfgs', 'bgd', 'svrg', 'mgd', 'sgd' or 'auto'",
    "l2": "option 'l2' is 0, algorithm '{}' needs a number greater than 0: {}",
    "warm_start": "option 'warm_start' is not available with algorithm '{}': {}, "
    "expected 'lbfgs', 'bgd', 'newton' or 'auto'",
}


def _check_together(options: Options) -> None:
    algorithm = options.algorithm
    wrong = unfit(options, algorithm)
    if wrong is not None:
        raise OptionError(UNFIT[wrong[0]].format(algorithm, wrong[1]))
    if options.schedule == "line_search" and algorithm != "bgd":
        raise OptionError(
            f"schedule 'line_search' is not available with algorithm '{algorithm}', expected 'bgd'"
        )


def refuse_format(options: Options) -> None:
    """Of a training: a format is that of an explanation."""
    if "format" in options.given and not options.explain:
        raise OptionError(
            "option 'format' is of explain_training, or of option 'explain', which is false"
        )


def read(text: str, table: Mapping[str, Option]) -> tuple[dict[str, Any], frozenset[str]]:
    """The value of each option of a table, and the names of those that a JSON text gives.

    An empty text gives none. Raises OptionError.
    """
    given = _load(text) if text.strip() else {}
    for name in given:
        if name not in table:
            raise OptionError(
                f"unknown option '{shortened(name)}', expected one of "
                f"{', '.join(table)}{hint(name) or nearest(name, table)}"
            )
    values = {
        name: _value(option, given[name]) if name in given else option.default
        for name, option in table.items()
    }
    return values, frozenset(given)


@functools.lru_cache(maxsize=256)
def parse(text: str) -> Options:
    """The options in a JSON text; an empty text has none. Raises OptionError."""
    values, given = read(text, TABLE)
    options = Options(**values, given=given)
    _check_together(options)
    return options


def parse_once(text: str) -> Options:
    """As `parse`; a long text, which has a model in it, is not kept."""
    return parse(text) if len(text) <= MAX_TEXT else parse.__wrapped__(text)
