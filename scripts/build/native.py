"""The native half of the build: kernels that Python loads with ctypes, and the DuckDB extension.

None of these libraries is a Python extension module, so one build serves every Python version.
Objects are kept under `build/native` or `TUSKML_OBJECTS`, which several checkouts can share, in a
folder named after the command that made them. They serve while what the compiler read is the same.
GCC reads `standard.hpp` precompiled, which saves a sixth of its time and makes the same code.
"""

import fcntl
import hashlib
import os
import runpy
import shlex
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from threading import Lock

import declarations
import duckdb_headers
import footer
import macros
import portable
from setuptools import Extension
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, PlatformError

INSTRUCTION_SETS = Path(__file__).resolve().parents[2] / "kernels" / "instruction_sets.py"
instruction_sets: Callable[[], list[str]]
instruction_sets = runpy.run_path(str(INSTRUCTION_SETS))["instruction_sets"]
BUDGET = Path(__file__).resolve().parents[2] / "schedule" / "budget.py"
processors: Callable[[], int] = runpy.run_path(str(BUDGET))["processors"]
BUILD = Path("build", "native")
OBJECTS = Path(os.environ.get("TUSKML_OBJECTS") or BUILD)
EXTENSION = "tuskml.udas.duckdb.tuskml"
KERNELS = "tuskml.kernels._native"
POOL = "tuskml.schedule._native"
PARTITIONER = "tuskml.partitioner._native"  # chooses its instructions when it runs
STORE = "tuskml.kvstore._native"  # finds LevelDB when it runs
KERNEL_FOLDERS = [
    f"kernels/native/{part}"
    for part in (
        "shared",
        "shared/common",
        "shared/telling",
        "rows",
        "rows/census",
        "rows/ids",
        "linear",
        "linear/systems",
        "newton",
        "classes",
        "spectrum",
        "hinge",
        "epochs",
        "factorization",
        "factorization/implicit",
        "stored",
        "trees",
        "trees/categories",
        "trees/drawing",
        "trees/forest",
        "trees/losses",
        "trees/near",
        "trees/parts",
        "nets",
        "nets/arithmetic",
        "nets/parted",
        "paths",
        "paths/blocks",
        "paths/products",
        "topics",
        "topics/online",
        "fm",
        "clusters",
        "ordinal",
    )
]
MAPPED = "kvstore/mapped"  # C of the store that both databases have too
ACTIVITY = "udas/scalars/activity"  # C of the shares that both databases have too
STORE_FOLDERS = tuple(f"kvstore/native{part}" for part in ("", "/leveldb", "/cache", "/routes"))

