"""Runs a program of scheduled updates on an executor."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tuskml.errors import OptionError
from tuskml.groups.execution.choosing import checked_place
from tuskml.schedule.programs.dynamic import Dynamic
from tuskml.schedule.programs.program import Finished, Program
from tuskml.schedule.programs.static import Static
from tuskml.schedule.programs.threads import threads
from tuskml.schedule.programs.workers import Workers

MOST_WORKERS = 1024


def run_program(
    program: Program,
    A: Any,
    D: Sequence[Any] | Callable[[int], Any],
    engine: Static | Dynamic,
    executor: str = "threads",
    workers: int | None = None,
) -> Finished:
    """Runs `schedule`, `update` and `aggregate` of a program in turn, and returns the last model.

    A: the model to begin with. D: the data, one element per worker, which gets it once and keeps
    it; or a function that makes it of a worker's number and runs there, with `workers` of them.
    `schedule` gets D as it is given here. engine: `tuskml.schedule.Static`, whose blocks rotate,
    or `Dynamic`, whose jobs are chosen by the model. executor: "threads", "ray", or the address of
    a Ray cluster such as "10.0.0.1:6379".

    Raises OptionError for arguments that do not fit, OperatorError where `schedule` returns no
    jobs or another number than the engine takes, ClusterError where a worker is lost, Interrupted
    after `tuskml.cancel()`, and what the functions of the program raise.
    """
    if not isinstance(engine, (Static, Dynamic)):
        raise OptionError(
            f"engine is {engine!r}, expected Static(rotations) or Dynamic(iterations) of "
            "tuskml.schedule"
        )
    _check_counts(engine)
    parts = _parts(D, workers)
    with _workers(program, parts, checked_place(executor)) as started:
        return engine.run(program, A, D, started)


def _workers(
    program: Program, parts: Sequence[Any], place: str
) -> AbstractContextManager[Workers]:
    if place == "threads":
        return threads(program, parts)
    from tuskml.groups.programs.ray_workers import ray_workers

    return ray_workers(program, parts, None if place == "ray" else place)


def _check_counts(engine: Static | Dynamic) -> None:
    for name in ("rotations", "iterations", "depth"):
        value = getattr(engine, name, 1)
        if type(value) is not int or value < 1:
            raise OptionError(f"{name} is {value!r}, expected an integer of at least 1")


def _parts(D: Any, workers: int | None) -> list[Any]:
    """Returns each worker's data, or the function that makes it."""
    count = workers
    if not callable(D):
        try:
            count = len(D)
        except TypeError:
            raise OptionError(
                f"D is of type {type(D).__name__}, expected a list with the data of each worker, "
                "or a function that makes it of a worker's number"
            ) from None
        if workers not in (None, count):
            raise OptionError(f"workers is {workers}, but D has {count} parts: give one of them")
    if count is None:
        raise OptionError("D is a function, but workers is not given, expected how many there are")
    if type(count) is not int or not 1 <= count <= MOST_WORKERS:
        raise OptionError(f"there are {count!r} workers, expected 1 to {MOST_WORKERS:,}")
    return [D] * count if callable(D) else list(D)
