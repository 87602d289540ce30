"""The interface of executors, the choice of one by arguments, and units in threads."""

import contextvars
import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, Protocol

from tuskml.errors import Interrupted, OptionError, nearest
from tuskml.groups.execution import leading
from tuskml.groups.execution.executor import (
    Outcome,
    Tally,
    Unit,
    attempt,
    bundle,
    check_timeout,
    encode_outcome,
    import_package,
    largest_first,
    note_work,
    outcomes_of,
)
from tuskml.groups.execution.leading import Leaders, Pins, Ran
from tuskml.kernels.library import cancel, cancel_mark, raise_if_cancelled, watching_sigint
from tuskml.schedule import budget

if TYPE_CHECKING:
    from tuskml.groups.execution.leading import Leaders


LOOK_SECONDS = 0.2


class Threads:
    """One thread for each processor that this process may use."""

    remote = False

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.workers, self.tally = budget.threads(), Tally()

    def run(
        self, work: str, units: Sequence[Unit], leaders: Leaders | None = None
    ) -> Iterator[Outcome]:
        run = Run(work, units, leaders or leading.none(), self.tally)
        try:
            with watching_sigint():
                yield from run.outcomes()
        except (Interrupted, KeyboardInterrupt):
            run.cancelled = True
            raise
        finally:
            run.stop()


class Run:
    """One run: the remaining units, those that leaders request, which come first, and those
    that threads run.
    """

    def __init__(self, work: str, units: Sequence[Unit], leaders: Leaders, tally: Tally) -> None:
        self.n = budget.threads()
        self.pool = ThreadPoolExecutor(self.n, thread_name_prefix="tuskml unit")
        self.work, self.leaders, self.tally = work, leaders, tally
        self.left = deque(largest_first(units))
        self.pins = Pins(leaders.place, self.n)
        self.idle = set(range(self.n))
        self.running: dict[Future[bytes], tuple[int, Unit]] = {}
        self.cancelled = False

    def outcomes(self) -> Iterator[Outcome]:
        """Yields the outcomes of all units and leaders. Raises Interrupted."""
        mark = cancel_mark()
        self.leaders.begin()
        while self.left or self.running or self.pins.waiting or self.leaders.working:
            self.hand_out()
            self.leaders.wait(LOOK_SECONDS, self.some_done)
            raise_if_cancelled(mark)
            for future in [one for one in self.running if one.done()]:
                yield from self.take(future)
            yield from self.leaders.outcomes()

    def hand_out(self) -> None:
        """Gives each idle thread a unit, as workers of a cluster get theirs."""
        self.pins.add(self.leaders.take_requested())
        for thread in sorted(self.idle):
            unit = self.pins.take(thread, more_start=False)
            if unit is not None:
                unit = bundle([unit, *self.pins.beside(thread, unit)])
            elif self.left:
                unit = self.left.popleft()
            else:
                continue
            self.idle.remove(thread)
            context = contextvars.copy_context()
            future = self.pool.submit(context.run, run_attempt, self.work, unit, thread)
            self.running[future] = thread, unit
            future.add_done_callback(lambda _: self.leaders.wake())

    def take(self, future: "Future[bytes]") -> Iterator[Outcome]:
        """Yields the outcome of a caller's unit; a leader gets those of its own."""
        thread, unit = self.running.pop(future)
        self.idle.add(thread)
        answer = future.result()
        self.tally.note(str(thread), unit, answer)
        for outcome in outcomes_of(unit, answer):
            if unit.pin is None:
                yield outcome
            else:
                self.leaders.settle(outcome)

    def some_done(self) -> bool:
        """Returns whether a thread is free again."""
        return any(one.done() for one in self.running)

    def stop(self) -> None:
        """Ends the leaders, and waits for the threads' units."""
        self.leaders.close()
        self.pool.shutdown(wait=False, cancel_futures=True)
        while self.cancelled and not all(one.done() for one in self.running):
            cancel()  # a unit that began meanwhile has not seen the first one
            wait(self.running, LOOK_SECONDS)
        self.pool.shutdown(wait=True)


