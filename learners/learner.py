"""The interface of learners, which train the models of some tasks.

A learner is a folder next to this file, a line in `registry.py`, its kernels and its scorer in C
(`udas/scalars`); nothing else names it. `groups/contract` passes it the groups of one call that
share task and options, and receives models.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels.parts.sharded import Parts
from tuskml.kernels.passes import Floats
from tuskml.kernels.rows.prepare import KnownLevels
from tuskml.kernels.structures import OFFSETS
from tuskml.learners.classes import LabelRange, Mask, of_classes
from tuskml.learners.explaining import document, format_explanation
from tuskml.learners.held_out import HeldOut
from tuskml.learners.models import Models
from tuskml.learners.near import Near
from tuskml.learners.options.table import Options, OptionTable
from tuskml.learners.row_groups import Piece, RowGroups, Storage
from tuskml.learners.tasks import Task

if TYPE_CHECKING:
    from tuskml.kvstore import StoreRoot
    from tuskml.schedule.exchange.workers.crew import Member

T = TypeVar("T")
OneTask_co = TypeVar("OneTask_co", bound=Task, covariant=True)
OneOptions_co = TypeVar("OneOptions_co", bound=Options, covariant=True)
Groups = NDArray[np.void]
"""Groups as the packers left them (`passes.GROUP`)."""


@dataclass(frozen=True)
class Request(Generic[OneTask_co, OneOptions_co]):
    """The request of one call of `train_model`.

    reading: seconds that its rows took to come; unasked: why its model is in a store that the call
    did not ask for; categories: says for the place of a group whose rows have names the first
    feature of each category and how many it has; feature_names: those of a group by its place,
    where features have names; terms: how many features each column of such rows became; by_level:
    of each group, and of each of its features, 1 where values are numbers of a category's levels,
    None: nowhere; preparation: says for the place of a group whose rows have names what they
    became, as JSON; near: from where a training of dense rows may start, by the groups' field
    `place`, and what is left there for others; source: the plans that were compared before all
    rows of a source were read, as `Streamed.plans` has them, None where none were; held_out: how
    rows are held out, None: by chance; parted: of a search, by the groups' field `place`, their
    rows to train on and those that it holds out for trainings that stop early, None: these hold
    out their own; common: whether neighbouring groups have rows in common; last: whether nobody
    reads the rows after this training, so that it may give their memory back; shown: what batches
    of the call's groups showed of plans, for those that are alike; words: of the group at a place
    the words that its features are, in the order of their ids, UTF-8 one behind the other, and
    where each begins, (n + 1,); None where features are ids.
    """

    task: OneTask_co
    options: OneOptions_co
    reading: float | None = None
    unasked: str | None = None
    categories: Callable[[int], tuple[tuple[int, int], ...]] | None = None
    feature_names: Callable[[int], tuple[str, ...]] | None = None
    terms: Callable[[int], list[int]] | None = None
    near: Near | None = None
    common: bool = False
    by_level: tuple[bytes, ...] | None = None
    preparation: Callable[[int], str] | None = None
    source: Mapping[str, Any] | None = None
    held_out: HeldOut | None = None
    parted: tuple[NDArray[np.void], NDArray[np.void]] | None = None
    last: bool = False
    shown: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    words: Callable[[int], tuple[bytes, NDArray[np.int64]] | None] | None = None

    def features_by_category(self, place: int) -> dict[str, range]:
        """The features of each category of a group, by the category's name; none without names."""
        if self.categories is None or self.preparation is None:
            return {}
        columns = json.loads(self.preparation(place))["columns"]
        names = [one["name"] for one in columns if one["kind"] in ("category", "levels")]
        found = zip(names, self.categories(place), strict=True)
        return {name: range(first, first + count) for name, (first, count) in found}

    def of_places(self, places: NDArray[np.intp]) -> Self:
        """The request about the groups at these places of all, in this order."""

        def of(about: Callable[[int], T] | None) -> Callable[[int], T] | None:
            return None if about is None else lambda k: about(int(places[k]))

        by_level = self.by_level
        return replace(
            self,
            categories=of(self.categories),
            feature_names=of(self.feature_names),
            terms=of(self.terms),
            by_level=None if by_level is None else tuple(by_level[k] for k in places),
        )


