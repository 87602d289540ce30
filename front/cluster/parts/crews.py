"""Workers that train one group together, and trainings of one group that share its parts.

In a crew, workers train step by step and connect by sockets of their own. First, units report the
available workers and the addresses on which they listen. Then each worker gets one unit, for as
long as the group is trained. If one of them is lost, all others end their units, and the remaining
ones start again: the numbers do not depend on the workers.

In joint requests, each member is a training in a thread of its own, such as a configuration of a
search. The members' requests travel in one message to each part, once all of them wait for
answers. A member whose model is at one part alone, as one that hops, is not waited for. The
grouping of messages changes no bit of an answer (`kernels/parts/together.py`).
"""

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tuskml.cluster.parts import part_rows
from tuskml.errors import ClusterError, Interrupted
from tuskml.groups.execution.executor import Unit, each_of, several
from tuskml.groups.execution.leading import Leaders
from tuskml.groups.execution.worker import share
from tuskml.kernels import passes
from tuskml.kernels.parts.together import bundle, unbundle
from tuskml.learners.registry import learner_of, task_named
from tuskml.schedule import budget
from tuskml.schedule.exchange.workers.crew import Member, Seat
from tuskml.schedule.exchange.workers.session import WorkerLost

Ask = Callable[[Sequence[Unit], Sequence[bytes]], list[bytes]]
"""Sends each part a message of its own, and returns their answers."""


def asking(leaders: Leaders) -> Ask:
    """A function that sends each message separately."""

    def ask(units: Sequence[Unit], messages: Sequence[bytes]) -> list[bytes]:
        pairs = zip(units, messages, strict=True)
        return leaders.ask([replace(one, payload=one.payload + more) for one, more in pairs])

    return ask


@dataclass
class Waiting:
    """A member's request, and its answers or an error."""

    units: Sequence[Unit]
    messages: Sequence[bytes]
    answers: list[bytes] | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.answers is not None or self.error is not None


@dataclass
class Together:
    """Members that send requests to the parts of one group; n: their number, each of which
    leaves at its end.
    """

    alone: Ask
    n: int
    waiting: list[Waiting] = field(default_factory=list)
    change: threading.Condition = field(default_factory=threading.Condition)

    def leave(self) -> None:
        """Removes a member that asks no more, or not with the others until it comes back."""
        self._counts(-1)

    def _counts(self, more: int) -> None:
        with self.change:
            self.n += more
            self.change.notify_all()

    def ask(self, units: Sequence[Unit], messages: Sequence[bytes]) -> list[bytes]:
        """The answers of the parts to a member."""
        if len(units) == 1:
            self.leave()
            try:
                return self.alone(units, messages)
            finally:
                self._counts(1)
        mine = Waiting(units, messages)
        with self.change:
            self.waiting.append(mine)
            self.change.notify_all()
            self.change.wait_for(lambda: mine.done or self._complete(mine))
            taken = [] if mine.done else self.waiting
            if taken:
                self.waiting = []
        if taken:
            self._exchange(taken)
        if mine.error is not None:
            raise mine.error
        assert mine.answers is not None
        return mine.answers

    def _complete(self, mine: Waiting) -> bool:
        """Returns whether all members wait, and no other thread handles their requests."""
        return len(self.waiting) >= self.n and any(one is mine for one in self.waiting)

    def _exchange(self, taken: Sequence[Waiting]) -> None:
        """Sends the requests of some members, equal messages once."""
        try:
            answers = self._answers(taken)
            error = None
        except BaseException as failure:
            answers, error = [], failure
        with self.change:
            for place, one in enumerate(taken):
                one.error = error
                one.answers = None if error else answers[place]
            self.change.notify_all()

    def _answers(self, taken: Sequence[Waiting]) -> list[list[bytes]]:
        """The answers by member. A message that is alone is not bundled, so that a worker adds its
        parts' answers to it.
        """
        by_pin: dict[str | None, tuple[Unit, dict[bytes, int]]] = {}
        for one in taken:
            for unit, message in zip(one.units, one.messages, strict=True):
                _, numbers = by_pin.setdefault(unit.pin, (unit, {}))
                numbers.setdefault(message, len(numbers))
        units = [unit for unit, _ in by_pin.values()]
        every = [[*numbers] for _, numbers in by_pin.values()]
        many = any(len(messages) > 1 for messages in every)
        several = self.alone(units, [bundle(one) if many else one[0] for one in every])
        found = {}
        for (pin, (_, numbers)), answer in zip(by_pin.items(), several, strict=True):
            each = (unbundle(answer) or []) if many else [answer]
            for message, number in numbers.items():
                found[pin, message] = each[number]
        return [
            [
                found[unit.pin, message]
                for unit, message in zip(one.units, one.messages, strict=True)
            ]
            for one in taken
        ]


SEAT = "tuskml.cluster.parts.crews:take_seat"
WORK = "tuskml.cluster.parts.crews:train_member"
ATTEMPTS = 3
"""Losses of workers after which the group is given up."""
DONE, LOST = b"+", b"-"
_seats: dict[str, Seat] = {}
"""Seats of this process by name, which starts with that of the run."""
_lock = threading.Lock()


