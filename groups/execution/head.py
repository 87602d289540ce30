"""Tests whether the head of a Ray cluster still answers.

Ray waits a minute for a lost head, and then ends the process. So the driver tests it, and ends the
run before that.
"""

import socket
import time
from typing import Any

LOOK_SECONDS = 3.0
ANSWER_SECONDS = 2.0
FAILURES = 4
"""Consecutive failures after which the head is lost: some 10 s."""


class Head:
    """The process that knows all others of a cluster, by its address."""

    def __init__(self, ray: Any) -> None:
        self.address: str = getattr(ray.get_runtime_context(), "gcs_address", "")
        self.reached = self.answers()  # not so from outside its network
        self.failures, self.looked = 0, time.monotonic()

    @property
    def lost(self) -> bool:
        """Returns whether it was found to be lost."""
        return self.failures >= FAILURES

    def gone(self) -> bool:
        """Returns whether it has not answered for a while; looks now and then."""
        if self.reached and time.monotonic() > self.looked + LOOK_SECONDS:
            self.failures = 0 if self.answers() else self.failures + 1
            self.looked = time.monotonic()
        return self.lost

    def answers(self) -> bool:
        """Returns whether something listens at the address."""
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), ANSWER_SECONDS).close()
        except (OSError, ValueError):
            return False
        return True

    def sentence(self) -> str:
        """Says that it is gone."""
        return (
            f"the head of the Ray cluster at {self.address} does not answer any more: start it "
            "again, and train again; the groups that `finished` has are not trained twice"
        )
