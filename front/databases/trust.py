"""A repository by which DuckDB trusts the extension, with the public key that signed it.

DuckDB 2.0 loads an extension from a repository whose key was pinned, in a connection that allows
signed extensions alone. Its build signs the extension (`scripts/build/signing.py`) and leaves the
public key next to it. There are two places for such a repository:

    the user's DuckDB folder   by `tuskml install`; every client of the user then loads tuskml
                               by `LOAD tuskml FROM tuskml`
    the user's cache folder    by `tuskml.connect()`, for its own connections

DuckDB's folder holds a link to the package's file instead of a copy: DuckDB and Python must open
the same one.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from tuskml.errors import ExtensionError
from tuskml.udas.duckdb import extension_path, public_key_path
from tuskml.user_folders import cache_folder, data_folder

NAME = "tuskml"
FILE = "tuskml.duckdb_extension"
NOTE = "tuskml.python"
"""The file that names the Python to train with: `udas/duckdb/hosting/python_home.c` reads it."""
DIRECTORY = "extension_repository_directory"
DIRECTORIES = "extension_directories"
DUCKDB_FOLDER = "~/.duckdb/extensions"
PLATFORM_FROM_END = 256 + 2 * 32
"""Bytes: the signature, the field before it, which names the format, and the platform's own."""
WHERE_IT_LOOKS = """
SELECT CASE WHEN contains(library_version, '-') THEN source_id ELSE library_version END, platform
FROM pragma_version(), pragma_platform()
"""


@dataclass(frozen=True)
class Repository:
    """A repository of DuckDB's extensions.

    keys: the folder of pinned keys; extensions: that of installed extensions; prefix: the URL that
    DuckDB installs from, `VERSION/PLATFORM/tuskml.duckdb_extension` below it.
    """

    name: str
    keys: Path
    extensions: Path
    prefix: Path

    @property
    def key_file(self) -> Path:
        """The file in which DuckDB keeps the key."""
        return self.keys / f"{self.name}.duckdb_extension.repo.json"

    def extension_file(self, version: str, platform: str) -> Path:
        """The file that a version of DuckDB loads."""
        return self.extensions / version / platform / "repositories" / self.name / FILE

    def all_installed(self) -> list[Path]:
        """The files of all versions of DuckDB."""
        return sorted(self.extensions.glob(f"*/*/repositories/{self.name}/{FILE}"))

    def settings(self) -> dict[str, Any]:
        """The settings by which a connection finds a repository outside DuckDB's own folder."""
        return {DIRECTORY: str(self.keys), DIRECTORIES: [DUCKDB_FOLDER, str(self.extensions)]}


def is_possible() -> bool:
    """Returns whether this DuckDB knows repositories with pinned keys."""
    return int(duckdb.__version__.split(".")[0]) >= 2


@cache
def version_and_platform() -> tuple[str, str]:
    """The version and the platform in whose folder this DuckDB looks for extensions."""
    if re.fullmatch(r"[\d.]+", duckdb.__version__):
        return f"v{duckdb.__version__}", own_platform()
    with duckdb.connect() as connection:
        version, platform = connection.execute(WHERE_IT_LOOKS).fetchall()[0]
    return version, platform


def own_platform() -> str:
    """The platform that the extension's file names (`scripts/build/footer.py`)."""
    with extension_path().open("rb") as file:
        file.seek(-PLATFORM_FROM_END, os.SEEK_END)
        return file.read(32).rstrip(b"\0").decode()


def of_user() -> Repository:
    """The repository of `tuskml install`."""
    duckdb_home = Path.home() / ".duckdb"
    return Repository(
        NAME,
        duckdb_home / "extension_repositories",
        duckdb_home / "extensions",
        data_folder() / "duckdb",
    )


def is_ready(repository: Repository) -> bool:
    """Returns whether this DuckDB loads the package's file from it."""
    try:
        file = repository.extension_file(*version_and_platform())
        pinned = json.loads(repository.key_file.read_text())["public_keys"]
        return file.samefile(extension_path()) and pinned == [compact(public_key())]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def public_key() -> str:
    """The public key in PEM that signed the package's file."""
    return public_key_path().read_text()


def compact(pem: str) -> str:
    """A key's lines in one."""
    return "".join(pem.strip().splitlines()[1:-1])


def fingerprint() -> str:
    """The key's fingerprint as DuckDB shows it."""
    import base64

    return "sha256:" + hashlib.sha256(base64.b64decode(compact(public_key()))).hexdigest()


# --- the package's own repository ---


@cache
def of_package() -> Repository:
    """The repository of `tuskml.connect()`, made if it is missing.

    It is in the user's cache folder, or if that is not writable in a folder that this process
    removes when it ends.
    """
    path = extension_path()
    pair = (str(path), "\n".join([public_key(), *version_and_platform()]))
    package, version = (hashlib.sha256(text.encode()).hexdigest()[:12] for text in pair)
    try:
        caches = cache_folder() / "trust"
        caches.mkdir(parents=True, exist_ok=True)
        found = caches / f"{package}-{version}"
        repository = below(found, f"{NAME}-{package}")
        if not is_ready(repository):
            make_at(found, repository.name)
            forget_older(caches, package, found)
        return repository
    except (OSError, duckdb.Error):
        return of_process(package)


