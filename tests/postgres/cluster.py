"""A private PostgreSQL: an installation, data and a socket of its own, of which nothing stays.

The system's installation is only read. PostgreSQL finds its folders from where its program lies,
so a folder of links around copies of a few programs is an installation to which the extension can
be added, by any user.
"""

import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg

import tuskml
import tuskml.groups
import tuskml.schedule
import tuskml.sql
import tuskml.udas
from tuskml.databases.extension import pgxs
from tuskml.errors import ExtensionError

TEMPLATE = "tuskml_template"
PROGRAMS = ("postgres", "initdb", "pg_config", "psql")
START_SECONDS = 120
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "40",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "client_connection_check_interval": "100ms",
    "statement_timeout": "300s",  # no test waits for ever
}
SANITIZE = os.environ.get("TUSKML_SANITIZE_POSTGRES", "")
"""What the extension is compiled with: address, undefined; see `make sanitize-postgres`."""
NOTHING: Mapping[str, str] = MappingProxyType({})
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


class Unavailable(Exception):
    """This machine cannot run the tests of the PostgreSQL extension; says why."""


class Cluster:
    """A running server with a template database that has the extension."""

    def __init__(self, folder: Path, server: pgxs.Server, user: str | None) -> None:
        self.folder = folder
        self.server = server
        self.user = user
        self.data = folder / "data"
        self.log = folder / "log"
        self.python_path = ""
        self.loaded = sanitized(folder) if SANITIZE else {}
        self._process: subprocess.Popen[bytes] | None = None

    # --- connections ---

    def conninfo(self, database: str = "postgres", user: str = "postgres") -> str:
        """For psycopg, psql and `tuskml postgres --database`."""
        return f"host={self.folder} port={self.port} dbname={database} user={user}"

    @property
    def port(self) -> int:
        """Part of the socket's name; no port is listened on."""
        return 54329

    def connect(self, database: str, **options: Any) -> psycopg.Connection:
        """A session that commits each statement."""
        user = options.pop("user", "postgres")
        return psycopg.connect(self.conninfo(database, user), autocommit=True, **options)

    def create_database(self, name: str, template: str = TEMPLATE) -> None:
        """A copy of the template."""
        with self.connect("postgres") as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')

    def drop_database(self, name: str) -> None:
        """Ends the sessions in it first."""
        with self.connect("postgres") as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    # --- the server ---

    def start(self, **settings: str) -> None:
        """Starts the server, a child that ends with this process, and waits until it answers."""
        chosen = SETTINGS | {"unix_socket_directories": str(self.folder), "port": str(self.port)}
        options = [f"--{name}={value}" for name, value in (chosen | settings).items()]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._program("postgres"), "-D", str(self.data), *options],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests
                preexec_fn=stop_with_parent,  # noqa: PLW1509, it calls the system and no more
                **self.as_user(self.loaded | {"TUSKML_SHARES": str(self.folder / "shares")}),
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"PostgreSQL did not start:\n{self.messages()[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stops the server, gently at first."""
        if self._process is None:
            return
        for signal_number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if self._process.poll() is None:
                self._process.send_signal(signal_number)
                try:
                    self._process.wait(10)
                except subprocess.TimeoutExpired:
                    continue
        self._process = None

    def restart(self, **settings: str) -> None:
        """With other settings, such as `shared_preload_libraries="..."`."""
        self.stop()
        self.start(**settings)

    def messages(self) -> str:
        """What the server has written to its log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def crashes(self) -> list[str]:
        """Lines of the log on server processes that ended by a signal, and why."""
        signs = ("was terminated by", "Sanitizer:", "runtime error:")
        return [line for line in self.messages().splitlines() if any(s in line for s in signs)]

    def run(self, program: str, *arguments: str) -> None:
        """Runs one of the server's programs as the server's user."""
        done = subprocess.run(
            [self._program(program), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **self.as_user(),
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}")

    def as_user(self, more: Mapping[str, str] = NOTHING) -> dict[str, Any]:
        """For subprocess: the server's user, who must not be root, and a plain environment."""
        plain = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **more}
        options: dict[str, Any] = {"env": plain, "cwd": self.folder}
        if self.user is not None:
            account = pwd.getpwnam(self.user)
            options |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        return options

    def _program(self, name: str) -> str:
        return str(self.server.folder("BINDIR") / name)

    def _answers(self) -> bool:
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True


def stop_with_parent() -> None:
    """In the child: when the tests die without a word, the server shuts down at once."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGQUIT, 0, 0, 0)


# --- making one ---


@contextmanager
def private_cluster(build: Path) -> Iterator[Cluster]:
    """A cluster with the extension in its template; build: a folder that keeps object files."""
    with tempfile.TemporaryDirectory(prefix="tusk-pg-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        cluster = prepare(folder)
        cluster.python_path = readable_python_path(cluster)
        install(cluster, build)
        try:
            initialise(cluster)
            cluster.start()
            with cluster.connect("postgres") as connection:
                connection.execute(f"CREATE DATABASE {TEMPLATE}")
            with cluster.connect(TEMPLATE) as connection:
                connection.execute("CREATE EXTENSION tuskml_train CASCADE")
            yield cluster
        finally:
            cluster.stop()


def prepare(folder: Path) -> Cluster:
    """The installation, if this machine has what is needed."""
    try:
        system = pgxs.find()
        pgxs.check_server(system)
        pgxs.check_python(system)
    except ExtensionError as error:
        raise Unavailable(str(error)) from error
    if not (system.folder("BINDIR") / "initdb").exists():
        raise Unavailable(
            f"PostgreSQL {system.major} is not installed: no {system.folder('BINDIR')}/initdb "
            f"(Debian: apt install postgresql-{system.major})"
        )
    return Cluster(folder, mirror(system, folder / "installation"), unprivileged_user())


def unprivileged_user() -> str | None:
    """Who runs the server when the tests run as root, as whom PostgreSQL refuses to run."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise Unavailable("PostgreSQL does not run as root, and there is no user postgres or nobody")