@dataclass(frozen=True)
class Arrays:
    """The rows of G groups: features x (n, d), labels y (n,), and the group of each, (n,)."""

    x: Floats
    y: Floats
    group: NDArray[np.intp]
    n_groups: int


class Rounds(Protocol):
    """A training whose rows come in rounds that are laid out before the first one."""

    @property
    def rounds(self) -> Sequence[Sequence[Piece]]:
        """The row groups of each round."""

    @property
    def models(self) -> Models | None:
        """The model, after a round that said DONE."""

    def take(self, number: int, groups: Groups, memory: int) -> str:
        """Trains on the rows of a round: says MORE, DONE, or ALL where all rows are to train."""


MORE, DONE, ALL = "more", "done", "all"
"""The answers of a round."""


@dataclass(frozen=True)
class Outgrown:
    """A model that does not fit into memory: the bytes that its training might take, and why."""

    room: int
    why: str


class AlgorithmEntry(Protocol):
    """An algorithm's entry in the manual.

    title and source: its name and paper; stochastic: an iteration is an epoch of steps; on_gpu,
    stored: whether a GPU or a store may have the weights.
    """

    name: str
    title: str
    source: str
    stochastic: bool
    on_gpu: bool
    stored: bool


BUT_REFERENCE, ALL_LEVELS, FIRST_HAS_ALL = 0, 1, 2
"""Levels of categories with a feature: all but the first one, which is the reference; all; all of
the first category, and of the others all but the first one."""
NONE_NUMBERED, CATEGORIES_NUMBERED, NAMES_NUMBERED = 0, 1, 2
"""Columns that become numbers of their levels: none; categories; all, since numbers are names
too (`tk_level_numbers`)."""


@dataclass(frozen=True)
class Facts:
    """Facts that hold for all trainings of a learner.

    weighs: rows may have weights; a training that cannot take them says so itself; weighs_classes:
    weights of classes are weights of rows (`class_weights.py`), and the learner need not know
    them; takes_sparse: features may be sparse; rows by name are dense otherwise; orders: trainings
    order rows by a hash of their content and the seed; classifying: the options with which a task
    that has classes by option has them; algorithms: the values of the option `algorithm`; sizes:
    limits that a user may meet, for the manual: of what, and how much; calibrate: measures what
    plans take on this machine, as `learners.machine.constants.save` wants it, and says to its
    argument what is being measured; its member `reading` has the kinds of rows that the learner
    itself keeps.
    """

    weighs: bool = False
    weighs_classes: bool = False
    takes_sparse: bool = True
    orders: bool = False
    classifying: Mapping[str, Any] = field(default_factory=dict)
    algorithms: Sequence[AlgorithmEntry] = ()
    sizes: Sequence[tuple[str, str]] = ()
    calibrate: Callable[[Callable[[str], None]], dict[str, Any]] = lambda say: {}


class Encoding:
    """How rows with names become features, and labels that are text numbers.

    orders_labels: whether such labels need an order.
    """

    orders_labels = False

    def levels(self, options: Any) -> int:
        """The levels of a category that get a feature: `ALL_LEVELS`, `BUT_REFERENCE` or
        `FIRST_HAS_ALL`.
        """
        return ALL_LEVELS

    def references(self, options: Any) -> Mapping[str, str]:
        """The reference level, or 'most frequent', by category; "" is for all others."""
        return {}

    def numbers_levels(self, options: Any) -> int:
        """The columns that are one feature, the number of a level, not one for each level:
        `NONE_NUMBERED`, `CATEGORIES_NUMBERED` or `NAMES_NUMBERED`.
        """
        return NONE_NUMBERED

    def levels_to_keep(self, options: Any) -> Sequence[KnownLevels]:
        """Levels of such categories whose numbers a training takes over from a model of before."""
        return ()

    def stays_dense(self, options: Any) -> bool:
        """Returns whether features are dense however few of them are not 0."""
        return False


