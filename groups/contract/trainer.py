"""The trainer's side of the contract with the databases (`udas/rowblock/batch.h`)."""

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, RowsError
from tuskml.groups import last_training, training_log
from tuskml.groups.contract.emission import Emission
from tuskml.groups.contract.refusal import refuse
from tuskml.groups.contract.requests import made_for, options_of, refuse_weights
from tuskml.groups.holding import with_held_out
from tuskml.groups.invalid import invalid_models, trained_apart, usable
from tuskml.groups.outgrown import outgrown
from tuskml.groups.preparation import readable
from tuskml.groups.selection.asked import ANY_TASK, Search, search_of
from tuskml.groups.selection.explaining import explained_search
from tuskml.groups.selection.searching import searched
from tuskml.groups.wide import narrow, refuse_wide
from tuskml.kernels import passes
from tuskml.kernels.charged import look_once
from tuskml.kernels.passes import GROUP, KINDS
from tuskml.kernels.working import counted
from tuskml.learners.classes import named_as_booleans
from tuskml.learners.learner import Request
from tuskml.learners.models import Models, Names
from tuskml.learners.options.table import MAX_TEXT, refuse_format
from tuskml.learners.receiving import compared_of, invalid, is_token, receiver_of
from tuskml.learners.registry import learner_of, of_classes, task_named
from tuskml.learners.statuses import with_leaks
from tuskml.schedule import budget, phases, shares
from tuskml.schedule.forks import held_in_forks

TRAIN, EXPLAIN = 0, 1
NUMBERS, BOOLEANS = 0, 1
"""What labels are: `tusk_labels`."""


class _Spec(ctypes.Structure):
    _fields_ = [("task", ctypes.c_char_p), ("options", ctypes.c_char_p)]


class _Batch(ctypes.Structure):
    _fields_ = [
        ("n_groups", ctypes.c_int64),
        ("groups", ctypes.c_void_p),
        ("spec", ctypes.POINTER(ctypes.c_int32)),
        ("specs", ctypes.POINTER(_Spec)),
        ("n_specs", ctypes.c_int32),
        ("request", ctypes.c_int32),
        ("threads", ctypes.c_int32),
        ("memory", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("error", ctypes.c_char * 1024),
        ("sqlstate", ctypes.c_char * 8),
        ("store_root", ctypes.c_char_p),
        ("statement", ctypes.c_int64),
        ("answered", ctypes.c_int32),
        ("began", ctypes.c_double),
        ("most_threads", ctypes.c_int32),
        ("unshared", ctypes.c_int32),
        ("weight", ctypes.c_double),
        ("program", ctypes.c_char_p),
        ("flaws", ctypes.POINTER(ctypes.c_char_p)),
        ("labels", ctypes.c_int32),
    ]


BATCH = ctypes.POINTER(_Batch)
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, BATCH)


def groups_of(batch: Any) -> NDArray[np.void]:
    """A view of the batch's groups."""
    if not batch.n_groups:
        return np.empty(0, GROUP)
    size = batch.n_groups * GROUP.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(batch.groups), GROUP)


def answer(library: ctypes.CDLL, pointer: Any, account: int | None = None) -> None:
    """Does what the batch asks for, spec by spec, and returns the results to the database.

    account: of the database whose statement it is, where that has rules for files.
    """
    batch = pointer.contents
    groups = groups_of(batch)
    spec = np.ctypeslib.as_array(batch.spec, (batch.n_groups,)) if len(groups) else np.empty(0)
    with counted(batch.memory or 0), budget.within(most_threads(batch)):
        for number in range(batch.n_specs):
            places, texts = np.flatnonzero(spec == number), batch.specs[number]
            if not len(places):
                check_spec(batch, texts)
            elif batch.request == TRAIN:
                with (
                    shares.training(texts.task, len(places), host_of(batch)),
                    training_log.training(batch, texts.task, len(places), reading_seconds(batch)),
                ):
                    answer_training(library, pointer, texts, groups[places], places, account)
            elif batch.request == EXPLAIN:
                answer_training(library, pointer, texts, groups[places], places, account)
            else:
                answer_offline(library, pointer, texts, groups[places], places, account)


def check_spec(batch: Any, texts: Any) -> None:
    """OptionError for a task and options of groups without a usable row that could train none."""
    task = texts.task.decode()
    if batch.request not in (TRAIN, EXPLAIN) or is_token(task):
        return
    task, _ = compared_of(task)
    if search_in(task, texts.options) is None:
        with options_of(task_named(task), texts.options, batch.memory or 0) as options:
            if batch.request == TRAIN:
                refuse_format(options)


