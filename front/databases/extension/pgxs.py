"""PostgreSQL's extension: its requirements on a server's installation, its build, its files."""

import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tuskml.sql
import tuskml.udas.postgres
from tuskml.errors import ExtensionError
from tuskml.schedule import budget
from tuskml.version import VERSION

SCORING, TRAINING = EXTENSIONS = ("tuskml", "tuskml_train")
DEBIAN = Path("/usr/lib/postgresql")
IMPORTED = ("tuskml", "tuskml.groups", "tuskml.udas", "numpy", "scipy")  # of them all, samples
UNSAFE = re.compile(r"[\s'\"\\$#`]")
TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Server:
    """An installation of PostgreSQL, as its pg_config describes it."""

    pg_config: Path
    values: dict[str, str]

    def folder(self, name: str) -> Path:
        """A folder by pg_config's name for it, such as `PKGLIBDIR`."""
        return Path(self.values[name])

    @property
    def version(self) -> str:
        """The version, such as `15.20`."""
        return self.values["VERSION"].split()[1]

    @property
    def major(self) -> int:
        """The major version, such as 15."""
        return int(re.match(r"\d+", self.version)[0])  # type: ignore[index]

    @property
    def scripts(self) -> Path:
        """Returns where control files and scripts of extensions are."""
        return self.folder("SHAREDIR") / "extension"

    @property
    def library(self) -> Path:
        """Returns where the extension's library is, or would be."""
        return self.folder("PKGLIBDIR") / "tuskml.so"

    def files(self) -> list[Path]:
        """The extension's files that are installed."""
        found = [self.library, *(self.scripts / f"{name}.control" for name in EXTENSIONS)]
        for name in EXTENSIONS:
            found += sorted(self.scripts.glob(f"{name}--*.sql"))
        return [path for path in found if path.exists()]


# --- the server ---