@dataclass(frozen=True)
class Judging:
    """A metric that a learner computes. note: what it has to know of a group's training rows;
    judge: the metric of models, (n,), by these of each, and by held-out rows, GROUP of shape (n,).
    """

    note: Callable[[np.void], Any]
    judge: Callable[[Models, Sequence[Any], Groups], Floats]


class Trials:
    """Trainings on a part of the rows, for searches."""

    def complexity(self, options: Any) -> float:
        """Orders options from the simplest model on, of models that are about as good."""
        return 0.0

    def holds_out(self, options: Any) -> bool:
        """Returns whether a training holds rows out by itself."""
        return bool(options.validation)

    def holding_out(self, options: Any, how: HeldOut, folds: int | None) -> Any:
        """The options of a training that holds out just these rows itself, so that one candidate
        needs no search; None where it does not.

        folds: the number in the options, None: the default.
        """
        return options if how.together and self.holds_out(options) else None

    def predicting(self, request: Request[Any, Any]) -> Any:
        """The options of a training whose model is used only to predict.

        They omit what describes a model and changes no prediction, such as tests of its terms.
        Raises OptionError for a description that the task does not have.
        """
        return request.options

    def judging(self, options: Any) -> "Judging | None":
        """How models are judged by a metric that depends on the rows of their training; None if
        their metric is one of `udas/scalars/judging`.
        """
        return None

    def forgets(self, request: Request[Any, Any], n_features: int) -> bool:
        """Returns whether the weights of dense rows do not depend on the start of their
        training.
        """
        return False

    def ends_alike(self, request: Request[Any, Any]) -> bool:
        """Returns whether trainings from any start converge to the same weights."""
        return True


class ByParts:
    """Trainings of a group whose rows are split over workers.

    keeps: whether parts keep state between messages, of one training at a time; rotates: whether
    this state is on no other worker, so that none can answer in its place; slowdown: the ratio of
    processor seconds to a training of the same rows in one process, for estimates; gains: whether
    two workers take less time than one.
    """

    keeps = False
    rotates = False
    slowdown = 1.0
    gains = True

    def whole(self, request: Request[Any, Any]) -> str | None:
        """The reason why a group's rows cannot be split; None where `train` suffices."""
        return f"task '{request.task.name}' needs all rows in one place"

    def hops(self, request: Request[Any, Any]) -> bool:
        """Returns whether `train` asks one part after the other: steps depend on each other."""
        return False

    def waits(self, request: Request[Any, Any]) -> bool:
        """Returns whether a group that fits on one worker is trained as fast there."""
        return self.hops(request)

    def train(self, parts: Parts, request: Request[Any, Any]) -> Models | None:
        """Trains one group of which each part of the rows is elsewhere; None without a usable row.

        Its bits depend on how the rows are cut into parts, and not on where these are.
        """
        raise NotImplementedError

    def exchanges(
        self,
        request: Request[Any, Any],
        iterations: int,
        coefficients: int,
        n_features: int,
        rows: int,
    ) -> tuple[int, float]:
        """The number of exchanges of sums between workers in `train`, and the bytes of each; rows:
        of the group.
        """
        return iterations, 8.0 * coefficients


class Crew:
    """Trainings of a group whose steps several workers take together."""

    def alone(self, request: Request[Any, Any]) -> str | None:
        """The reason why workers cannot train one group together, step by step; None where
        they can.
        """
        return f"task '{request.task.name}' takes no steps together"

    def train(self, member: "Member", message: bytes) -> bytes:
        """Runs one worker's step and returns its answer.

        message: from the leader, which is `ByParts.train` if its parts have a crew.
        """
        raise NotImplementedError


class Stored:
    """Trainings whose weights lie in a store."""

    def train(
        self, group: Groups, request: Request[Any, Any], memory: int, root: "StoreRoot"
    ) -> Models:
        """Trains one group; the model names a sealed version."""
        raise OptionError(f"option 'store' is not available with task '{request.task.name}'")

    def outgrown(
        self, groups: Groups, request: Request[Any, Any], memory: int
    ) -> Mapping[int, Outgrown]:
        """The groups, by index, whose models do not fit into memory but could be stored."""
        return {}


