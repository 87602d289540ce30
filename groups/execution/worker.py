"""The process of a cluster that runs units, and its share of the machine."""

import hashlib
import json
import os
import socket
import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import duckdb

from tuskml.groups.execution.executor import Unit, attempt, encode_outcome
from tuskml.kernels.library import library

MUST_MATCH = ("tuskml", "duckdb")
"""Others change at most the last digits."""


def versions() -> dict[str, str]:
    """Returns the versions of tuskml and DuckDB, and the kernels' build for this processor."""
    path = Path(library()._name)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return {
        "tuskml": version("tuskml"),
        "duckdb": duckdb.__version__,
        "kernels": f"{path.stem} {digest}",
    }


def mismatch(here: dict[str, str], there: dict[str, str]) -> str | None:
    """One sentence about versions that must match and do not; None if all do."""
    for name in MUST_MATCH:
        if here[name] != there.get(name):
            return (
                f"a worker has {name} {there.get(name)} and this process has {here[name]}, "
                f"expected the same on all machines: install {name}=={here[name]} there"
            )
    return None


def difference(here: dict[str, str], there: dict[str, str]) -> str | None:
    """One sentence about builds that may change the last digits of a model."""
    if here["kernels"] == there.get("kernels"):
        return None
    return (
        f"a worker runs the kernels {there.get('kernels')} and this process {here['kernels']}, so "
        "models may differ from those of one machine in the last digits"
    )


ADDRESSES = "TUSKML_EXCHANGE_ADDRESSES"
"""The environment variable with a worker's addresses for exchanges, separated by commas."""
LOOPBACK = "127.0.0.1"


def own_addresses(node: str = LOOPBACK) -> tuple[str, ...]:
    """Returns where this process listens for other workers, an address for each link; node: where
    no setting says so.
    """
    given = [one.strip() for one in os.environ.get(ADDRESSES, "").split(",")]
    return tuple(one for one in given if one) or (node,)


@dataclass(frozen=True)
class Share:
    """threads and bytes of memory; None: as much as any process of the machine. addresses: where
    other workers reach it."""

    threads: int | None = None
    memory: int | None = None
    addresses: tuple[str, ...] = field(default_factory=own_addresses)


_shares: list[Share] = [Share()]


def limit(share: Share) -> None:
    """Sets the share of the machine that this process may use."""
    _shares[:] = [share]


def share() -> Share:
    """The share of the machine that this process may use."""
    return _shares[0]


class Worker:
    """One worker, which lives as long as the run and uses one processor.

    It takes and returns bytes and text alone. memory: bytes for the rows that it trains on; 0: as
    much as DuckDB uses by default.
    """

    def __init__(self, memory: int) -> None:
        limit(Share(1, memory or None, own_addresses(node_address())))

    def hello(self) -> str:
        """Returns its process, host and versions, as JSON."""
        return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), **versions()})

    def alive(self) -> bool:
        """Answers while a unit is at work: the process has a thread for each of the two."""
        return True

    def run(self, work: str, payload: bytes) -> bytes:
        """The unit's answer after ANSWERED, or a sentence after FAILED."""
        return encode_outcome(attempt(work, Unit("", 0, payload)))


def node_address() -> str:
    """The address at which other nodes reach this one."""
    ray = sys.modules.get("ray")
    return str(ray.util.get_node_ip_address()) if ray is not None else LOOPBACK
