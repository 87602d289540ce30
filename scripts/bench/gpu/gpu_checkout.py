"""Makes a plain checkout enough for `gpu.py`: the package as links, the CPU's kernels built."""

import importlib.util
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = """
import sys, types
sys.path.insert(0, "scripts/build")
try:
    import setuptools.command.bdist_wheel
except ModuleNotFoundError:  # of setuptools before 70.1; no wheel is built here
    stand_in = types.ModuleType("setuptools.command.bdist_wheel")
    stand_in.bdist_wheel = object
    sys.modules[stand_in.__name__] = stand_in
import native
from setuptools import Distribution
wanted = [each for each in native.libraries() if each.name in sys.argv[1:]]
folders = {"tuskml.kernels": "kernels", "tuskml.schedule": "schedule"}
made = Distribution({"name": "tuskml", "ext_modules": wanted, "packages": list(folders),
                     "package_dir": folders})
command = native.BuildNative(made)
command.inplace = True
command.ensure_finalized()
command.build_extensions()
"""
"""The kernels for one instruction set and the pool of threads: nothing of DuckDB is needed."""


def importable() -> Path | None:
    """Makes `tuskml` importable where it is not installed; the folder that does it, if any."""
    if importlib.util.find_spec("tuskml") is not None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="tuskml-links-"))
    for place, target in runpy.run_path(str(ROOT / "scripts" / "link_tree.py"))["links"]().items():
        link = folder / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    sys.path.insert(0, str(folder))
    return folder


def built() -> str | None:
    """Builds the CPU's kernels where they are not; why they cannot be, None where they can."""
    from tuskml.errors import TuskError
    from tuskml.kernels import passes

    try:
        passes.library()
    except (OSError, TuskError):
        suffix = kernels_suffix()
        print(f"building the CPU's kernels, _native{suffix} ...", file=sys.stderr, flush=True)
        names = [f"tuskml.kernels._native{suffix}", "tuskml.schedule._native"]
        command = [sys.executable, "-c", BUILD, *names]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            return f"the CPU's kernels cannot be built: {said[-1] if said else 'no reason given'}"
        passes.library.cache_clear()
        try:
            passes.library()
        except (OSError, TuskError) as error:
            return str(error)
    return None


def kernels_suffix() -> str:
    """The suffix of the best build that this processor runs."""
    from tuskml.kernels.instruction_sets import instruction_sets

    return instruction_sets()[0]


def machine() -> str:
    """The processor's name and its cores."""
    try:
        text = Path("/proc/cpuinfo").read_text()
        name = next(line for line in text.splitlines() if line.startswith("model name"))
        name = name.split(":", 1)[1].strip()
    except (OSError, StopIteration):
        name = "a processor"
    return f"{name}, {os.cpu_count()} cores"


GROUPS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)
"""Files of a control group, of its second and first version: its limit and its use."""


def available_bytes() -> int:
    """Available bytes of memory, without swapping, and within the control group's limit."""
    return min(free_bytes(), *limits())


def limits() -> list[int]:
    """The remaining bytes in control groups that limit memory."""
    found = []
    for most, used in GROUPS:
        try:
            folder = Path("/sys/fs/cgroup")
            found.append(int((folder / most).read_text()) - int((folder / used).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return found or [1 << 62]


def free_bytes() -> int:
    """Free bytes of the machine's memory."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0