COMMON_FLAGS = ["-O3", "-fPIC", "-fvisibility=hidden", "-Iudas"]
KERNEL_FLAGS = ["-fno-math-errno", "-fno-trapping-math", "-Wno-psabi", "-pthread"]
LINK_FLAGS = ["-Wl,-z,defs"] if sys.platform == "linux" else []
STRIP_FLAGS = ["-Wl,-s"] if sys.platform == "linux" else []
X86_64_LEVELS = {
    "_v3": ["-march=x86-64-v3"],
    "_v4": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
"""Flags with `TUSKML_WARNINGS`, as in `make warnings`: they take a twelfth of the time."""
STANDARD = Path("scripts", "build", "standard.hpp")
SHARING = 10
"""Sources with the same command that are worth precompiled headers, which take two seconds."""
SETS = ("native", "all")
"""Values of `TUSKML_ISA`: kernels for this machine, the default, or for all instruction sets."""
LONGEST = (
    "epochs/rowwise_logistic.cpp",
    "epochs/rowwise_squared.cpp",
    "epochs/rowwise_hinge.cpp",
    "stored/training.cpp",
    "classes/softmax.cpp",
    "linear/dense.cpp",
    "linear/product.cpp",
    "hinge/dual.cpp",
    "linear/open.cpp",
    "stored/chunks.cpp",
    "epochs/hogwild.cpp",
)
"""Sources that compile longest: started first, so that no core waits at the end."""
LANGUAGES = {  # suffix of the source: variable that names the compiler, default, its own flags
    ".c": ("CC", "cc", ["-std=gnu11"]),
    ".cpp": ("CXX", "c++", ["-std=c++20"]),
}


class Library(Extension):
    """A shared library with a C interface; `flags` apply to each of its sources."""

    def __init__(self, name: str, folders: Iterable[str], flags: list[str]) -> None:
        sources = [
            str(path)
            for folder in folders
            for path in sorted(Path(folder).iterdir())
            if path.suffix in LANGUAGES
        ]
        with_headers = map(Path, ("udas", "kernels", "partitioner", "kvstore", "schedule"))
        headers = sorted(str(path) for folder in with_headers for path in folder.rglob("*.h*"))
        super().__init__(name, sources, depends=headers)
        self.flags = flags


def folders_below(top: str) -> list[str]:
    """A folder, and those in it that hold sources."""
    found = {path.parent for path in Path(top).rglob("*") if path.suffix in LANGUAGES}
    return sorted(map(str, found | {Path(top)}))


def libraries() -> list[Library]:
    """The libraries that this machine can build: the kernels once per instruction set, and the
    extension.
    """
    levels: dict[str, list[str]] = {"": []}
    if footer.MACHINE.lower() in ("x86_64", "amd64") and not all_sanitized():
        levels |= X86_64_LEVELS
    kernels = [
        Library(KERNELS + suffix, [*KERNEL_FOLDERS, "udas/rowblock"], KERNEL_FLAGS + flags)
        for suffix, flags in levels.items()
    ]
    extension = [*folders_below("udas/duckdb"), "udas/rowblock", *folders_below("udas/scalars")]
    partitioner = Library(PARTITIONER, ["partitioner/native"], KERNEL_FLAGS)
    store = Library(STORE, [*STORE_FOLDERS, MAPPED], ["-pthread"])
    pool = Library(POOL, ["schedule/native", ACTIVITY], ["-pthread"])
    duckdb = Library(EXTENSION, [*extension, MAPPED], ["-pthread"])
    return [*kernels, pool, partitioner, store, duckdb]


def sanitizer_flags() -> list[str]:
    """Flags for `TUSKML_SANITIZE`, a list such as `address,undefined`, or `thread`."""
    names = os.environ.get("TUSKML_SANITIZE")
    if not names:
        return []
    return [
        f"-fsanitize={names}",
        "-fno-sanitize-recover=all",
        "-fno-omit-frame-pointer",
        "-O1",
        "-g",
    ]


def sanitized_folders() -> list[str]:
    """`TUSKML_SANITIZE_ONLY`: folders whose sources alone are sanitized; empty: all are."""
    return os.environ.get("TUSKML_SANITIZE_ONLY", "").split()


def all_sanitized() -> bool:
    """Returns whether every source is compiled for a sanitizer, and so without wider
    instructions.
    """
    return bool(sanitizer_flags()) and not sanitized_folders()


def is_sanitized(source: Path) -> bool:
    """Returns whether the flags of the sanitizers are for this source."""
    folders = sanitized_folders()
    return not folders or any(source.is_relative_to(folder) for folder in folders)


def has_every_set() -> bool:
    """`TUSKML_ISA`: whether kernels are built for all instruction sets, as in published wheels."""
    asked = os.environ.get("TUSKML_ISA") or SETS[0]
    if asked not in SETS:
        raise PlatformError(f"TUSKML_ISA is {asked!r}, expected {' or '.join(map(repr, SETS))}")
    return asked == "all"


def is_portable() -> bool:
    """`TUSKML_PORTABLE`: whether the libraries are linked for systems older than this one too."""
    return bool(os.environ.get("TUSKML_PORTABLE")) and portable.is_possible()


def compiler(suffix: str) -> list[str]:
    """The command that compiles sources of this suffix."""
    variable, default, _ = LANGUAGES[suffix]
    command = shlex.split(os.environ.get(variable) or default)
    if shutil.which(command[0]) is None:
        raise PlatformError(
            f"building tuskml needs a C11 and C++20 compiler, and {command[0]!r} was not found: "
            "install one (Debian: apt install g++; macOS: xcode-select --install) "
            f"or set {variable}"
        )
    return command


def run(command: list[str]) -> None:
    """Runs one compiler command; its output appears in one piece."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.stderr:
        print(done.stderr, file=sys.stderr)
    if done.returncode:
        raise CompileError(f"exit status {done.returncode} from: {shlex.join(command)}")


class StandardHeaders:
    """`standard.hpp` as a command precompiles it, when the first of its sources is compiled."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.command, self.lock = command, Lock()
        self.header = folder / STANDARD.name
        self.target = folder / f"{STANDARD.name}.gch"

    def compile(self) -> None:
        """Compiles the header to the file that GCC looks for beside it, if it is not fresh."""
        with self.lock:
            if not is_fresh(self.target):
                self.header.write_bytes(STANDARD.read_bytes())
                source = ["-x", "c++-header", "-c", str(STANDARD)]
                run([*self.command, "-MD", "-o", str(self.target), *source])
                write_record(self.target)

    def files(self) -> str:
        """The names of the files in it, as the compiler wrote them."""
        return self.target.with_suffix(".d").read_text().partition(": ")[2]


class Job:
    """One source and the command that compiles it."""

    headers: StandardHeaders | None = None
    """The precompiled headers that the source reads."""

    def __init__(self, source: Path, command: list[str]) -> None:
        key = hashlib.sha256(shlex.join(command).encode()).hexdigest()[:12]
        self.source, self.command = source, command
        self.target = OBJECTS / key / f"{'_'.join(source.parts)}.o"

    @property
    def rank(self) -> tuple[int, int]:
        """The sort key that puts the longest jobs first."""
        name = f"{self.source.parent.name}/{self.source.name}"
        place = LONGEST.index(name) if name in LONGEST else len(LONGEST)
        return place + (self.source.suffix == ".c"), -self.source.stat().st_size

    def compile(self) -> None:
        """Makes the object file."""
        self.target.parent.mkdir(parents=True, exist_ok=True)
        self.target.with_suffix(".read").unlink(missing_ok=True)
        flags = ["-MD", "-o", str(self.target), "-c", str(self.source)]
        if self.headers:
            self.headers.compile()
            flags += ["-include", str(self.headers.header)]
        run([*self.command, *flags])
        if self.headers:  # which the compiler leaves out
            with self.target.with_suffix(".d").open("a") as file:
                file.write(self.headers.files())
        write_record(self.target)


def share_headers(jobs: Iterable[Job]) -> None:
    """Lets sources with the same command read precompiled headers, where they are many.

    GCC alone does: another compiler would need flags of its own, and ccache does not know them.
    """
    command = compiler(".cpp")
    about = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    if len(command) > 1 or "Free Software Foundation" not in about.stdout:
        return
    those: defaultdict[Path, list[Job]] = defaultdict(list)
    for job in jobs:
        if job.source.suffix == ".cpp":
            those[job.target.parent].append(job)
    for folder, of_a_command in those.items():
        if len(of_a_command) >= SHARING:
            headers = StandardHeaders(of_a_command[0].command, folder)
            for job in of_a_command:
                job.headers = headers


def compile_all(jobs: Iterable[Job]) -> None:
    """Makes the object files that are not fresh, over all cores, and says how far it is."""
    stale = {job.target: job for job in jobs if not is_fresh(job.target)}
    waiting = sorted(stale.values(), key=lambda job: job.rank)
    with ThreadPoolExecutor(processors()) as pool:
        begun = [pool.submit(job.compile) for job in waiting]
        for number, (job, done) in enumerate(zip(waiting, begun, strict=True), 1):
            done.result()
            say(f"compiled {number} of {len(waiting)}: {job.source}")


def say(line: str) -> None:
    """Prints a line, also on the terminal of an installer that hides the output of builds."""
    print(line, flush=True)
    if not sys.stdout.isatty():
        with suppress(OSError), open("/dev/tty", "w", encoding="utf-8") as terminal:
            terminal.write(f"\r\033[K{line}")


def is_fresh(target: Path) -> bool:
    """Returns whether each file that the compiler read for an object still has that content."""
    try:
        return target.is_file() and target.with_suffix(".read").read_text() == contents_read(
            target
        )
    except FileNotFoundError:
        return False


def write_record(target: Path) -> None:
    """Writes what `is_fresh` compares with."""
    target.with_suffix(".read").write_text(contents_read(target))


def contents_read(target: Path) -> str:
    """A digest of the files that the compiler read for an object, by name and content."""
    _, *read = target.with_suffix(".d").read_text().replace("\\\n", " ").split()
    together = "".join(f"{name} {digest(name)}\n" for name in read)
    return hashlib.sha256(together.encode()).hexdigest()


@cache
def digest(name: str) -> str:
    """The digest of a file's content, which does not change while the build runs."""
    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


@contextmanager
def builds_in_turn() -> Iterator[None]:
    """Waits while another process builds here, whose objects are fresh for this one then."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def macros_header() -> Path:
    """Writes the SQL that the extension runs when it is loaded as text in C, if it has changed."""
    target = BUILD / "generated" / "macros.h"
    target.parent.mkdir(parents=True, exist_ok=True)
    macros.write(Path("sql", "duckdb"), target)
    return target


class BuildNative(build_ext):
    """Compiles changed sources, over all cores, and links every library."""

    def get_ext_filename(self, fullname: str) -> str:
        """The file of a library; also called with the last part of its name alone."""
        suffix = ".duckdb_extension" if EXTENSION.endswith(fullname) else ".so"
        return os.path.join(*fullname.split(".")) + suffix

    def run(self) -> None:
        """Builds, and removes the libraries of an earlier build that this one did not make."""
        with builds_in_turn():
            self._build()

    def _build(self) -> None:
        if not has_every_set() and not all_sanitized():
            best = KERNELS + instruction_sets()[0]
            self.extensions = [
                ext
                for ext in self.extensions
                if not ext.name.startswith(KERNELS) or ext.name == best
            ]
        super().run()
        folders = [f"{self.build_lib}/tuskml/kernels"] + ["kernels"] * bool(self.inplace)
        built = {ext.name for ext in self.extensions}
        for suffix in X86_64_LEVELS:
            if KERNELS + suffix not in built:
                for folder in folders:
                    Path(folder, f"_native{suffix}.so").unlink(missing_ok=True)
        for name in declarations.HEADERS:
            for folder in [f"{self.build_lib}/tuskml/{name}"] + [name] * bool(self.inplace):
                if Path(folder).is_dir():
                    declarations.write(Path(), name, Path(folder, "_native.json"))
        if self.inplace and EXTENSION in built:
            built_key = Path(self.build_lib, *EXTENSION.split(".")).with_suffix(".pem")
            shutil.copy(built_key, Path("udas", "duckdb", built_key.name))

    def build_extensions(self) -> None:
        """Replaces distutils' compiler, which uses Python's own flags."""
        jobs = {
            ext.name: [
                Job(source, self._command(ext, source)) for source in map(Path, ext.sources)
            ]
            for ext in self.extensions
        }
        if is_portable():
            wrappers = Job(portable.SOURCE.relative_to(Path.cwd()), self._wrappers())
            for those in jobs.values():
                those.append(wrappers)
        all_jobs = {job.target: job for those in jobs.values() for job in those}.values()
        share_headers(all_jobs)
        compile_all(all_jobs)
        for ext in self.extensions:
            self._link(ext, [str(job.target) for job in jobs[ext.name]])

    @staticmethod
    def _wrappers() -> list[str]:
        """The command that compiles `portable.c`."""
        return [*compiler(".c"), *LANGUAGES[".c"][2], "-O2", "-fPIC", "-ffunction-sections"]

    def _command(self, ext: Library, source: Path) -> list[str]:
        _, _, standard = LANGUAGES[source.suffix]
        flags = [*standard, *COMMON_FLAGS, *ext.flags]
        if os.environ.get("TUSKML_WARNINGS"):
            flags += WARNINGS
        if is_sanitized(source):
            flags += sanitizer_flags()
        if ext.name == EXTENSION:
            flags += self._extension_flags()
        return [*compiler(source.suffix), *flags]

    def _extension_flags(self) -> list[str]:
        numbers = footer.API_VERSION.removeprefix("v").split(".")
        target_api = [
            f"-DDUCKDB_EXTENSION_API_VERSION_{part}={number}"
            for part, number in zip(("MAJOR", "MINOR", "PATCH"), numbers, strict=True)
        ]
        version = f'-DTUSKML_VERSION="{self.distribution.get_version()}"'
        headers = [f"-isystem{self.header_folder}", f"-I{macros_header().parent}"]
        return ["-DDUCKDB_EXTENSION_NAME=tuskml", version, *target_api, *headers]

    @cached_property
    def header_folder(self) -> Path:
        """Found once, before the first source that needs them."""
        return duckdb_headers.folder()

    def _link(self, ext: Library, objects: list[str]) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        linker = compiler(max(Path(name).suffix for name in ext.sources))  # C++ where there is any
        flags = ["-shared", "-pthread", *(sanitizer_flags() or LINK_FLAGS)]
        if ext.name == EXTENSION and not self.inplace and not sanitizer_flags():
            flags += STRIP_FLAGS  # now, since the signature must stay the end of the file
        last = portable.link_flags() if is_portable() else ["-ldl"]
        run([*linker, *flags, "-o", str(target), *objects, "-lm", *last])
        if ext.name == EXTENSION:
            import signing  # here, since a build of the kernels alone needs no cryptography

            with target.open("ab") as file:
                file.write(footer.footer(self.distribution.get_version()))
            signing.sign_file(target)


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and every Python 3."""

    def get_tag(self) -> tuple[str, str, str]:
        """Names no Python version: the libraries are loaded by ctypes and by DuckDB."""
        _, _, platform_tag = super().get_tag()
        return "py3", "none", portable.plat_name() if is_portable() else platform_tag
