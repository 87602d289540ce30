"""The process of a Ray cluster with its arbiter. It takes and returns text alone.

It is a detached actor with a name, so the first run of a cluster starts it, all others find it,
and it outlives them. It uses none of the cluster's CPUs. Its state is in memory: when it dies, the
next request starts another one, which learns from all runs what they hold.
"""

import json
import os
import time
from dataclasses import asdict
from typing import Any

from tuskml.errors import ClusterError
from tuskml.schedule.fair.agent import Table
from tuskml.schedule.fair.arbiter import Arbiter, Rules

SETTING = "TUSKML_CLUSTER_LEASE"
NAME, SPACE = "tuskml arbiter", "tuskml"
NODES_SECONDS = 1.0
"""Seconds for which the list of nodes is cached."""


def lease_seconds() -> float | None:
    """Returns the seconds of a lease, from the setting; None where workers are not leased."""
    text = os.environ.get(SETTING, "")
    try:
        seconds = float(text) if text else None
    except ValueError:
        seconds = -1.0
    if seconds is not None and not 0 < seconds < float("inf"):
        raise ClusterError(f"{SETTING} is {text!r}, expected seconds of a lease, such as 600")
    return seconds


def rules_for(lease: float) -> Rules:
    """Bids are waited for a tenth of a lease, and at most 2 seconds."""
    return Rules(lease=lease, answer=min(2.0, lease / 10), silent=max(10.0, lease))


class ArbiterActor:
    """rules: of `Rules`, as JSON."""

    def __init__(self, rules: str) -> None:
        self.seen: tuple[float, dict[str, int]] | None = None
        self.arbiter = Arbiter(Rules(**json.loads(rules)), time.monotonic, self.nodes)

    def nodes(self) -> dict[str, int]:
        """CPUs of each node that lives."""
        import ray

        now = time.monotonic()
        if self.seen is None or now > self.seen[0] + NODES_SECONDS:
            found = {
                node["NodeID"]: int(node["Resources"].get("CPU", 0))
                for node in ray.nodes()  # type: ignore[no-untyped-call]
                if node["Alive"]
            }
            self.seen = now, found
        return self.seen[1]

    def ask(self, question: str) -> str:
        """`Arbiter.ask` with these arguments."""
        return json.dumps(asdict(self.arbiter.ask(**json.loads(question))))

    def bid(self, app: str, number: int, table: str) -> bool:
        """`Arbiter.bid`."""
        return self.arbiter.bid(app, number, Table(**json.loads(table)))

    def leave(self, app: str) -> None:
        """Calls `Arbiter.leave`."""
        self.arbiter.leave(app)

    def state(self) -> str:
        """The leases of each app, the rounds so far, and missing bids, for a person."""
        held = self.arbiter.leases.held
        found = {"held": held, "rounds": self.arbiter.rounds, "pid": os.getpid()}
        return json.dumps(found | {"unanswered": self.arbiter.unanswered})


def found_or_started(ray: Any, rules: Rules) -> Any:
    """The cluster's arbiter; the first to ask decides the rules."""
    actor = ray.remote(ArbiterActor).options(
        name=NAME, namespace=SPACE, lifetime="detached", num_cpus=0, get_if_exists=True
    )
    return actor.remote(json.dumps(asdict(rules)))