def mirror(system: pgxs.Server, prefix: Path) -> pgxs.Server:
    """An installation of its own: copies of programs, links to all else, without tuskml."""
    names = ("BINDIR", "PKGLIBDIR", "SHAREDIR", "INCLUDEDIR-SERVER", "PKGINCLUDEDIR")
    folders = {name: system.folder(name).resolve() for name in names}
    common = os.path.commonpath(list(folders.values()))
    own = {name: prefix / folder.relative_to(common) for name, folder in folders.items()}
    own["BINDIR"].mkdir(parents=True)
    for program in PROGRAMS:
        shutil.copy2(folders["BINDIR"] / program, own["BINDIR"] / program)
    link_entries(folders["PKGLIBDIR"], own["PKGLIBDIR"])
    link_entries(folders["SHAREDIR"] / "extension", own["SHAREDIR"] / "extension")
    link_entries(folders["SHAREDIR"], own["SHAREDIR"])
    for name in ("INCLUDEDIR-SERVER", "PKGINCLUDEDIR"):
        link_entries(folders[name], own[name])
    return pgxs.find(own["BINDIR"] / "pg_config")


def link_entries(source: Path, target: Path) -> None:
    """Links to each entry, but for what is there already, and what belongs to tuskml."""
    target.mkdir(parents=True, exist_ok=True)
    for entry in source.iterdir():
        link = target / entry.name
        if not entry.name.startswith("tuskml") and not link.exists():
            link.symlink_to(entry)


def install(cluster: Cluster, build: Path) -> None:
    """Compiles what has changed since the last time, and installs.

    It is compiled with the system's headers, whose place is always the same.
    """
    own = cluster.server
    places = [f"pkglibdir={own.folder('PKGLIBDIR')}", f"datadir={own.folder('SHAREDIR')}"]
    if SANITIZE:
        build = build.with_name(f"{build.name}-{SANITIZE.replace(',', '-')}")
        found = f"-fsanitize={SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
        places.append(f"COPT={found}")
    build.mkdir(parents=True, exist_ok=True)
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other processes install what the first has compiled
        pgxs.make(pgxs.find(), cluster.python_path, build, "install", *places)


def initialise(cluster: Cluster) -> None:
    """The data directory, as the server's user."""
    if cluster.user is not None:
        shutil.chown(cluster.folder, cluster.user)
    initdb = ["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]
    cluster.run("initdb", "-D", str(cluster.data), *initdb)


def readable_python_path(cluster: Cluster) -> str:
    """The packages' folders, or copies of the packages where the server's user may not go."""
    path = pgxs.python_path()
    account = pwd.getpwnam(cluster.user) if cluster.user else pwd.getpwuid(os.getuid())
    try:
        pgxs.check_readable(path, account)
    except ExtensionError:
        site = cluster.folder / "site-packages"
        copy_packages(path.split(os.pathsep), site)
        return str(site)
    return path


def copy_packages(folders: list[str], site: Path) -> None:
    """Copies what the server imports: tuskml, wherever its packages are, and what it needs."""
    wanted = ("numpy", "scipy", "duckdb", "_duckdb", "tqdm", "tuskml-")
    for folder in map(Path, folders):
        for entry in folder.iterdir():
            if entry.name.startswith(wanted) and not (site / entry.name).exists():
                copy_entry(entry, site / entry.name)
    packages = (tuskml, tuskml.groups, tuskml.schedule, tuskml.sql, tuskml.udas)
    for package in packages:
        assert package.__file__ is not None
        copy_entry(Path(package.__file__).parent, site / Path(*package.__name__.split(".")))


def copy_entry(entry: Path, target: Path) -> None:
    """A file or a folder, readable by all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if entry.is_dir():
        shutil.copytree(entry, target, dirs_exist_ok=True)
    else:
        shutil.copy2(entry, target)


def sanitized(folder: Path) -> dict[str, str]:
    """The environment of a server that loads the sanitized extension; each finding is a crash.

    Python keeps memory until the end, so leaks are looked for by tests. Variables stay on the
    stack, whose depth PostgreSQL measures by their addresses.
    """
    runtimes = {"address": "libasan.so", "undefined": "libubsan.so"}
    found = [output("cc", f"-print-file-name={runtimes[name]}") for name in SANITIZE.split(",")]
    first = folder / "address_first.so"
    source = Path(__file__).with_name("address_first.c")
    output("cc", "-shared", "-fPIC", "-Wl,-z,initfirst", str(source), "-o", str(first))
    crash = "abort_on_error=1:print_stacktrace=1"
    address = "detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1"
    return {
        "LD_PRELOAD": ":".join([*found, str(first)]),
        "ASAN_OPTIONS": f"{crash}:{address}",
        "UBSAN_OPTIONS": f"{crash}:halt_on_error=1",
    }


def output(*command: str) -> str:
    """What a program prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip()
