"""The answers to a batch of groups: models, explanations, statistics of features.

It is imported for the first batch (`attachment.py`).
"""

import ctypes
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError, RowsError
from tuskml.groups import records
from tuskml.groups.histograms import histograms_of, with_gaps, with_histograms
from tuskml.groups.outgrown import requests_into_store
from tuskml.groups.preparation import (
    invalid_models,
    readable,
    rounding_remarks,
    train_apart,
    usable,
    with_held_out,
)
from tuskml.groups.selection.search import ANY_TASK, Search, search_of
from tuskml.groups.wide import narrow, without_wide
from tuskml.kernels.library import charge_memory
from tuskml.kernels.passes import GROUP, KINDS, first_labels
from tuskml.kernels.structures import FOLDS
from tuskml.learners import events, receiving, registry
from tuskml.learners.class_weights import train_weighted
from tuskml.learners.classes import name_as_booleans
from tuskml.learners.learner import Request
from tuskml.learners.models import (
    Emission,
    Models,
    Names,
    labels_lost_of,
    with_leaks,
    with_lost_labels,
)
from tuskml.learners.options.table import MAX_TEXT, Options, refuse_format
from tuskml.learners.registry import learner_of, of_classes, task_named
from tuskml.learners.remarks import LABEL, Remarks, at, current, remarks_of, with_notes
from tuskml.learners.tasks import Task
from tuskml.schedule import budget, shares
from tuskml.schedule.budget import look_at_limits, look_once

TRAIN, EXPLAIN, SEND_ROWS, TAKE_MODEL, READ_MODEL, WRITE_SQL, POOL = 0, 1, 4, 5, 6, 7, 8
NUMBERS, BOOLEANS = 0, 1
"""The kinds of labels: `tusk_labels`."""
Groups = NDArray[np.void]
"""Groups as the packers left them (`passes.GROUP`)."""
Places = NDArray[np.intp]


def groups_of(batch: Any) -> Groups:
    """A view of the batch's groups."""
    if not batch.n_groups:
        return np.empty(0, GROUP)
    size = batch.n_groups * GROUP.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(batch.groups), GROUP)


class Call:
    """One call of the trainer: a batch, and the library of the database that takes the answers.

    pointer: to the batch, as C passes it; account: of the database whose statement it is, if that
    has rules for files; batch: the structure, whose pointers are valid during the call; groups: a
    view of its groups; memory: address of the account of memory, 0: there is none; explains: True
    for plans instead of models; remarks: of the packers, by the group's index in the batch; lost:
    whether numeric labels lose their digits, by index.
    """

    def __init__(self, library: ctypes.CDLL, pointer: Any, account: int | None = None) -> None:
        self.library, self.pointer, self.account = library, pointer, account
        self.batch: Any = pointer.contents
        self.groups = groups_of(self.batch)
        self.memory: int = self.batch.memory or 0
        self.explains: bool = self.batch.request == EXPLAIN
        self.remarks: dict[int, Remarks] = {}
        if self.batch.n_remarks:
            self.remarks = remarks_of(self.batch.remarks, self.batch.n_remarks)
        self.lost = np.zeros(len(self.groups), bool)

    @property
    def root(self) -> str | None:
        """The directory of all stores, if the database says where."""
        return os.fsdecode(self.batch.store_root) if self.batch.store_root else None

    @property
    def reading(self) -> float | None:
        """Seconds that the rows took to come; None where the database does not say."""
        return max(time.monotonic() - self.batch.began, 0.0) if self.batch.began else None

    @property
    def most_threads(self) -> int:
        """The threads that the database allows the statement, whose settings are read once; 0:
        no limit.
        """
        look_once(self.memory, self.batch.statement)
        return self.batch.most_threads or budget.of_database(self.memory)

    @property
    def host(self) -> shares.Host:
        """The owner of the batch's trainings."""
        batch = self.batch
        return shares.Host(batch.program, not batch.unshared, batch.weight or None)

    def flaws(self, places: Places) -> dict[int, str]:
        """The reasons why some of these groups cannot be trained, by their position in
        `places`.
        """
        flaws, found = self.batch.flaws, {}
        for k, place in enumerate(places.tolist()):
            text = flaws[place]
            if text is not None:
                found[k] = text.decode(errors="replace")
        return found

    def emit_models(self, places: Places, models: Models, given: bool = True) -> None:
        """Returns models of the groups of one spec; places: these groups' indices in the
        batch; given: whether they are of the rows that the batch has.
        """
        shares.progress(len(models.group))
        records.log_models(models)
        if self.batch.labels == BOOLEANS:
            models = name_as_booleans(models)
        with events.phase("emitting"):
            at_places = places[models.group]
            before = self.groups["n_skipped"][at_places]
            if given and (self.remarks or (models.n_skipped > before).any()):
                remarks = at(self.remarks, at_places)
                models = with_gaps(with_notes(models, remarks, before), remarks)
            models = with_lost_labels(models, self.lost[at_places])
            emission = Emission(models.renumber(at_places))
            self.library.tusk_emit_models(self.pointer, ctypes.byref(emission.struct))

    def note_labels(self, some: "Some", requests: Sequence[Request[Any, Any]]) -> None:
        """Notes where labels lose their digits, before their rows are freed. Labels of classes
        are renumbered, or rejected.
        """
        numbers = any(not learner_of(one.task).classifies(one) for one in requests)
        if numbers and self.batch.labels == NUMBERS and len(some.places):
            rounded = np.zeros(len(self.groups), bool)
            for place, one in self.remarks.items():
                rounded[place] = any(where.column == LABEL for where in one.rounded)
            self.lost[some.places] = labels_lost_of(some.groups, rounded[some.places])

    def emit_texts(self, places: Places, texts: Iterable[str]) -> None:
        """Returns a text for each of these indices in the batch."""
        for place, text in zip(places, texts, strict=True):
            self.library.tusk_emit_text(self.pointer, ctypes.c_int64(int(place)), text.encode())