def host_of(batch: Any) -> shares.Host:
    """Whose trainings those of the batch are."""
    return shares.Host(batch.program, not batch.unshared, batch.weight or None)


def most_threads(batch: Any) -> int:
    """What the database allows the statement, whose settings are read once; 0: it says nothing."""
    memory = batch.memory or 0
    look_once(memory, batch.statement)
    return batch.most_threads or budget.of_database(memory)


def flaws_of(batch: Any, places: NDArray[np.intp]) -> dict[int, str]:
    """Why no model can be trained on some of the groups at these places, by their number there."""
    told = ((k, batch.flaws[place]) for k, place in enumerate(places.tolist()))
    return {k: text.decode(errors="replace") for k, text in told if text is not None}


def answer_training(
    library: ctypes.CDLL,
    pointer: Any,
    texts: Any,
    groups: NDArray[np.void],
    places: NDArray[np.intp],
    account: int | None,
) -> None:
    """Trains, or explains, the groups of one spec; places: theirs in the batch."""
    batch = pointer.contents
    task = texts.task.decode()
    flaws = flaws_of(batch, places)
    source = None
    if " " in task:  # no task's name has one
        if answer_token(library, pointer, task, groups, places, flaws):
            return
        task, source = compared_of(task)
    text: bytes = texts.options
    if batch.labels != NUMBERS and len(text) <= MAX_TEXT:
        text = of_classes(task, text.decode(), batch.labels == BOOLEANS).encode()
    search = search_in(task, text)
    if search is not None and not search.plain:
        first = search.candidates[0]
        answer_flaws(library, pointer, Request(first.task, first.options), groups, places, flaws)
        groups, places = without(groups, flaws), without(places, flaws)
        if len(places):
            refuse_wide(groups, "a model that a search chooses")
            answer_search(library, pointer, search, groups, places)
        return
    if search is not None:
        (one,) = search.candidates
        request = Request(
            one.task, one.options, reading_seconds(batch), source=source, held_out=search.dealt
        )
        answer_sound(library, pointer, request, groups, places, account, flaws)
        return
    chosen = task_named(task)
    with options_of(chosen, text, batch.memory or 0) as options:
        request = Request(chosen, options, reading_seconds(batch), source=source)
        answer_sound(library, pointer, request, groups, places, account, flaws)


def answer_token(
    library: ctypes.CDLL,
    pointer: Any,
    task: str,
    groups: NDArray[np.void],
    places: NDArray[np.intp],
    flaws: Mapping[int, str],
) -> bool:
    """Hands rows to their receiver, or returns models that are finished; False for other texts."""
    batch = pointer.contents
    if batch.request == EXPLAIN and (receive := receiver_of(task)) is not None:
        refuse_wide(groups)
        said = invalid(task, flaws[0]) if flaws else receive(groups, batch.memory)
        emit_texts(library, pointer, places, [said] * len(places))
        return True
    if batch.request == TRAIN and (made := made_for(task, groups)) is not None:
        last_training.note(made, None, batch.statement)
        emit_models(library, pointer, places, made)
        return True
    return False


def answer_sound(
    library: ctypes.CDLL,
    pointer: Any,
    request: Request[Any, Any],
    groups: NDArray[np.void],
    places: NDArray[np.intp],
    account: int | None,
    flaws: Mapping[int, str],
) -> None:
    """Answers for groups with invalid rows first, and trains or explains the others."""
    answer_flaws(library, pointer, request, groups, places, flaws)
    groups, places = without(groups, flaws), without(places, flaws)
    if len(places):
        answer_request(library, pointer, request, groups, places, account)


def without(items: NDArray[Any], flaws: Mapping[int, str]) -> NDArray[Any]:
    """The items whose number has no flaw."""
    return np.delete(items, list(flaws)) if flaws else items


def answer_flaws(
    library: ctypes.CDLL,
    pointer: Any,
    request: Request[Any, Any],
    groups: NDArray[np.void],
    places: NDArray[np.intp],
    flaws: Mapping[int, str],
) -> None:
    """Answers for the groups whose rows the packers found invalid."""
    if not flaws:
        return
    bad, why = np.array(list(flaws)), list(flaws.values())
    if pointer.contents.request == EXPLAIN:
        emit_texts(library, pointer, places[bad], why)
        return
    models = invalid_models(groups[bad], request, why)
    last_training.note(models, groups[bad], pointer.contents.statement)
    emit_models(library, pointer, places[bad], models)


def search_in(task: str, options: bytes) -> Search | None:
    """The search that options ask for; those with a model in them ask for none."""
    if not options and task != ANY_TASK:
        return None
    return search_of(task, options.decode()) if len(options) <= MAX_TEXT else None


