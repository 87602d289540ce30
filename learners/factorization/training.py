"""The task `matrix_factorization`: a batch of groups in, a batch of models out.

A model's `classes` are [n_users, n_items, width], its `coef` the users' vectors and behind them
the items', each of `width` numbers with the bias first
(`kernels/factorization/`), `intercept` mu.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, RowsError
from tuskml.kernels import passes
from tuskml.kernels.factorization import Factorization, Ids, Shape, rating_ids
from tuskml.kernels.gpu import cuda, placement
from tuskml.kernels.gpu.cuda import failures, unless_it_fails
from tuskml.kernels.gpu.factorization.training import DeviceFactorization, piece_rows, too_large
from tuskml.kernels.gpu.placement import Answer
from tuskml.kernels.library import FLOOR, memory_use
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.structures import WEIGHTS
from tuskml.learners import events
from tuskml.learners.factorization.epochs import Factors, Run
from tuskml.learners.factorization.options import Request
from tuskml.learners.factorization.settings import AnySettings, Settings
from tuskml.learners.list_size import bytes_of_lists
from tuskml.learners.models import Lists, Models, Strings, thin_history
from tuskml.learners.validation import apart
from tuskml.schedule import shares
from tuskml.schedule.budget import look_at_limits
from tuskml.schedule.devices import gpu_in_turn

WORSE = 1.1
"""Times the loss of the best constant, above which a training has diverged."""
ALIKE = 1.01e-12
"""Times the square of the mean, the loss of the best constant of equal ratings, as rounded."""
FAR = 1e3
"""Deviations of ratings from 0, which vectors without biases hardly reach to their last digits."""
MOST_NUMBERS = 1 << 26
"""Numbers of a model that is a value."""
MOST_TOGETHER = 1 << 22
"""Numbers of the models that one batch yields."""
MOST_IDS = 1 << 26
"""Ids of a model in a store: the index of vectors takes about 50 bytes of memory per id."""
STATUSES = (
    *("ok", "rounded feature", "not converged", "early stop", "time limit", "diverged"),
    *("no feedback", "out of range"),
)


@dataclass
class Fit:
    """The result of one group's training."""

    settings: AnySettings
    shape: Shape
    mean: float
    coef: Floats
    loss: float
    history: list[float]
    converged: bool
    status: str
    seconds: float


def train(groups: NDArray[np.void], request: Request, memory: int) -> Iterator[Models]:
    """Trains each of the groups separately; models carry their groups' indices in `groups`."""
    return each(groups, lambda group: fit(group, request, memory))


def each(groups: NDArray[np.void], fit_one: Callable[[NDArray[np.void]], Fit]) -> Iterator[Models]:
    """Yields the models of groups one by one; they carry their groups' indices in `groups`."""
    waiting: list[Fit] = []
    first = numbers = 0
    with passes.watching_sigint():
        for place in range(len(groups)):
            waiting.append(fit_one(groups[place : place + 1]))
            numbers += waiting[-1].coef.size
            if numbers > MOST_TOGETHER or place == len(groups) - 1:
                models = as_models(groups[first : place + 1], waiting)
                yield models.renumber(np.arange(first, place + 1))
                first, numbers, waiting = place + 1, 0, []


def fit(group: NDArray[np.void], request: Request, memory: int) -> Fit:
    """Trains one group."""
    began, settings, mark = time.monotonic(), Settings.of(request.options), passes.cancel_mark()
    shares.note_plan(settings.describe())
    rows = Pass(group, fit_intercept=settings.biases, threads=settings.threads, cancel_mark=mark)
    shape = shape_of(rows, settings)
    refuse_too_long(shape, memory)
    here = settings
    settings = place_settings(group, settings, shape)

    def fit_by(settings: Settings) -> Fit:
        return fit_placed(GroupTraining(rows, request, settings), shape, memory, began)

    if settings.gpu is None:
        return fit_by(settings)
    return unless_it_fails(settings.device, lambda: fit_by(settings), lambda: fit_by(here))


@dataclass(frozen=True)
class GroupTraining:
    """The rows of one group, its request and the resulting settings."""

    rows: Pass
    request: Request
    settings: Settings


def fit_placed(asked: GroupTraining, shape: Shape, memory: int, began: float) -> Fit:
    """Trains the group on the device of its settings."""
    rows, settings = asked.rows, asked.settings
    group = rows.groups
    with ExitStack() as stack:
        kept, held = rows, None
        if settings.validation:
            kept, held = stack.enter_context(apart(rows, asked.request, memory))
        if settings.gpu is not None:
            stack.enter_context(gpu_in_turn(rows.cancel_mark))
            stack.enter_context(failures())
        model = stack.enter_context(factors(kept, memory, shape, settings))
        run = Run(model, held if counts_any(held) else None, settings, began)
        return descend(run, kept, shape, began, group)