def below(folder: Path, name: str) -> Repository:
    """A repository of which all is in one folder."""
    return Repository(name, folder / "keys", folder / "extensions", folder / "prefix")


def make_at(target: Path, name: str) -> None:
    """Makes a repository in a new folder and moves it to its path when complete.

    Another process may be first; then both are the same.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="new-") as scratch:
        made = Path(scratch) / "made"
        make(below(made, name))
        if target.exists() and not is_ready(below(target, name)):
            target.rename(Path(scratch) / "broken")
        with suppress(OSError):  # of another process, which was first
            made.rename(target)


def forget_older(folder: Path, package: str, kept: Path) -> None:
    """Removes the repositories of earlier builds of the package."""
    for older in folder.glob(f"{package}-*"):
        if older != kept:
            shutil.rmtree(older, ignore_errors=True)


def of_process(package: str) -> Repository:
    """A repository in a folder that is removed at the end of this process."""
    import atexit

    folder, process = tempfile.mkdtemp(prefix="tuskml-"), os.getpid()

    def forget() -> None:
        if os.getpid() == process:  # not a fork of it
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(forget)
    repository = below(Path(folder), f"{NAME}-{package}")
    make(repository)
    return repository


# --- to make one, and to remove it ---


def make(repository: Repository, versions: tuple[str, ...] = ()) -> None:
    """Pins the key, and installs links to the package's file.

    versions: of DuckDB that load it too, such as `v2.1.0`, besides this one.
    """
    own, platform = version_and_platform()
    for version in (own, *versions):
        link(repository.prefix / version / platform / FILE)
    config: dict[str, Any] = {
        DIRECTORY: str(repository.keys),
        "extension_directory": str(repository.extensions),
        "allow_extension_repositories": "allowed",
    }
    repository.keys.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(config=config) as connection:
        prefix = str(repository.prefix).replace("'", "''")
        connection.execute(
            f'CREATE OR REPLACE EXTENSION REPOSITORY "{repository.name}" '
            f"WITH PREFIX '{prefix}' USING PUBLIC KEY '{public_key()}'"
        )
        connection.execute(f'FORCE INSTALL tuskml FROM "{repository.name}"')
    first = repository.extension_file(own, platform)
    for version in (own, *versions):
        file = repository.extension_file(version, platform)
        link(file)
        if file != first:
            shutil.copy(information(first), information(file))


def information(file: Path) -> Path:
    """The path of DuckDB's information on an installed extension."""
    return file.with_name(f"{file.name}.info")


def link(path: Path) -> None:
    """Makes the file a link to the package's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.unlink(missing_ok=True)
    new.symlink_to(extension_path())
    new.replace(path)


def remove(repository: Repository) -> list[Path]:
    """Removes the repository and the extensions installed from it; returns the removed paths."""
    gone = [repository.key_file] if repository.key_file.exists() else []
    repository.key_file.unlink(missing_ok=True)
    folders = [file.parent for file in repository.all_installed()]
    for folder in (*folders, repository.prefix):
        if folder.exists():
            shutil.rmtree(folder)
            gone.append(folder)
    return gone


# --- to load from one ---


def load_signed(connection: duckdb.DuckDBPyConnection) -> None:
    """Loads tuskml into a connection that allows signed extensions alone."""
    if not is_possible():
        raise ExtensionError(
            "the connection allows signed extensions only, and DuckDB "
            f"{duckdb.__version__} trusts none but its own: open it with tuskml.connect(...) or "
            "duckdb.connect(path, config={'allow_unsigned_extensions': 'true'})"
        )
    (keys,) = connection.execute(f"SELECT current_setting('{DIRECTORY}')").fetchall()[0]
    name = of_package().name if keys and keys == str(of_package().keys) else NAME
    try:
        connection.execute(f'LOAD tuskml FROM "{name}"')
    except duckdb.Error as error:
        raise ExtensionError(NOT_TRUSTED) from error
    if name == NAME and not any(map(is_own, find_loaded(connection))):
        raise ExtensionError("the connection loads the extension of another installation: " + MEND)


MEND = (
    "run `tuskml install` once in this environment, or open the database with tuskml.connect(...)"
)
NOT_TRUSTED = (
    "the connection allows signed extensions only, and DuckDB does not trust this environment's "
    "tuskml: " + MEND
)
LOADED_FROM = """
SELECT install_path FROM duckdb_extensions() WHERE extension_name = 'tuskml' AND loaded
"""


def find_loaded(connection: duckdb.DuckDBPyConnection) -> Iterator[Path]:
    """The extension's file in a connection that has loaded it."""
    for (path,) in connection.execute(LOADED_FROM).fetchall():
        yield Path(path)


def is_own(path: Path) -> bool:
    """Returns whether it is the package's file."""
    return path.exists() and path.samefile(extension_path())
