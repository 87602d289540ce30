"""A run's conversation with the arbiter, which never makes the run wait.

It asks several times a second, and bids when it receives an offer. Whatever happens to the
arbiter, the run continues with the workers that it has.
"""

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from tuskml.groups.execution.leases.actor import found_or_started
from tuskml.schedule.fair.agent import table_of
from tuskml.schedule.fair.arbiter import Rules
from tuskml.schedule.fair.leases import Workers
from tuskml.schedule.fair.valuation import App, Slowdowns, ideal_seconds

ASK_SECONDS = 0.25
PATIENCE_SECONDS, START_SECONDS = 10.0, 60.0
"""Seconds to wait for an answer, after which the arbiter is ended as stopped; and for the
first answer.
"""


class Tenant:
    """held: workers by node that the run has a lease of; answered: when the arbiter last did."""

    def __init__(
        self,
        ray: Any,
        rules: Rules,
        app: Callable[[], App],
        slowdowns: Callable[[], Slowdowns],
        measured: Callable[[], bool],
    ) -> None:
        self.ray, self.rules = ray, rules
        self.app, self.slowdowns, self.measured = app, slowdowns, measured
        self.name = secrets.token_hex(8)
        self.began = self.answered = time.monotonic()
        self.held: Workers = {}
        self.arbiter: Any = None
        self.has_answered = False
        self.waiting: Any = None
        self.asked = 0.0
        self.restarts = -1
        """The number of restarts of the arbiter."""

    def look(self) -> None:
        """Asks if it is time, and takes an answer that has come."""
        now = time.monotonic()
        if self.waiting is None:
            if now >= self.asked + ASK_SECONDS:
                self.ask(now)
            return
        ready, _ = self.ray.wait([self.waiting], num_returns=1, timeout=0)
        if ready:
            self.take(now)
        elif now > self.asked + (PATIENCE_SECONDS if self.has_answered else START_SECONDS):
            self.give_up(kill=True)

    def ask(self, now: float) -> None:
        """Reports what the run holds, and whether it may bid."""
        app, self.asked = self.app(), now
        question = {
            "app": self.name,
            "demand": app.demand,
            "work": app.work if self.measured() else None,
            "holds": self.held,
            "age": now - self.began,
        }
        try:
            if self.arbiter is None:
                self.restarts += 1
                self.arbiter = found_or_started(self.ray, self.rules)
            self.waiting = self.arbiter.ask.remote(json.dumps(question))
        except (self.ray.exceptions.RayError, ValueError):
            self.give_up()

    def take(self, now: float) -> None:
        """Receives an answer, and bids for its offer."""
        try:
            said = json.loads(self.ray.get(self.waiting))
        except self.ray.exceptions.RayError:
            self.give_up()
            return
        self.waiting, self.answered, self.has_answered = None, now, True
        self.held = said["held"]
        if said["offer"]:
            self.bid(said)

    def bid(self, said: dict[str, Any]) -> None:
        """Bids a table for the offer; whether it came in time does not matter to the run."""
        app = self.app()
        ideal = ideal_seconds(app.work, said["share"], max(app.most_ever, 1), 1.0)
        table = table_of(
            app, self.slowdowns(), said["elapsed"], ideal, said["offer"], said["beside"]
        )
        self.arbiter.bid.remote(self.name, said["round"], json.dumps(asdict(table)))
        self.asked = 0.0  # the round may be over at once

    def give_up(self, kill: bool = False) -> None:
        """Gives up an arbiter that is gone: the next question goes to another one."""
        if kill:
            self.ray.kill(self.arbiter)
        self.arbiter, self.waiting, self.has_answered = None, None, False

    def leave(self) -> None:
        """Reports that the run has ended. An arbiter that does not hear of it forgets the run."""
        if self.arbiter is not None:
            self.arbiter.leave.remote(self.name)
