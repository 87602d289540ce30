"""The trainer's side of the contract with the databases' doors (`udas/rowblock/batch.h`)."""

import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.groups import file_rules, last_training
from tuskml.groups.explain import explain
from tuskml.groups.models import Lists, Models, Strings
from tuskml.groups.planning import Request
from tuskml.groups.receiving import receiver_of
from tuskml.groups.refusal import refuse
from tuskml.groups.trainer import train
from tuskml.udas import kernels
from tuskml.udas.kernels import GROUP, address_of
from tuskml.udas.options import parse_once, refuse_format
from tuskml.udas.tasks import task_named
from tuskml.udas.working import counted

TRAIN, EXPLAIN = 0, 1


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
        ("door", ctypes.c_void_p),
        ("error", ctypes.c_char * 1024),
        ("sqlstate", ctypes.c_char * 8),
        ("store_root", ctypes.c_char_p),
        ("statement", ctypes.c_int64),
        ("answered", ctypes.c_int32),
        ("began", ctypes.c_double),
    ]


class _Lists(ctypes.Structure):
    _fields_ = [("values", ctypes.c_void_p), ("offsets", ctypes.c_void_p)]


class _Strings(ctypes.Structure):
    _fields_ = [("pool", ctypes.POINTER(ctypes.c_char_p)), ("code", ctypes.c_void_p)]


class _Models(ctypes.Structure):
    _fields_ = [
        ("n", ctypes.c_int64),
        ("group", ctypes.c_void_p),
        ("task", _Strings),
        ("coef", _Lists),
        ("intercept", ctypes.c_void_p),
        ("std_err", _Lists),
        ("classes", _Lists),
        ("n_rows", ctypes.c_void_p),
        ("n_skipped", ctypes.c_void_p),
        ("n_features", ctypes.c_void_p),
        ("loss", ctypes.c_void_p),
        ("history", _Lists),
        ("iterations", ctypes.c_void_p),
        ("converged", ctypes.c_void_p),
        ("status", _Strings),
        ("plan", _Strings),
        ("seconds", ctypes.c_void_p),
        ("options", _Strings),
        ("store", _Strings),
    ]


BATCH = ctypes.POINTER(_Batch)
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, BATCH)
TYPES = {"converged": np.uint8} | dict.fromkeys(
    ("group", "n_rows", "n_skipped", "n_features", "iterations"), np.int64
)


class Emission:
    """A `Models` as the door reads it; keeps alive what the pointers point at."""

    def __init__(self, models: Models) -> None:
        self.alive: list[Any] = []
        self.struct = _Models(len(models.group))
        for name, *_ in _Models._fields_[1:]:
            setattr(self.struct, name, self._field(name, getattr(models, name)))

    def _field(self, name: str, value: Any) -> Any:
        if isinstance(value, Lists):
            return _Lists(
                self._array(value.values, np.float64), self._array(value.offsets, np.int64)
            )
        if isinstance(value, Strings):
            pool = encoded(value.pool)
            self.alive.append(pool)
            return _Strings(pool, self._array(value.code, np.int32))
        return self._array(value, TYPES.get(name, np.float64))

    def _array(self, values: NDArray[Any], dtype: Any) -> int:
        array = np.ascontiguousarray(values, dtype)
        self.alive.append(array)
        return address_of(array)


@functools.lru_cache(256)
def encoded(pool: tuple[str, ...]) -> Any:
    """Strings for C."""
    return (ctypes.c_char_p * max(1, len(pool)))(*(text.encode() for text in pool))


def groups_of(batch: Any) -> NDArray[np.void]:
    """A view of the batch's groups."""
    size = batch.n_groups * GROUP.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(batch.groups), GROUP)


def answer(library: ctypes.CDLL, pointer: Any) -> None:
    """Does what the batch asks for with each spec's groups, and hands the results to the door."""
    batch = pointer.contents
    groups = groups_of(batch)
    spec = np.ctypeslib.as_array(batch.spec, (batch.n_groups,))
    with counted(batch.memory or 0):
        for number in range(batch.n_specs):
            places = np.flatnonzero(spec == number)
            if batch.request in (TRAIN, EXPLAIN):
                answer_training(library, pointer, batch.specs[number], groups[places], places)
            else:
                answer_offline(library, pointer, batch.specs[number], groups[places], places)


def answer_training(
    library: ctypes.CDLL,
    pointer: Any,
    texts: Any,
    groups: NDArray[np.void],
    places: NDArray[np.intp],
) -> None:
    """Trains, or explains, the groups of one spec; places: theirs in the batch."""
    batch = pointer.contents
    task = texts.task.decode()
    receive = receiver_of(task) if batch.request == EXPLAIN else None
    if receive is not None:
        receive(groups, batch.memory)
        for place in places:
            library.tusk_emit_text(pointer, ctypes.c_int64(int(place)), b"received")
        return
    options = parse_once(texts.options.decode())
    if options.threads is None and batch.threads:
        options = replace(options, threads=batch.threads)
    reading = max(time.monotonic() - batch.began, 0.0) if batch.began else None
    request = Request(task_named(task), options, reading)
    if batch.request == TRAIN:
        refuse_format(options)
        for models in trained(groups, request, batch):
            emission = Emission(models.numbered(places[models.group]))
            library.tusk_emit_models(pointer, ctypes.byref(emission.struct))
    else:
        for place, text in zip(places, explain(groups, request, batch.memory or 0), strict=True):
            library.tusk_emit_text(pointer, ctypes.c_int64(int(place)), text.encode())


def answer_offline(
    library: ctypes.CDLL,
    pointer: Any,
    texts: Any,
    groups: NDArray[np.void],
    places: NDArray[np.intp],
) -> None:
    """The aggregates of stored models' offline stage, for the groups of one spec."""
    from tuskml.groups.partition import OFFLINE, Call  # its packages take a while to import

    batch = pointer.contents
    call = Call(texts.options.decode(), batch.memory, batch.threads)
    for place, one in zip(places, OFFLINE[batch.request](groups, call), strict=True):
        one.emit(library, pointer, int(place))


def trained(groups: NDArray[np.void], request: Request, batch: Any) -> Iterator[Models]:
    """Models as values, or where they are larger than memory in a store."""
    if request.options.store is None:
        found = train(groups, request, batch.memory)
    else:
        from tuskml.groups.stored import train_stored  # the store's room takes a while to import

        root = os.fsdecode(batch.store_root) if batch.store_root else None
        found = train_stored(groups, request, batch.memory, root, batch.statement)
    for models in found:
        last_training.note(models, groups[models.group], batch.statement)
        yield models


def trainer(library: ctypes.CDLL) -> Callable[..., int]:
    """The callback for a door's library."""

    library.tusk_batch_born.restype = ctypes.c_int64
    library.tusk_batch_account.restype = ctypes.c_int64

    def call(pointer: Any) -> int:
        try:
            account = library.tusk_batch_account(pointer)
            begun = kernels.begun_at(library.tusk_batch_born(pointer))
            with begun, file_rules.statement_of(account):
                answer(library, pointer)
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
_lock = threading.RLock()
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


def attach(library: ctypes.CDLL, path: str) -> None:
    """Gives the door's library the trainer, once a process."""
    with _lock:
        if path not in _attached:
            callback = trainer(library)
            library.tusk_set_trainer(callback)
            distribution = P_VALUES(p_values)
            library.tusk_set_p_values(distribution)
            native = kernels.library()
            library.tusk_set_interrupts(native.tk_cancel_count, native.tk_watch_sigint)
            _attached[path] = (library, callback, distribution)