@dataclass
class Crew:
    """The workers that train a group together. ask: sends units; parts: payloads that precede
    a message to each part of the rows; run: a unique name; n: the most workers; size: of the
    group, in rows; name: of the group; notes: messages for the user.
    """

    ask: Callable[[Sequence[Unit]], list[bytes]]
    parts: Callable[[], Sequence[bytes]]
    run: str
    n: int
    size: float
    name: str
    notes: list[str] = field(default_factory=list)

    def train(self, task: str, message: bytes, most: int) -> list[bytes]:
        """The answer of each worker. Raises ClusterError if workers are lost repeatedly."""
        why = ""
        for attempt in range(ATTEMPTS):
            seats = self.seat_workers(attempt, min(most, self.n))
            token = secrets.token_hex(16)
            addresses = [one["addresses"] for one in seats]
            units = []
            for rank, one in enumerate(seats):
                header = {
                    "seat": one["seat"],
                    "rank": rank,
                    "addresses": addresses,
                    "token": token,
                    "task": task,
                    "alone": one["alone"],
                }
                text = json.dumps(header).encode()
                payload = several([text, message, *self.parts()])
                units.append(self.unit(one["place"], payload, WORK))
            answers = self.ask(units)
            lost = [one[1:].decode() for one in answers if one[:1] == LOST]
            if not lost:
                return [one[1:] for one in answers]
            why = lost[0]
            self.notes.append("workers that trained a group together began again: one was lost")
        raise ClusterError(f"workers that train {self.name} together were lost: {why}")

    def seat_workers(self, attempt: int, most: int) -> list[dict[str, Any]]:
        """Returns the addresses of workers: a power of two of them, each a process or a thread
        of its own.
        """
        places = range(most)
        units = [
            self.unit(place, self.seat_named(attempt, place).encode(), SEAT) for place in places
        ]
        found, processes = [], set()
        for place, answer in zip(places, self.ask(units), strict=True):
            one = json.loads(answer)
            if one["alone"] and one["process"] in processes:
                continue
            processes.add(one["process"])
            found.append({"place": place, "seat": self.seat_named(attempt, place), **one})
        return found[: 1 << (len(found).bit_length() - 1)]

    def seat_named(self, attempt: int, place: int) -> str:
        """Also a pin: the same worker comes back to it."""
        return f"{self.run} {attempt} {place}"

    def unit(self, place: int, payload: bytes, work: str) -> Unit:
        """Returns the unit of one worker; a copy of it would have no partners to train with."""
        pin = f"{self.run} {place}"
        size = self.size / self.n
        return Unit(pin, size, payload, self.name, pin=pin, work=work, copied=False)


def take_seat(payload: bytes) -> bytes:
    """Takes a seat: which process this is, whether it has one unit at a time, and addresses."""
    name = payload.decode()
    run, attempt, _ = name.rsplit(" ", 2)
    leave(run, but=f"{run} {attempt} ")
    seat = Seat.take(share().addresses)
    with _lock:
        _seats[name] = seat
    found = {
        "process": f"{socket.gethostname()} {os.getpid()}",
        "alone": share().threads is not None,
        "addresses": seat.addresses,
    }
    return json.dumps(found).encode()


def leave(run: str, but: str = "-") -> None:
    """Closes the seats of a run in this process, except those whose names start with `but`."""
    with _lock:
        names = [one for one in _seats if one.startswith(run) and not one.startswith(but)]
        gone = [_seats.pop(one) for one in names]
    for seat in gone:
        seat.close()


def train_member(payload: bytes) -> bytes:
    """The worker's answer after DONE, or after LOST a sentence that says why others are gone."""
    text, message, *parts = each_of(payload)
    header = json.loads(text)
    mark = passes.cancel_mark()
    with _lock:
        seat = _seats.pop(header["seat"], None)
    member = Member(
        header["rank"],
        seat or Seat(()),
        header["addresses"],
        header["token"],
        partial(rows_of, parts),
        threads(header),
        lambda: passes.cancel_count() != mark,
    )
    if seat is None:
        member.leave()
        return LOST + b"a worker was replaced"
    try:
        learner = learner_of(task_named(header["task"]))
        return DONE + learner.crew.train(member, message)
    except (WorkerLost, ConnectionError, TimeoutError) as error:
        if member.ended():
            raise Interrupted("the training was interrupted") from error
        member.leave()
        return LOST + str(error).encode(errors="replace")
    except BaseException:
        member.leave()
        raise
    finally:
        seat.close()


def threads(header: Mapping[str, Any]) -> int:
    """Returns the number of threads for a worker: its own, or its share of this process's."""
    if header["alone"]:
        return share().threads or 1
    return max(1, budget.threads() // len(header["addresses"]))


def rows_of(parts: Sequence[bytes], place: int, message: bytes) -> bytes:
    """The answer of the part at an index. Rows that are new here are freed."""
    pin = part_rows.pin_of(parts[place])
    here = part_rows.holds(pin)
    try:
        return part_rows.run_unit(parts[place] + message)
    finally:
        if not here:
            part_rows.forget({pin})