@dataclass(frozen=True)
class Some:
    """Groups of one spec, (G,): as packed, their indices in the batch, and the reasons why
    some cannot be trained, by position.
    """

    groups: Groups
    places: Places
    flaws: Mapping[int, str]

    def sound(self) -> "Some":
        """Selects the groups without a flaw."""
        if not self.flaws:
            return self
        bad = list(self.flaws)
        return Some(np.delete(self.groups, bad), np.delete(self.places, bad), {})


def answer(library: ctypes.CDLL, pointer: Any, account: int | None = None) -> None:
    """Answers the batch, spec by spec, and returns the results to the database."""
    call = Call(library, pointer, account)
    batch = call.batch
    groups = call.groups
    spec = np.ctypeslib.as_array(batch.spec, (batch.n_groups,)) if len(groups) else np.empty(0)
    with charge_memory(call.memory), budget.within(call.most_threads):
        for number in range(batch.n_specs):
            places, texts = np.flatnonzero(spec == number), batch.specs[number]
            if not len(places):
                check_spec(call, texts)
            elif batch.request == SEND_ROWS:
                send_rows(call, texts.task.decode().rpartition("/")[2], groups[places], places)
            elif batch.request == TAKE_MODEL:
                take_model(call, texts, groups[places], places)
            elif batch.request == POOL:
                pool(call, texts, groups[places], places)
            elif batch.request == READ_MODEL:
                read_model(call, texts.options, places)
            elif batch.request == WRITE_SQL:
                write_sql(call, texts.options, places)
            elif batch.request == TRAIN:
                with report_training(call, texts.task, len(places)):
                    answer_training(call, texts.task, texts.options, groups[places], places)
            elif batch.request == EXPLAIN:
                answer_training(call, texts.task, texts.options, groups[places], places)
            else:
                answer_offline(call, texts, groups[places], places)


def check_spec(call: Call, texts: Any) -> None:
    """Raises OptionError for a task and options of groups without a usable row that could
    train none.
    """
    if call.batch.request not in (TRAIN, EXPLAIN):
        return
    task = texts.task.decode()
    if search_in(task, texts.options) is None:
        with options_of(task_named(task), texts.options, call.memory) as options:
            if not call.explains:
                refuse_format(options)


@contextmanager
def report_training(call: Call, task: bytes, groups: int) -> Iterator[None]:
    """A training that takes its share of the host's cores, and has a line in the log."""
    with (
        shares.training(task, groups, call.host),
        records.training(call.batch, task, groups, call.reading),
    ):
        yield


def send_rows(call: Call, handle: str, groups: Groups, places: Places) -> None:
    """Gives the rows of the groups to a receiver in Python, and returns its answer."""
    flaws = without_wide(groups, "group")[1] | call.flaws(places)
    with current(at(call.remarks, places)):
        said = receiving.send(handle, groups, call.batch.memory, flaws[0] if flaws else None)
    call.emit_texts(places, [said] * len(places))


