"""Leases of a Ray cluster's workers: the arbiter's process, and runs whose workers change.

The arbiter's process is a detached actor with a name, so the first run of a cluster starts it, all
others find it, and it outlives them. It takes and returns text alone, and uses none of the
cluster's CPUs. Its state is in memory: when it dies, the next request starts another one, which
learns from all runs what they hold.

A run's conversation with the arbiter never makes the run wait. It asks several times a second, and
bids when it receives an offer. Whatever happens to the arbiter, the run continues with the workers
that it has.

A worker whose lease has ended finishes its unit and leaves; units are the checkpoints of trainings
by group. One that is not done two leases later is ended, and its unit restarts elsewhere.
"""

import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tuskml.errors import ClusterError, OptionError
from tuskml.groups.execution import ray_session
from tuskml.groups.execution.executor import Outcome, Unit
from tuskml.groups.execution.leading import Leaders
from tuskml.groups.execution.ray_cluster import ACTOR, Caller, Run, Task
from tuskml.groups.execution.worker import Worker
from tuskml.learners.options.kinds import TIME
from tuskml.schedule.fair.arbiter import Arbiter, Rules
from tuskml.schedule.fair.auction import App, Phase, Slowdowns, ideal_seconds
from tuskml.schedule.fair.leases import Profile, Table, Workers, table_of

SETTING = "TUSKML_CLUSTER_LEASE"
NAME, SPACE = "tuskml arbiter", "tuskml"
NODES_SECONDS = 1.0
"""Seconds for which the list of nodes is cached."""


_of_clusters: dict[str, float] = {}
"""Seconds of leases that the program has chosen, by the place of the cluster."""


def choose_lease(place: str | None, lease: object) -> None:
    """Gives trainings of this process on a cluster leases of its workers from now on.

    place: "ray" or an address; lease: a duration such as "10m". Raises OptionError.
    """
    if place is None or place == "threads":
        raise OptionError(
            f"lease is {lease!r} without a cluster, expected cluster='ray' or an address too: "
            "trainings lease the workers of a cluster"
        )
    try:
        _of_clusters[place] = TIME.parse(lease)
    except ValueError:
        raise OptionError(f"lease is {lease!r}, expected {TIME.allowed}") from None


def lease_seconds(place: str = "ray") -> float | None:
    """Returns the seconds of a lease on a cluster, which the program has chosen, or from the
    setting; None where workers are not leased.
    """
    if place in _of_clusters:
        return _of_clusters[place]
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


def find_or_start(ray: Any, rules: Rules) -> Any:
    """The cluster's arbiter; the first to ask decides the rules."""
    actor = ray.remote(ArbiterActor).options(
        name=NAME, namespace=SPACE, lifetime="detached", num_cpus=0, get_if_exists=True
    )
    return actor.remote(json.dumps(asdict(rules)))


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
                self.arbiter = find_or_start(self.ray, self.rules)
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


GUESSED_PACE = 1e-5
"""Seconds of a row, before the first unit has ended."""
LED_UNITS = 20
"""Sums that a leader is taken to ask for still, of each of its shards."""
GRACE_LEASES = 2


