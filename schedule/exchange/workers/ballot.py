"""A worker's side of the two-phase commit of plans.

Source: K. Mahajan, PhD thesis, 2021, section 4.5. The optimizer asks all workers whether they can
follow a plan, and commits it only if all can. The thesis's workers switch in the iteration that
follows the commit. A commit may reach one worker sooner than another, or never. So here each
worker reports to all others in every iteration which plan it has, and all use the oldest of these
two iterations later. A worker that loses the optimizer has the plain order, and so all return to
it together.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from tuskml.schedule.exchange.plan import Plan, read
from tuskml.schedule.exchange.workers.windows import Workers

PLAIN_ORDER = 0
"""The version of the plan that needs no optimizer."""
LONGEST = 1 << 24
"""Longest line in bytes."""


def lines(one: socket.socket) -> Iterator[dict[str, Any]]:
    """Reads JSON objects from a connection, one per line, until it ends."""
    held = b""
    with suppress(OSError, ValueError):
        while len(held) < LONGEST:
            some = one.recv(1 << 16)
            if not some:
                return
            *whole, held = (held + some).split(b"\n")
            for line in whole:
                message = json.loads(line)
                if isinstance(message, dict):
                    yield message


def say(one: socket.socket, **what: Any) -> None:
    """Sends an object without waiting. Raises OSError if the other side does not read."""
    line = json.dumps(what).encode() + b"\n"
    if one.send(line, socket.MSG_DONTWAIT) < len(line):
        raise OSError("the connection takes no more")


class Ballot:
    """The plans of a worker.

    control: the connection to the optimizer, None without one; usable: returns the links that
    reach all workers.
    """

    def __init__(self, workers: Workers, control: socket.socket | None = None) -> None:
        self.workers, self.control = workers, control
        self.usable: Callable[[], list[int]] = lambda: list(range(workers.links))
        self.held: dict[int, Plan] = {}
        self.committed = PLAIN_ORDER
        self.lock = threading.Lock()
        if control is not None:
            control.settimeout(None)
            threading.Thread(target=self.listen, args=(control,), daemon=True).start()

    def listen(self, control: socket.socket) -> None:
        """Answers the optimizer until its connection ends, after which the plain order holds."""
        with suppress(OSError):
            for word in lines(control):
                if "prepare" in word:
                    self.prepare(control, word["prepare"])
                elif "commit" in word:
                    with self.lock:
                        if word["commit"] in self.held:
                            self.committed = word["commit"]
        self.reset()

    def prepare(self, control: socket.socket, text: Any) -> None:
        """Stores a plan that can be followed, and votes."""
        try:
            plan = read(text)
            fault = self.workers.fault(plan, self.usable())
        except (ValueError, KeyError, TypeError) as error:
            say(control, refused=str(error))
            return
        if fault is not None or plan.version <= PLAIN_ORDER:
            say(control, refused=fault or "its version is that of the plain order")
            return
        with self.lock:
            self.held[plan.version] = plan
        say(control, ready=plan.version)

    def reset(self) -> None:
        """Returns to the plain order until another plan is committed."""
        with self.lock:
            self.committed = PLAIN_ORDER

    def plan(self, version: int, plain: Plan) -> Plan:
        """Returns the plan of a version that all workers have, and drops older ones."""
        with self.lock:
            if version == PLAIN_ORDER:
                return plain
            self.held = {one: each for one, each in self.held.items() if one >= version}
            return self.held[version]

    def report(self, **what: Any) -> None:
        """Reports to the optimizer if it reads; an iteration never waits for it."""
        if self.control is None:
            return
        try:
            say(self.control, **what)
        except OSError:
            with suppress(OSError):
                self.control.shutdown(socket.SHUT_RDWR)
            self.control = None
            self.reset()

    def close(self) -> None:
        """Ends the connection to the optimizer."""
        if self.control is not None:
            with suppress(OSError):
                self.control.shutdown(socket.SHUT_RDWR)
            self.control.close()