def answer_search(
    library: ctypes.CDLL,
    pointer: Any,
    search: Search,
    groups: NDArray[np.void],
    places: NDArray[np.intp],
) -> None:
    """The best models of the groups, or what would be tried for them."""
    batch = pointer.contents
    search = search.with_threads(batch.threads) if batch.threads else search
    for candidate in search.candidates:
        refuse_weights(groups, Request(candidate.task, candidate.options))
    if batch.request == EXPLAIN:
        said = explained_search(groups, search, batch.memory or 0)
        emit_texts(library, pointer, places, said)
        return
    first = search.candidates[0]

    def of_some(some: NDArray[np.void]) -> Iterator[Models]:
        for models in searched(some, search, batch.memory or 0, library):
            yield named(models, some, first.options.feature_names)

    for models in trained_apart(groups, Request(first.task, first.options), of_some):
        last_training.note(models, groups[models.group], batch.statement)
        emit_models(library, pointer, places, models)


def reading_seconds(batch: Any) -> float | None:
    """How long the rows took to come; None where the database does not tell."""
    return max(time.monotonic() - batch.began, 0.0) if batch.began else None


def answer_request(
    library: ctypes.CDLL,
    pointer: Any,
    request: Request[Any, Any],
    groups: NDArray[np.void],
    places: NDArray[np.intp],
    account: int | None,
) -> None:
    """The same, of options that were read."""
    batch, options = pointer.contents, request.options
    if options.threads is None and batch.threads:
        options = replace(options, threads=batch.threads)
        request = replace(request, options=options)
    refuse_weights(groups, request)
    if options.store is None and groups["wide"].any():
        refuse_wide(groups)
    if batch.request == TRAIN:
        refuse_format(options)
        last = replace(request, last=True)

        def of_some(some: NDArray[np.void]) -> Iterator[Models]:
            for models in trained(some, last, batch, account):
                yield named(models, some, options.feature_names)

        for models in trained_apart(groups, last, of_some):
            emit_models(library, pointer, places, models)
    else:
        emit_texts(library, pointer, places, explained_apart(groups, request, batch))


def emit_models(
    library: ctypes.CDLL, pointer: Any, places: NDArray[np.intp], models: Models
) -> None:
    """Returns models of the groups of one spec; places: these groups' in the batch."""
    shares.progress(len(models.group))
    training_log.note(models)
    if pointer.contents.labels == BOOLEANS:
        models = named_as_booleans(models)
    with phases.phase("emitting"):
        emission = Emission(models.numbered(places[models.group]))
        library.tusk_emit_models(pointer, ctypes.byref(emission.struct))


def emit_texts(
    library: ctypes.CDLL, pointer: Any, places: NDArray[np.intp], texts: Iterable[str]
) -> None:
    """Returns a text for each of these places in the batch."""
    for place, text in zip(places, texts, strict=True):
        library.tusk_emit_text(pointer, ctypes.c_int64(int(place)), text.encode())


def explained_apart(
    groups: NDArray[np.void], request: Request[Any, Any], batch: Any
) -> Iterator[str]:
    """What would run for each of the groups, or why its rows cannot be trained on."""
    try:
        yield from list(explained(groups, request, batch))
    except RowsError as error:
        if request.options.invalid == "error":
            raise
        if len(groups) == 1:
            yield str(error)
            return
        for half in np.array_split(groups, 2):
            yield from explained_apart(half, request, batch)


def explained(groups: NDArray[np.void], request: Request[Any, Any], batch: Any) -> Iterator[str]:
    """What would run for each of the groups."""
    memory = batch.memory or 0
    with (
        narrow(groups, memory) as (few, _),
        readable(few, request, memory) as seen,
        usable(seen.groups, seen.request, memory) as sound,
    ):
        yield from learner_of(request.task).explain(sound, seen.request, memory)


def named(
    models: Models,
    groups: NDArray[np.void],
    names: tuple[str, ...] | None,
    prepared: bool = False,
) -> Models:
    """The models with the names of their features; prepared: whether rows had names.

    DataError unless each feature has one; sparse rows of a group may lack the last ids.
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


def answer_offline(
    library: ctypes.CDLL,
    pointer: Any,
    texts: Any,
    groups: NDArray[np.void],
    places: NDArray[np.intp],
    account: int | None,
) -> None:
    """The aggregates of stored models' offline stage, for the groups of one spec."""
    from tuskml.groups.partition import OFFLINE, Call  # its packages take a while to import

    batch = pointer.contents
    root = os.fsdecode(batch.store_root) if batch.store_root else None
    call = Call(texts.options.decode(), batch.memory, batch.threads, root, account)
    for place, one in zip(places, OFFLINE[batch.request](groups, call), strict=True):
        one.emit(library, pointer, int(place))


