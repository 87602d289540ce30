"""Owners and names of stored models, which models of others a process may read, and which files it
may use.

In DuckDB, and in Python alone, the files of a root are those of the system's user, whom the file
system protects. A database server trains for many roles: by `serve` it provides the current role,
gives each role of each database a root of its own (`OWNED`), and returns which other roots it may
read.
"""

import ctypes
import os
import pwd
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from tuskml.errors import StoreError
from tuskml.kvstore import native
from tuskml.kvstore.files import make_directory, reporting

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
REFERENCE = re.compile(
    r"(?P<name>[^@]*)(?:@(?P<number>[0-9]{1,9})(?::(?P<digest>[0-9a-f]{16}))?)?"
)
PARTITIONING = re.compile(r"(?P<name>[^@]*)(?:@(?P<number>[0-9]{1,9}))?")
PATH_BYTES = 4096
ROOT_VARIABLE = "TUSKML_STORE_ROOT"
SUBFOLDERS = ("sealed", "versions", "work")


@dataclass(frozen=True)
class Reference:
    """A reference to a model: `ads`, `ads@3` or `ads@3:1f2e3d4c5b6a7988`.

    number: None for the current version; digest: first 16 hexadecimal digits of the content's
    SHA-256, None for any content.
    """

    name: str
    number: int | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: "str | Reference") -> "Reference":
        """Parses a reference. Raises StoreError for invalid text."""
        if isinstance(text, Reference):
            return text
        match = REFERENCE.fullmatch(text)
        if not match:
            raise StoreError(f"a model of a store is NAME or NAME@VERSION, got {text[:100]!r}")
        number = match["number"]
        return cls(check_name(match["name"]), int(number) if number else None, match["digest"])

    def __str__(self) -> str:
        number = "" if self.number is None else f"@{self.number}"
        return self.name + number + (f":{self.digest}" if self.digest else "")


def check_name(name: str) -> str:
    """Validates a name. Raises StoreError."""
    if not NAME.fullmatch(name):
        raise StoreError(
            "a store's name has 1 to 63 letters, digits and _ . -, not starting with . or -, "
            f"got {name[:100]!r}"
        )
    return name


def parse_partitioning(text: str) -> tuple[str, int | None]:
    """Parses name and version of a partitioning. Raises StoreError."""
    match = PARTITIONING.fullmatch(text)
    if not match:
        raise StoreError(f"a partitioning is NAME or NAME@VERSION, got {text[:100]!r}")
    return check_name(match["name"]), int(match["number"]) if match["number"] else None


def default_root() -> Path:
    """TUSKML_STORE_ROOT, else `tuskml/stores` in the user's data folder."""
    buffer = ctypes.create_string_buffer(PATH_BYTES)
    if native.library().ks_default_root(buffer, PATH_BYTES) != native.OK:
        raise StoreError(f"there is no home directory for stores: set {ROOT_VARIABLE}")
    return Path(os.fsdecode(buffer.value))


def expand_home(given: Path | str) -> Path:
    """Expands the home directory in the path of a root. Raises StoreError if there is none."""
    text = os.fspath(given)
    if not text or "\0" in text:
        raise StoreError(f"a stores' root is the path of a directory, got {text[:100]!r}")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:  # no such account, or no home directory
        raise StoreError(f"the stores' root {text[:100]!r} names no directory: {error}") from None


def make_root(given: Path | str | None) -> Path:
    """Creates the root if it is missing; returns its real path.

    given: may begin with ~.
    """
    path = expand_home(given) if given is not None else default_root()
    with reporting("opening the stores' root"):
        if not path.is_dir():
            above = next(p for p in path.absolute().parents if os.path.lexists(p))
            if not above.is_dir():
                raise StoreError(f"{above} is not a directory")
            path.parent.mkdir(parents=True, exist_ok=True)
            make_directory(path)
        return path.resolve(strict=True)


def folder_of(root: Path, name: str, create: bool = False) -> Path:
    """Directory of a store, always inside the root. Raises StoreError if it is missing."""
    path = root / check_name(name)
    with reporting("opening a store"):
        if create:
            make_directory(path)
            for part in SUBFOLDERS:
                make_directory(path / part)
        if not path.is_dir() or path.is_symlink():
            raise UnknownStore(path.name, root)
    for place in (path, *(path / part for part in SUBFOLDERS)):
        if place.resolve() != place:
            raise StoreError(f"{place} is a link, which a store does not follow")
    return path


def names_in(root: Path) -> list[str]:
    """Sorted names of all stores of a root."""
    with reporting("listing the stores"):
        folders = [path for path in root.iterdir() if path.is_dir() and not path.is_symlink()]
    return sorted(path.name for path in folders if NAME.fullmatch(path.name))


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
