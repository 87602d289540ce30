"""Trainings of one group that send requests to its parts together.

Each member is a training in a thread of its own, such as a configuration of a search. The members'
requests travel in one message to each part, once all of them wait for answers. A member whose
model is at one part alone, as one that hops, is not waited for. The grouping of messages changes
no bit of an answer (`kernels/parts/together.py`).
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tuskml.groups.execution.executor import Unit
from tuskml.groups.execution.leading import Leaders
from tuskml.kernels.parts.together import bundle, unbundle

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
        """The answers by member."""
        by_pin: dict[str | None, tuple[Unit, dict[bytes, int]]] = {}
        for one in taken:
            for unit, message in zip(one.units, one.messages, strict=True):
                _, numbers = by_pin.setdefault(unit.pin, (unit, {}))
                numbers.setdefault(message, len(numbers))
        units = [unit for unit, _ in by_pin.values()]
        several = self.alone(units, [bundle([*numbers]) for _, numbers in by_pin.values()])
        found = {}
        for (pin, (_, numbers)), answer in zip(by_pin.items(), several, strict=True):
            each = unbundle(answer) or []
            for message, number in numbers.items():
                found[pin, message] = each[number]
        return [
            [
                found[unit.pin, message]
                for unit, message in zip(one.units, one.messages, strict=True)
            ]
            for one in taken
        ]