def trained(
    groups: NDArray[np.void], request: Request[Any, Any], batch: Any, account: int | None
) -> Iterator[Models]:
    """Models as values, or where they are larger than memory in a store."""
    memory = batch.memory or 0
    with (
        readable(groups, request, memory) as seen,
        usable(seen.groups, seen.request, memory) as sound,
    ):
        for found in trained_on(sound, seen.request, batch, account):
            models = with_leaks(with_held_out(found, sound, seen.request), sound)
            last_training.note(models, sound[models.group], batch.statement)
            yield seen.described(models)


def trained_on(
    groups: NDArray[np.void], request: Request[Any, Any], batch: Any, account: int | None
) -> Iterator[Models]:
    """The same of rows that are numbers; a model of sparse rows may outgrow the memory."""
    learner, memory = learner_of(request.task), batch.memory or 0
    if request.options.store is not None:
        return stored(groups, request, batch, account)
    if (
        (groups["kind"] >= 2).any()
        and not groups["extras"].any()
        and (large := outgrown(groups, learner, request, memory, root_of(batch), account))
    ):
        return apart(groups, request, batch, account, large)
    return learner.train(groups, request, memory)


def root_of(batch: Any) -> str | None:
    """The directory of all stores, if the database says where."""
    return os.fsdecode(batch.store_root) if batch.store_root else None


def stored(
    groups: NDArray[np.void], request: Request[Any, Any], batch: Any, account: int | None
) -> Iterator[Models]:
    """Models that are in a store."""
    from tuskml.groups.stored import train_stored  # its packages take a while to import

    given = batch.memory, root_of(batch), batch.statement, account
    return train_stored(groups, request, *given)


def apart(
    groups: NDArray[np.void],
    request: Request[Any, Any],
    batch: Any,
    account: int | None,
    large: Mapping[int, Request[Any, Any]],
) -> Iterator[Models]:
    """Models of groups of which some train into a store; large: their requests, by place."""
    places = np.array([place for place in range(len(groups)) if place not in large], np.intp)
    if len(places):
        for models in learner_of(request.task).train(groups[places], request, batch.memory):
            yield models.numbered(places[models.group])
    for place, one in large.items():
        for models in stored(groups[place : place + 1], one, batch, account):
            yield models.numbered(np.array([place]))


def trainer(library: ctypes.CDLL) -> Callable[..., int]:
    """The callback for a database's library."""
    library.tusk_batch_born.restype = ctypes.c_int64
    library.tusk_batch_account.restype = ctypes.c_int64

    def call(pointer: Any) -> int:
        try:
            account = library.tusk_batch_account(pointer)
            begun = passes.begun_at(library.tusk_batch_born(pointer))
            with begun:
                answer(library, pointer, account)
            pointer.contents.answered = 1
        except BaseException as error:
            refuse(pointer.contents, error)
        return 0

    return CALLBACK(call)


P_VALUES = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, *[ctypes.POINTER(ctypes.c_double)] * 3,
    ctypes.POINTER(ctypes.c_int32),
)  # fmt: skip


def p_values(n: int, statistic: Any, freedom: Any, p: Any, answered: Any) -> int:
    """Two-sided p-values of Student's t; infinite freedom is the normal distribution.

    answered: set to 1 at the end, whatever happens on the way.
    """
    try:
        from scipy.special import stdtr  # slow to import, seldom needed

        t, df, out = (np.ctypeslib.as_array(pointer, (n,)) for pointer in (statistic, freedom, p))
        with np.errstate(invalid="ignore"):
            out[:] = 2 * stdtr(df, -np.abs(t))
        answered[0] = 1
    except BaseException:
        return 1
    return 0


_attached: dict[str, Any] = {}
_lock = held_in_forks(threading.RLock())


def library() -> ctypes.CDLL:
    """A database's library that this process has loaded."""
    with _lock:
        found: ctypes.CDLL = next(iter(_attached.values()))[0]
        return found


def attach(library: ctypes.CDLL, path: str) -> None:
    """Gives the database's library the trainer, once a process."""
    training_log.to_standard_error()
    training_log.follow_environment()
    with _lock:
        if path not in _attached:
            callback = trainer(library)
            library.tusk_set_trainer(callback)
            distribution = P_VALUES(p_values)
            library.tusk_set_p_values(distribution)
            native = passes.library()
            library.tusk_set_interrupts(
                native.tk_cancel_count, native.tk_watch_sigint, native.tk_cancel
            )
            _attached[path] = (library, callback, distribution)