def take_model(call: Call, texts: Any, groups: Groups, places: Places) -> None:
    """Returns models that are ready, or trains after a comparison of plans."""
    handle = texts.task.decode()
    found = receiving.object_of(handle)
    task = found.task.encode()
    with report_training(call, task, len(places)):
        if isinstance(found, receiving.PlanComparison):
            answer_training(call, task, texts.options, groups, places, found.plans)
            return
        models = receiving.take_models(handle, first_labels(groups).astype(np.intp))
        if found.of_rows:
            models = replace(models, n_skipped=groups["n_skipped"].copy())
        records.note(models, None, call.batch.statement)
        call.emit_models(places, models, given=found.of_rows)


def pool(call: Call, texts: Any, groups: Groups, places: Places) -> None:
    """Trains groups that learn from each other, and returns the handle of their models."""
    from tuskml.groups.pooling import request_of, train_pooled  # seldom needed

    task, booleans = texts.task.decode(), call.batch.labels == BOOLEANS
    request = request_of(task, of_classes(task, texts.options.decode(), booleans))
    if call.batch.labels not in (NUMBERS, BOOLEANS):
        raise DataError(
            "the label is text, and 'pooled' takes numbers or booleans: expected an expression of "
            "one class, such as label = 'yes'"
        )
    flaws = call.flaws(places)
    if flaws:
        raise DataError(flaws[0])
    with report_training(call, texts.task, len(places)):
        models = train_pooled(groups[0], request, booleans)
    call.emit_texts(places, [receiving.ready(models, of_rows=True)])


def read_model(call: Call, text: bytes, places: Places) -> None:
    """Returns the model that a text of another package is, for each of these places.

    The module that reads it is in a folder above, which this one does not import.
    """
    look_at_limits(call.memory)
    size = bytes_to_read(text) + text.count(b" ") * READ_BYTES
    held = reserve_bytes(size, f"the {len(text):,} characters of a text")
    models = import_module("tuskml.own.reading").models_from(text.decode())
    del held
    for place in range(len(places)):
        call.emit_models(places[place : place + 1], models, given=False)


def write_sql(call: Call, text: bytes, places: Places) -> None:
    """Returns the expression that a call of model_to_sql asks for, at each of these places.

    text: the model, the answer and its class as JSON.
    """
    look_at_limits(call.memory)
    size = bytes_to_read(text)
    held = reserve_bytes(size, f"the {len(text):,} characters of a model")
    sql = import_module("tuskml.formats.plain_sql").sql_of(text.decode())
    del held
    call.emit_texts(places, [sql] * len(places))


def answer_training(
    call: Call,
    name: bytes,
    text: bytes,
    groups: Groups,
    places: Places,
    source: Mapping[str, Any] | None = None,
) -> None:
    """Trains, or explains, the groups of one spec.

    name, text: its task and options; places: the groups' indices in the batch; source: a
    comparison of plans that the explanation of the training includes.
    """
    task = name.decode()
    some = Some(groups, places, call.flaws(places))
    labels = call.batch.labels
    if labels != NUMBERS and len(text) <= MAX_TEXT:
        text = of_classes(task, text.decode(), labels == BOOLEANS).encode()
    search = search_in(task, text)
    if search is None:
        chosen = task_named(task)
        with options_of(chosen, text, call.memory) as options:
            answer_request(call, some, Request(chosen, options, call.reading, source=source))
    elif search.plain:
        (one,) = search.candidates
        request = Request(one.task, one.options, call.reading, source=source)
        answer_request(call, some, replace(request, held_out=search.dealt))
    else:
        answer_search(call, some, search)


def answer_flaws(
    call: Call, some: Some, requests: Sequence[Request[Any, Any]], searched: bool = False
) -> Some:
    """Answers for the groups with invalid rows, and returns the others; requests: their
    trainings, the first of which determines the form of invalid models.
    """
    if call.remarks:
        rounded = rounding_remarks(at(call.remarks, some.places), requests)
        some = replace(some, flaws={**some.flaws, **rounded})
    options = requests[0].options
    if some.groups["wide"].any() and (searched or options.store is None):
        what = "a model that a search chooses" if searched else ""
        groups, wide = without_wide(some.groups, options.invalid, what)
        some = replace(some, groups=groups, flaws={**wide, **some.flaws})
    if not some.flaws:
        return some
    bad, why = np.array(list(some.flaws)), list(some.flaws.values())
    if call.explains:
        call.emit_texts(some.places[bad], why)
    else:
        models = invalid_models(some.groups[bad], requests[0], why)
        records.note(models, some.groups[bad], call.batch.statement)
        call.emit_models(some.places[bad], models)
    return some.sound()


def search_in(task: str, options: bytes) -> Search | None:
    """The search that options ask for; those with a model in them ask for none."""
    if not options and task != ANY_TASK:
        return None
    return search_of(task, options.decode()) if len(options) <= MAX_TEXT else None


