"""The executor that runs units on a Ray cluster, by leases where the setting says so."""

from collections.abc import Iterator, Sequence
from typing import Any

from tuskml.groups.execution import leading, ray_session
from tuskml.groups.execution.executor import Outcome, Tally, Unit
from tuskml.groups.execution.leading import Leaders
from tuskml.groups.execution.leases import LeasedRun, lease_seconds
from tuskml.groups.execution.ray_cluster import Run


class RayCluster:
    """The cluster at an address; with None the current one.

    most_seconds: after which a worker's unit is given to another worker; None: never.
    """

    remote = True

    def __init__(self, address: str | None, most_seconds: float | None = None) -> None:
        ray_session.import_ray()
        self.address, self.most_seconds = address, most_seconds
        self.notes: list[str] = []
        self.workers, self.tally = 0, Tally()

    def run(
        self, work: str, units: Sequence[Unit], leaders: Leaders | None = None
    ) -> Iterator[Outcome]:
        with ray_session.connect(self.address) as ray, ray_session.metrics():
            self.workers = ray_session.processors(ray)
            yield from self.new(ray, work, units, leaders or leading.none()).outcomes()

    def new(self, ray: Any, work: str, units: Sequence[Unit], leaders: Leaders) -> Run:
        """A run, whose workers are leased where the setting says so."""
        lease = lease_seconds(self.address or "ray")
        if lease is None:
            return Run(ray, work, units, self, leaders)
        return LeasedRun(ray, work, units, self, leaders, lease)
