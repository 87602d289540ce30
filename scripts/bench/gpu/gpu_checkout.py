"""Makes a plain checkout enough for `gpu.py`: the package as links, the CPU's kernels built."""

import importlib.util
import os
import runpy
import subprocess
import sys
import tempfile
import types
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
wanted = [each for each in native.libraries() if each.name == sys.argv[1]]
made = Distribution({"name": "tuskml", "ext_modules": wanted, "packages": ["tuskml.kernels"],
                     "package_dir": {"tuskml.kernels": "kernels"}})
command = native.BuildNative(made)
command.inplace = True
command.ensure_finalized()
command.build_extensions()
"""
"""The kernels alone, for one instruction set: nothing of DuckDB is needed for them."""


def importable() -> None:
    """Makes `tuskml` importable where it is not installed; without DuckDB, all but its front."""
    if importlib.util.find_spec("tuskml") is not None:
        return
    folder = Path(tempfile.mkdtemp(prefix="tuskml-links-"))
    for place, target in runpy.run_path(str(ROOT / "scripts" / "link_tree.py"))["links"]().items():
        link = folder / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    sys.path.insert(0, str(folder))
    try:
        importlib.import_module("tuskml")
    except ImportError:
        for name in [name for name in sys.modules if name.split(".")[0] == "tuskml"]:
            del sys.modules[name]
        package = types.ModuleType("tuskml")
        package.__path__ = [str(folder / "tuskml")]
        sys.modules["tuskml"] = package


def built() -> str | None:
    """Builds the CPU's kernels where they are not; why they cannot be, None where they can."""
    from tuskml.errors import TuskError
    from tuskml.kernels import passes

    try:
        passes.library()
    except (OSError, TuskError):
        suffix = kernels_suffix()
        print(f"building the CPU's kernels, _native{suffix} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-c", BUILD, f"tuskml.kernels._native{suffix}"]
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
    """Of the best build that this processor runs."""
    from tuskml.kernels import passes

    for module in (passes, sys.modules.get("tuskml.kernels.library")):
        if hasattr(module, "_instruction_sets"):
            best: str = module._instruction_sets()[0]
            return best
    return ""


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
"""Files of a control group, of its second and first version: its limit, and what of it is used."""


def available_bytes() -> int:
    """Of memory, without swapping, and within the control group's limit."""
    return min(free_bytes(), *limits())


def limits() -> list[int]:
    """What the control group leaves, where it limits memory."""
    found = []
    for most, used in GROUPS:
        try:
            folder = Path("/sys/fs/cgroup")
            found.append(int((folder / most).read_text()) - int((folder / used).read_text()))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return found or [1 << 62]


def free_bytes() -> int:
    """Of the machine's memory."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0
