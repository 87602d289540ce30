"""The process of a cluster that runs units. It takes and returns bytes and text alone."""

import json
import os
import socket
import sys

from tuskml.groups.execution.executor import Unit, attempt, encoded
from tuskml.groups.execution.share import LOOPBACK, Share, limit, own_addresses
from tuskml.groups.execution.versions import versions


class Worker:
    """One worker, which lives as long as the run and uses one processor.

    memory: bytes for the rows that it trains on; 0: as much as DuckDB takes by default.
    """

    def __init__(self, memory: int) -> None:
        limit(Share(1, memory or None, own_addresses(node_address())))

    def hello(self) -> str:
        """Who it is, and the versions it has, as JSON."""
        return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), **versions()})

    def alive(self) -> bool:
        """Answers while a unit is at work: the process has a thread for each of the two."""
        return True

    def run(self, work: str, payload: bytes) -> bytes:
        """The unit's answer after ANSWERED, or a sentence after FAILED."""
        return encoded(attempt(work, Unit("", 0, payload)))


def node_address() -> str:
    """The address at which other nodes reach this one."""
    ray = sys.modules.get("ray")
    return str(ray.util.get_node_ip_address()) if ray is not None else LOOPBACK
