"""What of its machine the process of a worker may use."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """threads and bytes of memory; None: as much as any process of the machine."""

    threads: int | None = None
    memory: int | None = None


_shares: list[Share] = [Share()]


def limit(share: Share) -> None:
    """Says what this process may use from now on."""
    _shares[:] = [share]


def share() -> Share:
    """What this process may use."""
    return _shares[0]
