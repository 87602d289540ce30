"""Owners of stored models, which models of others a process may read, and which files it may use.

In DuckDB, and in Python alone, the files of a root are those of the system's user, whom the file
system protects. A database server trains for many roles: by `serve` it provides the current role,
gives each role of each database a root of its own (`OWNED`), and returns which other roots it may
read.
"""

import os
import pwd
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from tuskml.errors import StoreError

OWNED = "@"
"""Prefix of an owner's root below the server's: `@DATABASE.ROLE`, both by number."""


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
        """Restores the result of `as_record`; None for a record without an owner. Raises
        TypeError.
        """
        return None if record is None else cls(**record)


class Host(Protocol):
    """A server that trains for its roles; called on the thread that trains."""

    def owner(self) -> Owner:
        """Returns the owner on whose behalf the host works."""

    def training(self) -> str:
        """Identifier of the current statement: equal for all of its models, different between
        statements.
        """

    def roots(self, name: str) -> list[Path]:
        """Roots of other owners with a store of this name that the current role may read."""


_host: "Host | None" = None


def serve(host: "Host | None") -> None:
    """Makes this process read and write stores for the roles of a host."""
    global _host  # noqa: PLW0603, a process serves one host
    _host = host


def is_served() -> bool:
    """Returns whether this process belongs to a server that trains for its roles."""
    return _host is not None


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
    """The host's identifier of the statement; None without a host."""
    return _host.training() if _host is not None else None


def other_roots(root: Path, name: str) -> list[Path]:
    """Returns other roots from which a finished model of this name may be read.

    Without a host: all owners' roots below this one, since their files are the system's user's.
    """
    if _host is not None:
        return _host.roots(name)
    return [path for path in list_roots(root) if (path / name).is_dir()]


def list_roots(root: Path) -> list[Path]:
    """Roots of single owners below a server's root."""
    roots = (path for path in root.iterdir() if path.name.startswith(OWNED))
    return sorted(path for path in roots if path.is_dir() and not path.is_symlink())


class UnknownStore(StoreError):
    """The store does not exist or belongs to another owner; the text does not reveal which."""

    sqlstate = "42704"

    def __init__(self, name: str, root: Path) -> None:
        super().__init__(
            f"there is no store named {name!r} that you may read: it is not there, or its owner "
            "has not called grant_store for your role"
            if is_served()
            else f"there is no store named {name!r} in {root}"
        )


class NothingToResume(StoreError):
    """The store has no interrupted training."""

    sqlstate = "55000"


Rule = Callable[[int, str], str | None]
"""Maps a database's account and a directory to the reason against its use, or None."""

_rules: list[Rule] = []


class FilesRefused(StoreError):
    """The database's settings do not allow its statements to use files."""

    sqlstate = "42501"


def follow_rule(rule: Rule) -> None:
    """Sets the rule of the database for files: its settings hold for stores too, which are files
    that it does not open itself.
    """
    _rules[:] = [rule]


def check_files(path: "Path | str", account: int | None) -> None:
    """Raises FilesRefused if the database of this account does not allow a directory.

    account: None without a database; then there is no rule.
    """
    refused = _rules[0](account, str(path)) if _rules and account is not None else None
    if refused is not None:
        raise FilesRefused(refused)