def run_attempt(work: str, unit: Unit, thread: int) -> bytes:
    """Runs a unit and returns its answer, as a worker of a cluster does."""
    begin = time.monotonic()
    with note_work(unit, "this process"):
        answer = encode_outcome(attempt(work, unit))
    if unit.pin is not None:
        leading.note(Ran(f"thread {thread}", unit, begin, time.monotonic()))
    return answer


ADDRESS = re.compile(r"(ray://)?[^\s:/']+:\d+")
NAMES = ("ray", "threads")


class Executor(Protocol):
    """Runs units.

    notes: one sentence about each event that did not change the outcomes, such as a lost worker.
    remote: whether units run in other processes, whose events are not seen here. workers: their
    number, 0 before the first run. tally: what they ran.
    """

    notes: list[str]
    tally: Tally
    remote: bool
    workers: int

    def run(
        self, work: str, units: Sequence[Unit], leaders: "Leaders | None" = None
    ) -> Iterator[Outcome]:
        """The outcomes in the order in which units finish, the largest units first.

        work: `module:function` of tuskml, which takes a payload and returns an answer; leaders:
        trainings that request units of their own, whose outcomes are yielded too. A failed unit is
        an outcome; ClusterError is raised if nothing can run, and Interrupted after
        `tuskml.cancel()`.
        """


def executor_of(given: object, worker_timeout: object = None) -> Executor:
    """Returns the executor of the argument `executor`: "ray", "threads", or the address of a Ray
    cluster.

    worker_timeout: seconds after which a worker's task is given to another one. Raises OptionError
    for anything else. Ray is imported here and nowhere before.
    """
    most_seconds = check_timeout(worker_timeout)
    if given is None:
        name = "finished" if most_seconds is None else "worker_timeout"
        raise OptionError(
            f"{name} is given without executor, expected executor too, such as 'ray'"
        )
    place = check_place(given)
    if place == "threads":
        if most_seconds is not None:
            raise OptionError(
                "worker_timeout is given with executor='threads', expected 'ray' or an address: a "
                "thread of this process cannot be given up"
            )

        import_package("pyarrow", "threads", "pip install pyarrow")
        return Threads()
    from tuskml.groups.execution.ray_executor import RayCluster

    return RayCluster(None if place == "ray" else place, most_seconds)


def workers_of(given: object) -> int:
    """Returns the number of workers of the argument `executor`, which may start Ray."""
    place = check_place(given)
    if place == "threads":
        return budget.threads()
    from tuskml.groups.execution import ray_session

    with ray_session.connect(None if place == "ray" else place) as ray:
        return ray_session.processors(ray)


def place_given(executor: str | None, options: dict[str, Any]) -> str | None:
    """Returns where groups are trained: the argument `executor`, or `cluster`, which is taken out.

    A column of that name makes clusters of rows, and stays an option. Raises OptionError for both.
    """
    if not is_place(options.get("cluster")):
        return executor
    return either(executor, options.pop("cluster"))


def place_of(executor: str | None, cluster: str | None) -> str | None:
    """Returns the place that the arguments of `connect` name. Raises OptionError if both are
    given.
    """
    given = either(executor, cluster)
    return None if given is None else check_place(given)


def either(executor: str | None, cluster: str | None) -> str | None:
    """The one of the two that is not None. Raises OptionError for both."""
    if executor is not None and cluster is not None:
        raise OptionError(
            f"executor is {executor!r} and cluster is {cluster!r}, expected one of the two: both "
            "say where groups are trained"
        )
    return executor if cluster is None else cluster


def is_place(given: object) -> bool:
    """Returns whether it is a name of an executor or an address."""
    return isinstance(given, str) and bool(given in NAMES or ADDRESS.fullmatch(given))


def check_place(given: object) -> str:
    """The argument `executor`, if it is a name or an address. Raises OptionError."""
    if isinstance(given, str) and is_place(given):
        return given
    near = nearest(given, NAMES) if isinstance(given, str) else ""
    raise OptionError(
        f"executor is {given!r}, expected 'ray', 'threads' or the address of a Ray cluster such "
        f"as '10.0.0.1:6379'{near}"
    )