def descend(run: Run, kept: Pass, shape: Shape, began: float, group: NDArray[np.void]) -> Fit:
    """Runs all epochs on the rows that are kept, of those of the group."""
    settings, model = run.made, run.model
    run.n_rows = int(group["n_rows"][0])
    run.descend()
    mean, coef = model.vectors()
    loss = model.objective()
    constant = Constant.of(kept, settings.biases)
    events.tell_trained(group)
    seconds = time.monotonic() - began
    nothing = np.zeros_like(coef)
    if not (math.isfinite(mean + constant.loss) and np.isfinite(coef).all()):
        return Fit(settings, shape, 0.0, nothing, math.nan, [], False, "out of range", seconds)
    instead = constant.instead_of(loss, run.status)
    if instead:
        given = settings, shape, constant.mean, nothing, constant.loss, run.history
        return Fit(*given, instead == "ok", instead, seconds)
    status = constant.status_of(run.status)
    return Fit(settings, shape, mean, coef, loss, run.history, run.converged, status, seconds)


@dataclass(frozen=True)
class Constant:
    """The constant that fits all ratings of a group, and its loss, to compare vectors with.

    Without biases the mean is 0, and ratings may be far from it relative to their spread.
    """

    mean: float
    loss: float
    far: bool

    @classmethod
    def of(cls, rows: Pass, biases: bool) -> "Constant":
        """Computes the constant of one group, with the rounding of its ratings, 32-bit numbers
        less their middle.
        """
        labels = rows.labels()[0]
        mean, variance = float(labels["mean"]), float(labels["variance"])
        loss = variance / 2 if biases else (variance + mean * mean) / 2  # which may be infinite
        far = not biases and abs(mean) > FAR * math.sqrt(variance) > 0
        return cls(mean if biases else 0.0, loss * (1 + 1e-6), far)

    def instead_of(self, loss: float, status: str) -> str:
        """The status of the constant where vectors with this loss and status are worse; otherwise
        none.
        """
        if loss <= self.loss:
            return ""
        if self.loss <= ALIKE * self.mean * self.mean:  # then nothing is better
            return "ok"
        if status == "time limit":
            return status
        return "diverged" if loss > WORSE * self.loss else "not converged"

    def status_of(self, status: str) -> str:
        """The status of vectors that are better."""
        return "rounded feature" if self.far and status == "ok" else status


def factors(rows: Pass, memory: int, shape: Shape, settings: Settings) -> Factors:
    """A group's ratings and vectors where they train."""
    if settings.gpu is not None:
        return on_gpu(rows, memory, shape, settings)
    return Factorization(rows, memory, shape, settings.seed)


def counts_any(rows: Pass | None) -> bool:
    """Returns whether there is a row."""
    return rows is not None and bool(rows.groups["n_rows"][0])


def shape_of(rows: Pass, settings: AnySettings) -> Shape:
    """The size of a group's model; errors where its rows are not [user, item]."""
    group = rows.groups[0]
    if group["kind"] >= 2:
        raise DataError("features of 'matrix_factorization' are [user, item], got sparse(...)")
    if group["dim"] != 2:
        raise DataError(
            f"features of 'matrix_factorization' are [user, item], got {group['dim']} in a row"
        )
    ids = rating_ids(rows)
    if ids.bad_row:
        raise RowsError(bad_id(ids, double=bool(group["kind"])))
    l2 = settings.l2
    shape = Shape(
        *(ids.n_users, ids.n_items, settings.rank, settings.biases),
        *(l2, l2 * unit_of(rows) if settings.relative else l2),
    )
    n_ids = shape.n_users + shape.n_items
    if settings.stored and n_ids > MOST_IDS:
        raise DataError(
            f"{ids.n_users:,} users and {ids.n_items:,} items are {n_ids:,} ids, expected at most "
            f"{MOST_IDS:,}: number them without gaps"
        )
    if not settings.stored and shape.numbers > MOST_NUMBERS:
        raise DataError(
            f"{ids.n_users:,} users and {ids.n_items:,} items with {shape.width} numbers each "
            f"are {shape.numbers:,}, at most {MOST_NUMBERS:,} fit into a value: number them "
            "without gaps, or give option 'store'"
        )
    return shape


def unit_of(rows: Pass) -> float:
    """The standard deviation of one group's ratings; of equal ones what they are, or else 1.

    It has 24 bits: the last ones depend on the order of rows, and vectors must not.
    """
    labels = rows.labels()[0]
    mean, variance = float(labels["mean"]), float(labels["variance"])
    unit = math.sqrt(variance) or abs(mean)
    if not 0 < unit < math.inf:
        return 1.0
    fraction, exponent = math.frexp(unit)
    return math.ldexp(round(fraction * 2**24) / 2**24, exponent)


def refuse_too_long(shape: Shape, memory: int) -> None:
    """Raises MemoryError if a model as a list is more than the account may have."""
    look_at_limits(memory)
    size, limit = bytes_of_lists(shape.numbers), max(memory_use(memory).budget, FLOOR)
    if size > limit:
        raise MemoryError(
            f"{shape.n_users:,} users and {shape.n_items:,} items with {shape.width} numbers each "
            f"are a list of {size / 1e6:,.0f} MB with its copies, and memory_limit is "
            f"{limit / 1e6:,.0f} MB: number them without gaps, or give option 'store'"
        )