def answer_search(call: Call, some: Some, search: Search) -> None:
    """Returns the best models of the groups, or an explanation of the search."""
    dealt = search.dealt
    requests = [Request(one.task, one.options, held_out=dealt) for one in search.candidates]
    some = answer_flaws(call, some, requests, searched=True)
    call.note_labels(some, requests)
    groups = some.groups
    if not len(groups):
        return
    search = search.with_threads(call.batch.threads) if call.batch.threads else search
    for request in requests:
        refuse_weights(groups, request)
    if call.explains:
        from tuskml.groups.selection.explaining import explain_search  # slow to import

        call.emit_texts(some.places, explain_search(groups, search, call.memory))
        return
    from tuskml.groups.selection.searching import search_groups  # slow to import

    names = requests[0].options.feature_names

    def of_some(few: Groups) -> Iterator[Models]:
        kept = histograms_of(few, requests[0])
        for models in search_groups(few, search, call.memory, call.library):
            yield with_histograms(with_feature_names(models, few, names), kept)

    for models in train_apart(groups, requests[0], of_some):
        records.note(models, groups[models.group], call.batch.statement)
        call.emit_models(some.places, models)


def answer_request(call: Call, some: Some, request: Request[Any, Any]) -> None:
    """Models of the groups, or their plans."""
    some = answer_flaws(call, some, [request])
    call.note_labels(some, [request])
    groups = some.groups
    if not len(groups):
        return
    options, threads = request.options, call.batch.threads
    if options.threads is None and threads:
        options = replace(options, threads=threads)
        request = replace(request, options=options)
    refuse_weights(groups, request)
    if call.explains:
        call.emit_texts(some.places, explain_apart(call, groups, request))
        return
    refuse_format(options)
    if options.time is not None:
        shares.note_deadline(time.monotonic() + options.time)
    last = replace(request, last=True)

    def of_some(few: Groups) -> Iterator[Models]:
        kept = histograms_of(few, last)
        for models in train_groups(call, few, last):
            yield with_histograms(with_feature_names(models, few, options.feature_names), kept)

    for models in train_apart(groups, last, of_some):
        call.emit_models(some.places, models)


def explain_apart(call: Call, groups: Groups, request: Request[Any, Any]) -> Iterator[str]:
    """Yields an explanation of each group, or the reason why its rows cannot be trained on."""
    try:
        yield from list(explain_groups(call, groups, request))
    except RowsError as error:
        if request.options.invalid == "error":
            raise
        if len(groups) == 1:
            yield str(error)
            return
        for half in np.array_split(groups, 2):
            yield from explain_apart(call, half, request)


def explain_groups(call: Call, groups: Groups, request: Request[Any, Any]) -> Iterator[str]:
    """Yields an explanation of each group."""
    memory = call.memory
    with (
        narrow(groups, memory) as (few, _),
        readable(few, request, memory) as seen,
        usable(seen.groups, seen.request, memory) as sound,
    ):
        yield from learner_of(request.task).explain(sound, seen.request, memory)


def with_feature_names(
    models: Models,
    groups: Groups,
    names: tuple[str, ...] | None,
    prepared: bool = False,
) -> Models:
    """The models with the names of their features; prepared: whether rows had names.

    Raises DataError unless each feature has one; sparse rows of a group may lack the last ids.
    """
    if names is None:
        return models
    if (prepared or groups["parts"].any()) and models.features.pool:
        raise DataError(
            "option 'feature_names' is for features that are lists, and these rows have names"
        )
    sparse = groups["kind"][models.group] >= KINDS.index("sparse float32")
    fits = np.where(sparse, models.n_features <= len(names), models.n_features == len(names))
    if not fits.all():
        n = int(models.n_features[~fits][0])
        raise DataError(
            f"option 'feature_names' has {len(names)} names, and the rows have {n} features, "
            "expected a name for each"
        )
    return replace(models, features=Names.same(names, len(models.group)))


def answer_offline(call: Call, texts: Any, groups: Groups, places: Places) -> None:
    """Answers the aggregates of stored models' offline stage, for the groups of one spec."""
    from tuskml.groups import partition  # its packages take a while to import

    batch = call.batch
    asked = partition.Call(
        texts.options.decode(), batch.memory, batch.threads, call.root, call.account
    )
    answers = partition.OFFLINE[batch.request](groups, asked)
    for place, one in zip(places, answers, strict=True):
        one.emit(call.library, call.pointer, int(place))