class Streamed:
    """Trainings that read some row groups of a table instead of all rows."""

    def is_wanted(self, request: Request[Any, Any]) -> bool:
        """Returns whether a training may do so."""
        return False

    def train(
        self, source: RowGroups, request: Request[Any, Any], n_features: int
    ) -> Models | None:
        """Trains on rows that are read by row group; None where they are too few for that."""
        return None

    def rounds(
        self, storage: Storage, request: Request[Any, Any], n_features: int
    ) -> Rounds | None:
        """As `rounds`, for rows that one statement reads; None to read all of them."""
        return None

    def plans(
        self, storage: Storage, request: Request[Any, Any], n_features: int
    ) -> dict[str, Any] | None:
        """The plans of a training that read all rows or a part, for its explanation.

        Of JSON's types, the member `source` of an explanation; None without a choice.
        """
        return None


class Pooled:
    """Trainings of groups that learn from each other."""

    def check(self, request: Request[Any, Any]) -> None:
        """Raises OptionError for tasks and options without such trainings."""
        raise OptionError(f"option 'pooled' is not available with task '{request.task.name}'")

    def train(self, rows: Arrays, request: Request[Any, Any]) -> Models:
        """The models of the groups, in their order."""
        raise OptionError(f"option 'pooled' is not available with task '{request.task.name}'")


class Learner(ABC):
    """The base of all learners.

    A capability that few of them have is a protocol of its own, whose base rejects it in a
    sentence.
    """

    facts = Facts()
    encoding = Encoding()
    trials = Trials()
    by_parts = ByParts()
    crew = Crew()
    stored = Stored()
    streamed = Streamed()
    pooled = Pooled()

    @property
    @abstractmethod
    def tasks(self) -> Mapping[str, Task]:
        """The tasks by their SQL names, including those registered since."""

    @property
    @abstractmethod
    def options(self) -> OptionTable[Any]:
        """The options that a call with one of these tasks may give."""

    @abstractmethod
    def train(self, groups: Groups, request: Request[Any, Any], memory: int) -> Iterator[Models]:
        """Trains each of the groups; models carry their groups' indices in `groups`.

        memory: address of the account of the statement, which copies of rows are charged to.
        Raises DataError and OptionError; a group that cannot be trained has a status instead.
        """

    def explain(
        self, groups: Groups, request: Request[Any, Any], memory: int = 0
    ) -> Iterator[str]:
        """Yields an explanation of each group: text, or JSON with the option `format`."""
        task, options = request.task, request.options
        for group in np.split(groups, len(groups)):
            found = document(group, task.name, f"mean {task.formula}", request.reading)
            yield format_explanation(found, options.format)

    def classifies(self, request: Request[Any, Any]) -> bool:
        """Returns whether labels are classes."""
        classifies: bool = request.task.classifies
        return classifies

    def label_range(self, request: Request[Any, Any]) -> LabelRange | None:
        """The allowed labels; None if all numbers are."""
        if not self.classifies(request):
            return None
        return of_classes(request.task.name, request.options)

    def names_numbers(self, request: Request[Any, Any]) -> bool:
        """Returns whether numbers of lists are names, such as ids."""
        return False

    def usable(self, request: Request[Any, Any], features: Any, labels: Floats) -> Mask:
        """Tests which rows of a chunk (`kernels.segments.chunks`) can be trained on, (n,)."""
        allowed = self.label_range(request)
        return np.ones(len(labels), bool) if allowed is None else allowed.holds(labels)

    def metric(self, request: Request[Any, Any]) -> str:
        """The SQL name of the metric by which models of a task are compared."""
        return request.task.metric or ("log_loss" if self.classifies(request) else "rmse")


# Rows with offsets, which only some tasks take.


def refuse_offsets(groups: NDArray[np.void], task: str) -> None:
    """Raises OptionError if rows have offsets."""
    if (groups["extras"] & OFFSETS).any():
        raise OptionError(
            f"offset is not available with task '{task}', expected (task, label, features, "
            "options, weight)"
        )
