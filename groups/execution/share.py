"""What of its machine the process of a worker may use."""

import os
from dataclasses import dataclass, field

ADDRESSES = "TUSKML_EXCHANGE_ADDRESSES"
"""In the environment of a worker, its own addresses for exchanges, separated by commas."""
LOOPBACK = "127.0.0.1"


def own_addresses(node: str = LOOPBACK) -> tuple[str, ...]:
    """Where this process listens for other workers, an address for each link; node: where no
    setting says so."""
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
    """Says what this process may use from now on."""
    _shares[:] = [share]


def share() -> Share:
    """What this process may use."""
    return _shares[0]
