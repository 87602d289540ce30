"""Who owns stored models: for whom a process trains, and what else it may read.

In DuckDB, and in Python alone, the files of a root are those of the system's user, whom the file
system protects. A database server trains for many roles: it says by `serve` who asks now, gives
each role of each database a root of its own (`OWNED`), and answers which other roots it may read.
"""

import os
import pwd
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from tuskml.errors import StoreError

OWNED = "@"
"""How the root of one owner is called below the server's: `@DATABASE.ROLE`, both by number."""


@dataclass(frozen=True)
class Owner:
    """The owner of a version: a role of a database, or without a database a user of the system.

    role_id: the role's oid, or the user's number; database_id: the database's oid.
    """

    role: str
    role_id: int
    database: str | None = None
    database_id: int | None = None

    def __str__(self) -> str:
        return self.role if self.database is None else f"{self.role} of database {self.database}"

    def as_record(self) -> dict[str, Any]:
        """Returns its fields for a version's record."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: "dict[str, Any] | None") -> "Owner | None":
        """What `as_record` gave; None where nobody wrote it down. TypeError if it is none."""
        return None if record is None else cls(**record)


class Host(Protocol):
    """A server that trains for its roles; asked on the thread that trains."""

    def owner(self) -> Owner:
        """Returns the owner on whose behalf the host works."""

    def training(self) -> str:
        """The same text for all models of a statement, another for each statement."""

    def roots(self, name: str) -> list[Path]:
        """The roots, besides the asker's own, that have a store of this name which the asker may
        read."""


_host: "Host | None" = None


def serve(host: "Host | None") -> None:
    """Makes this process read and write stores for the roles of a host."""
    global _host  # noqa: PLW0603, a process serves one host
    _host = host


def owner() -> Owner:
    """Returns the owner of the current training."""
    if _host is not None:
        return _host.owner()
    number = os.geteuid()
    try:
        return Owner(pwd.getpwuid(number).pw_name, number)
    except KeyError:
        return Owner(str(number), number)


def training() -> str | None:
    """What the host says of the statement; None without a host."""
    return _host.training() if _host is not None else None


def other_roots(root: Path, name: str) -> list[Path]:
    """Returns where else a finished model of this name may be read. Without a host: from all
    owners' roots below this one, since their files are the system's user's.
    """
    if _host is not None:
        return _host.roots(name)
    return [path for path in owned_roots(root) if (path / name).is_dir()]


def owned_roots(root: Path) -> list[Path]:
    """The roots of single owners below a server's."""
    found = (path for path in root.iterdir() if path.name.startswith(OWNED))
    return sorted(path for path in found if path.is_dir() and not path.is_symlink())


class UnknownStore(StoreError):
    """A store that is not there, or is another's: which of the two is not said."""

    sqlstate = "42704"

    def __init__(self, name: str, root: Path) -> None:
        served = _host is not None
        super().__init__(
            f"there is no store named {name!r} that you may read: it is not there, or its owner "
            "has not called grant_store for your role"
            if served
            else f"there is no store named {name!r} in {root}"
        )


class NothingToResume(StoreError):
    """A store without a training that was interrupted."""

    sqlstate = "55000"