class LeasedRun(Run):
    """lease: seconds."""

    def __init__(
        self,
        ray: Any,
        work: str,
        units: Sequence[Unit],
        caller: Caller,
        leaders: Leaders,
        lease: float,
    ) -> None:
        super().__init__(ray, work, units, caller, leaders)
        self.lease, self.profile = lease, Profile()
        self.nodes: dict[Any, str] = {}
        """The node of each worker."""
        self.due: dict[Any, float] = {}
        """Since when workers at work have no lease."""
        self.rows = sum(unit.size for unit in units)
        self.tenant = Tenant(
            ray, rules_for(lease), self.app, self.profile.slowdowns, self.is_measured
        )

    def is_measured(self) -> bool:
        """Returns whether a unit has ended."""
        return self.profile.pace is not None

    def app(self) -> App:
        """The remaining work, as the agent values it: units are jobs of one worker each."""
        pace = self.profile.pace or GUESSED_PACE
        left = [unit.size for unit in self.left]
        left += [task.unit.size for task in self.working.values() if task.unit.pin is None]
        jobs = [max(size, 1.0) * pace for size in left]
        jobs += [size * pace * LED_UNITS for size in self.pins.sizes.values()]
        if self.leaders.working and not self.pins.sizes:  # no request yet
            jobs += [pace] * ray_session.processors(self.ray)
        work = max(self.rows * pace, sum(jobs), 1e-9)
        return App((Phase(tuple(jobs)),) if jobs else (), work, len(self.units))

    def start(self) -> None:
        """Does nothing: workers come with leases."""

    def start_on(self, node: str) -> None:
        """Asks Ray for a worker on a node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        options = ACTOR | {"scheduling_strategy": strategy}
        worker = self.ray.remote(Worker).options(**options).remote(self.memory)
        self.starting[worker.hello.remote()] = worker
        self.nodes[worker] = node

    def hand_out(self) -> None:
        """As `Run.hand_out`, except to workers whose lease has ended: these leave between two
        units.
        """
        self.follow()
        super().hand_out()

    def look(self) -> Iterator[Outcome]:
        """As `Run.look`, with the arbiter's answers."""
        self.tenant.look()
        if not self.tenant.held and self.tenant.answered > self.last_seen:
            self.last_seen = self.tenant.answered  # it waits for a lease, not for a worker
        yield from super().look()

    def follow(self) -> None:
        """Starts workers that leases allow, and ends idle ones without a lease."""
        have = Counter(self.nodes[worker] for worker in self.alive())
        for node, n in self.tenant.held.items():
            for _ in range(n - have[node]):
                self.start_on(node)
        more = {node: n - self.tenant.held.get(node, 0) for node, n in have.items()}
        for worker in [*self.idle, *self.starting.values()]:
            if more.get(self.nodes[worker], 0) > 0:
                more[self.nodes[worker]] -= 1
                self.end(worker)
        self.hurry(more)

    def alive(self) -> list[Any]:
        """All workers."""
        working = [task.worker for task in self.working.values()]
        return [*self.starting.values(), *working, *self.idle]

    def end(self, worker: Any) -> None:
        """Ends a worker that has no unit."""
        if worker in self.idle:
            self.idle.remove(worker)
        for reference in [ref for ref, one in self.starting.items() if one is worker]:
            del self.starting[reference]
            self.doubted.pop(reference, None)
        self.pins.forget(worker)
        self.ray.kill(worker)

    def hurry(self, more: dict[str, int]) -> None:
        """Ends workers that are at work long after their lease; their units are tried again."""
        now, late = time.monotonic(), dict(more)
        for reference, task in list(self.working.items()):
            node = self.nodes[task.worker]
            if late.get(node, 0) <= 0:
                self.due.pop(task.worker, None)
                continue
            late[node] -= 1
            since = self.due.setdefault(task.worker, now)
            if now > since + GRACE_LEASES * self.lease:
                del self.working[reference], self.due[task.worker]
                self.end_task(task, "given back")
                self.give_back(task)
                self.end(task.worker)

    def give_back(self, task: Task) -> None:
        """Returns a unit to those that are left, without a failure."""
        for one in task.unit.each:
            self.tries[one.key] -= 1
        if task.unit.pin is None:
            self.left.appendleft(task.unit)
        else:
            self.pins.add(one for one in task.unit.each if self.is_wanted(one))

    def end_task(self, task: Task, how: str) -> None:
        """As `Run.end_task`; also adds a trained unit to the profile."""
        super().end_task(task, how)
        if how == "trained" and task.unit.size:
            places = {self.nodes[worker] for worker in self.alive()} | {self.nodes[task.worker]}
            seconds = time.monotonic() - task.began
            self.profile.note(len(places) > 1, seconds / task.unit.size)

    def stop(self) -> None:
        """As `Run.stop`; also returns the lease."""
        super().stop()
        if not self.head.lost:
            self.tenant.leave()