MOST_ID = {np.dtype(np.float64): 2**31 - 1, np.dtype(np.float32): 2**24 - 1}


def are_ids(pairs: Floats) -> NDArray[np.bool_]:
    """Tests which pairs of user and item (n, 2) are whole numbers in the range of ids, (n,)."""
    return np.asarray(
        ((pairs >= 0) & (pairs <= MOST_ID[pairs.dtype]) & (pairs == np.floor(pairs))).all(axis=1)
    )


def bad_id(ids: Ids, double: bool) -> str:
    """One sentence on an id that is out of range or not whole."""
    who = ("user", "item")[ids.bad_position - 1]
    most = MOST_ID[np.dtype("d" if double else "f")]
    allowed = f"expected a whole number from 0 to {most}"
    rounded = not double and ids.bad >= 2**24
    hint = ", beyond which REAL rounds: give DOUBLE PRECISION" if rounded else ""
    if double and ids.bad > most:
        hint = ", or a row with names such as {'user': u, 'item': i}, whose ids may be any"
    return f"{who} is {ids.bad:.17g} in row {ids.bad_row} of a group, {allowed}{hint}"


def texts(found: list[str]) -> Strings:
    """Strings that are mostly the same."""
    pool = tuple(dict.fromkeys(found))
    return Strings(pool, np.array([pool.index(text) for text in found], np.int32))


def as_models(groups: NDArray[np.void], fits: list[Fit]) -> Models:
    """The models of groups."""
    n = len(fits)
    classes = np.array([[f.shape.n_users, f.shape.n_items, f.shape.width] for f in fits], float)
    longest = max(len(f.history) for f in fits)
    history = [
        np.array([f.history[k] if k < len(f.history) else np.nan for f in fits])
        for k in range(longest)
    ]
    return Models.build(
        groups,
        "matrix_factorization",
        coef=Lists(
            fits[0].coef.ravel() if n == 1 else np.concatenate([f.coef.ravel() for f in fits]),
            np.concatenate([[0], np.cumsum([f.coef.size for f in fits])]).astype(np.int64),
        ),
        intercept=np.array([f.mean for f in fits]),
        classes=Lists.of_rows(classes, np.full(n, 3)),
        n_features=np.full(n, 2),
        loss=np.array([f.loss for f in fits]),
        history=thin_history(history, n),
        iterations=np.array([len(f.history) for f in fits]),
        converged=np.array([f.converged for f in fits], np.uint8),
        status=Strings.of((fit.status for fit in fits), STATUSES),
        plan=texts([f.settings.describe() for f in fits]),
        seconds=np.array([f.seconds for f in fits]),
        options=texts([f.settings.resolve(f.shape) for f in fits]),
    )


# Where a matrix factorization trains: the GPU that the option `device` takes, or the CPU.


def answer(group: NDArray[np.void], settings: Settings, shape: Shape) -> Answer:
    """Decides whether one group's ratings train on the GPU, with the reason; raises nothing."""
    found = placement.answer(settings.device, group)
    if not found.use:
        return found
    if (group["extras"] & WEIGHTS).any():
        return Answer(False, "ratings with weights train on the CPU")
    if settings.asked and not settings.method.on_gpu:
        return Answer(False, f"'{settings.algorithm}' runs on the CPU alone")
    reason = too_large(cuda.device(), int(group["n_rows"][0]), shape, settings.validation > 0)
    return found if reason is None else Answer(False, reason)


def place_settings(group: NDArray[np.void], settings: Settings, shape: Shape) -> Settings:
    """The settings for the chosen device. Raises OptionError if 'gpu' is required and
    impossible.
    """
    found = answer(group, settings, shape)
    return settings.on_gpu(found.reason) if found.is_gpu(settings.device) else settings


def settings_and_refusal(
    group: NDArray[np.void], settings: Settings, shape: Shape
) -> tuple[Settings, str | None]:
    """Returns the settings of the device that would train, for an explanation, and the device in
    words.

    The words are None unless the option `device` or the GPU made a difference.
    """
    if settings.stored:
        return settings, None
    found = answer(group, settings, shape)
    words = found.describe(settings.device) if found.use or settings.device == "gpu" else None
    return settings.on_gpu(found.reason) if found.use else settings, words


def on_gpu(rows: Pass, memory: int, shape: Shape, settings: Settings) -> Factors:
    """Loads one group's ratings and vectors onto the GPU; a context manager that frees them.

    memory: the account that is charged for ratings which do not fit on the GPU.
    """
    device, n = cuda.device(), int(rows.groups["n_rows"][0])
    return DeviceFactorization.of_rows(
        rows,
        device,
        shape,
        settings.seed,
        lock_free=settings.lock_free,
        memory=memory,
        at_once=piece_rows(device, n, shape, settings.validation > 0) or None,
    )