def find(pg_config: Path | None = None) -> Server:
    """The server of the given pg_config, or of the one on the path."""
    program = pg_config or search()
    try:
        done = subprocess.run([program], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ExtensionError(
            f"--pg-config is {program}, which cannot be run ({error.strerror}): expected a "
            f"server's pg_config, such as {DEBIAN}/15/bin/pg_config"
        ) from error
    values = dict(line.split(" = ", 1) for line in done.stdout.splitlines() if " = " in line)
    if not {"VERSION", "PGXS", "BINDIR", "PKGLIBDIR", "SHAREDIR"} <= set(values):
        raise ExtensionError(
            f"--pg-config is {program}, which printed no PostgreSQL version and folders: expected "
            f"a server's pg_config, such as {DEBIAN}/15/bin/pg_config"
        )
    return Server(Path(program), values)


def search() -> Path:
    """The pg_config on the PATH, or of the newest server where Debian installs them."""
    on_path = shutil.which("pg_config")
    if on_path:
        return Path(on_path)
    installed = sorted(DEBIAN.glob("[0-9]*/bin"), key=lambda folder: float(folder.parent.name))
    for folder in reversed(installed):
        if (folder / "pg_config").exists():
            return folder / "pg_config"
    package = f"postgresql-server-dev-{installed[-1].parent.name if installed else 'all'}"
    raise ExtensionError(
        f"pg_config was not found: install the server's headers (Debian: apt install {package}), "
        "or say where it is by --pg-config PATH"
    )


def check_server(server: Server, extensions: Sequence[str] = EXTENSIONS) -> None:
    """Checks the requirements of a build and, for training, of PL/Python on the server and
    system.
    """
    header = server.folder("INCLUDEDIR-SERVER") / "postgres.h"
    for needed in (header, server.folder("PGXS")):
        if not needed.exists():
            raise ExtensionError(
                f"the headers of PostgreSQL {server.major} are not installed: no {needed} "
                f"(Debian: apt install postgresql-server-dev-{server.major})"
            )
    for program in ("make", server.values.get("CC", "cc").split()[0]):
        if shutil.which(program) is None:
            raise ExtensionError(
                f"the extension is compiled by make and a C compiler, and {program} was not found "
                "(Debian: apt install make gcc)"
            )
    for needed in (server.scripts / "plpython3u.control", plpython(server)):
        if TRAINING in extensions and not needed.exists():
            raise ExtensionError(
                f"PL/Python of PostgreSQL {server.major} is not installed: no {needed} "
                f"(Debian: apt install postgresql-plpython3-{server.major})"
            )


def plpython(server: Server) -> Path:
    """PL/Python's library."""
    return server.folder("PKGLIBDIR") / "plpython3.so"


# --- Python on both sides ---


def server_python(server: Server) -> str | None:
    """The version of the Python that PL/Python was linked with, such as `3.11`, if it can be
    found.
    """
    found = re.search(rb"libpython(3\.\d+)", plpython(server).read_bytes())
    return found[1].decode() if found else None


def check_python(server: Server) -> None:
    """Compiled packages such as numpy serve one Python version."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    there = server_python(server)
    if there not in (here, None):
        raise ExtensionError(
            f"PL/Python of PostgreSQL {server.major} is Python {there}, and this environment is "
            f"Python {here}, expected the same: make one with python{there} -m venv, and install "
            "tuskml there"
        )


def python_path() -> str:
    """The folders in which the server finds tuskml and its dependencies, separated by colons."""
    places = [place for place in sys.path if place and Path(place) != Path.cwd()]
    needs = importlib.metadata.requires("tuskml") or []
    names = [re.split(r"[^\w.-]", need)[0] for need in needs if "extra ==" not in need]
    folders: dict[str, None] = {}
    for name in ["tuskml", *names]:
        for found in importlib.metadata.distributions(name=name, path=places):
            folders[str(found.locate_file(""))] = None
            break
    path = os.pathsep.join(folders)
    if UNSAFE.search(path):
        raise ExtensionError(
            f"this environment lies in {path}, expected a path without spaces and quotes: install "
            "tuskml in another one, such as one made by python3 -m venv /opt/tuskml"
        )
    return path


def server_user(server: Server) -> pwd.struct_passwd | None:
    """Guesses the user that the server runs as: the owner of its files, else postgres."""
    owner = server.folder("PKGLIBDIR").stat().st_uid
    try:
        return pwd.getpwuid(owner) if owner else pwd.getpwnam("postgres")
    except KeyError:
        return None


def check_readable(path: str, user: pwd.struct_passwd) -> None:
    """Raises an error unless the server's user, who imports the packages, may read their
    folders.
    """
    specs = map(importlib.util.find_spec, IMPORTED)
    files = [spec.origin for spec in specs if spec and spec.origin]
    for place in [*path.split(os.pathsep), *files]:
        shut = shut_to(Path(place).resolve(), user)
        if shut:
            raise ExtensionError(
                f"the server's user {user.pw_name} cannot read {place}, because {shut} lets no "
                f"others in: chmod o+rx {shut}, or install tuskml in another environment, "
                "such as one made by python3 -m venv /opt/tuskml"
            )


def shut_to(path: Path, user: pwd.struct_passwd) -> Path | None:
    """The first part of a path that its permissions hide from a user."""
    groups = os.getgrouplist(user.pw_name, user.pw_gid)
    for place in [*reversed(path.parents), path]:
        info = place.stat()
        shift = 6 if info.st_uid == user.pw_uid else 3 if info.st_gid in groups else 0
        needed = (0o1 if place.is_dir() else 0) | (0o4 if place == path else 0)
        if user.pw_uid and info.st_mode >> shift & needed != needed:
            return place
    return None


# --- files ---


def sources() -> Path:
    """The folder with the extension's Makefile."""
    return Path(tuskml.udas.postgres.__file__).resolve().parent


def make(server: Server, path: str, folder: Path, *targets: str) -> str:
    """Runs the extensions' Makefile in a folder of its own; returns its output."""
    command = ["make", "--no-print-directory", "-C", str(folder)]
    command += ["-f", str(sources() / "Makefile"), *targets]
    command += [f"PG_CONFIG={server.pg_config}", f"TUSKML_VERSION={VERSION}"]
    command += [f"TUSKML_PYTHON_PATH={path}", f"-j{budget.processors()}"]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=TIMEOUT_SECONDS,
    )
    if done.returncode:
        lines = done.stdout.splitlines()
        wrong = [line for line in lines if "rror: " in line or "***" in line] or lines[-1:]
        raise ExtensionError(
            f"building the extension for PostgreSQL {server.version} failed: {' '.join(wrong[:1])}"
        )
    return done.stdout


def install(server: Server, path: str, extensions: Sequence[str] = EXTENSIONS) -> list[Path]:
    """Builds the extensions and puts their files where the server looks for them."""
    refuse_unwritable(server, "install")
    chosen = f"TUSKML_EXTENSIONS={' '.join(extensions)}"
    with tempfile.TemporaryDirectory(prefix="tuskml-") as folder:
        make(server, path, Path(folder), "install", chosen)
    return server.files()


def uninstall(server: Server) -> list[Path]:
    """Removes the extension's files."""
    files = server.files()
    if files:
        refuse_unwritable(server, "uninstall")
    for file in files:
        file.unlink()
    return files


def refuse_unwritable(server: Server, command: str) -> None:
    """Says which command may write where the server's files are."""
    for folder in (server.folder("PKGLIBDIR"), server.scripts):
        if not os.access(folder, os.W_OK):
            again = f"sudo {sys.executable} -m tuskml postgres {command}"
            raise ExtensionError(
                f"{folder} may not be written by this user: {again} --pg-config {server.pg_config}"
            )
