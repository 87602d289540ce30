"""Names of stores, and their directories below the root."""

import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path

from tuskml.errors import StoreError
from tuskml.kvstore import native
from tuskml.kvstore.access import UnknownStore
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