def train_groups(call: Call, groups: Groups, request: Request[Any, Any]) -> Iterator[Models]:
    """Models as values, or where they are larger than memory in a store."""
    memory = call.memory
    with (
        readable(groups, request, memory) as seen,
        usable(seen.groups, seen.request, memory) as sound,
    ):
        for found in train_on(call, sound, seen.request):
            models = with_leaks(with_held_out(found, sound, seen.request), sound)
            records.note(models, sound[models.group], call.batch.statement)
            yield seen.describe(models)


def train_on(call: Call, groups: Groups, request: Request[Any, Any]) -> Iterator[Models]:
    """Trains on rows that are numbers; a model of sparse rows may outgrow the memory."""
    learner, memory = learner_of(request.task), call.memory
    if request.options.store is not None:
        return train_into_store(call, groups, request)
    if (
        (groups["kind"] >= 2).any()
        and not by_extras(groups, request)
        and (
            large := requests_into_store(groups, learner, request, memory, call.root, call.account)
        )
    ):
        return apart(call, groups, request, large)
    return train_weighted(learner, groups, request, memory)


def by_extras(groups: Groups, request: Request[Any, Any]) -> bool:
    """Returns whether rows have weights, offsets or clusters, or a column says which are held
    out.
    """
    column = request.held_out is not None and request.held_out.column is not None
    return bool((groups["extras"] & (~0 if column else ~FOLDS)).any())


def train_into_store(call: Call, groups: Groups, request: Request[Any, Any]) -> Iterator[Models]:
    """Models that are in a store."""
    from tuskml.groups.stored import train_stored  # its packages take a while to import

    batch = call.batch
    return train_stored(groups, request, batch.memory, call.root, batch.statement, call.account)


def apart(
    call: Call,
    groups: Groups,
    request: Request[Any, Any],
    large: Mapping[int, Request[Any, Any]],
) -> Iterator[Models]:
    """Yields models of groups of which some train into a store; large: their requests, by
    index.
    """
    places = np.array([place for place in range(len(groups)) if place not in large], np.intp)
    if len(places):
        for models in train_weighted(
            learner_of(request.task), groups[places], request, call.memory
        ):
            yield models.renumber(places[models.group])
    for place, one in large.items():
        for models in train_into_store(call, groups[place : place + 1], one):
            yield models.renumber(np.array([place]))


# The options of a batch, as text, and weights of rows.

READ_BYTES, KEPT_BYTES = 72, 32
"""Bytes of a number: two objects and their slots in a list and a tuple; one object and its
slot.
"""
PAIR_BYTES = 320
"""Bytes of a name and its value: both, a tuple of them, and slots in a list and a dict."""


@contextmanager
def options_of(task: Task, text: bytes, memory: int) -> Iterator[Options]:
    """Parses the options; their memory is charged to the account of the training
    (`charged.charge_memory`) meanwhile.

    memory: address of that account. Raises MemoryError if it has no room for them; raises
    OptionError for invalid ones.
    """
    if len(text) <= MAX_TEXT:
        yield registry.options_of(task, text.decode())
        return
    look_at_limits(memory)
    what, mend = f"options of {len(text):,} characters", ", or start from a model in a store"
    held = reserve_bytes(bytes_to_read(text), what, mend)
    options = registry.options_of(task, text.decode())
    kept = len(options.warm_start.coef) if options.warm_start is not None else 0
    del held
    held = reserve_bytes(len(text) + kept * KEPT_BYTES, what, mend)
    yield options
    del held


def bytes_to_read(text: bytes) -> int:
    """An upper bound of the bytes for reading a text, its copies in C and Python included."""
    copies = 3 if text.isascii() else 9
    return copies * len(text) + text.count(b",") * READ_BYTES + text.count(b":") * PAIR_BYTES


def reserve_bytes(size: int, what: str, mend: str = "") -> NDArray[Any]:
    """Reserves `size` bytes to read something until it is freed; nothing is written to them.

    mend: what helps beside a higher limit, for the error.
    """
    try:
        return np.empty(size, np.uint8)
    except MemoryError:
        raise MemoryError(
            f"no memory to read {what}, which take about {size >> 20:,} MB: raise "
            f"memory_limit{mend}"
        ) from None


def refuse_weights(groups: NDArray[np.void], request: Request[Any, Any]) -> None:
    """Raises OptionError if rows have weights or offsets that their learner or a store cannot
    take.
    """
    if not groups["extras"].any():
        return
    if not learner_of(request.task).facts.weighs:
        raise OptionError(
            f"weight and offset are not available with task '{request.task.name}', expected "
            "(task, label, features [, options])"
        )
    if request.options.store is not None:
        raise OptionError("option 'store' is not available with weight, expected one of them")
