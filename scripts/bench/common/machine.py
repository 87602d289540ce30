"""Facts on the machine and versions, for every figure."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "tuskml",
    "duckdb",
    "numpy",
    "pandas",
    "pyarrow",
    "scikit-learn",
    "snapml",
    "torch",
    "numba",
    "joblib",
    "psycopg",
    "libmf",
    "cmfrec",
    "implicit",
)


def facts() -> dict[str, object]:
    """Processor, cores, memory, load, date, versions."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": {"python": platform.python_version()}
        | {name: _version(name) for name in PACKAGES},
    }


def hardware(facts: dict[str, object]) -> str:
    """The processor, the cores and the memory."""
    return f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB"


def versions(facts: dict[str, object]) -> str:
    """The names and versions of installed packages."""
    found = facts["versions"]
    assert isinstance(found, dict)
    return ", ".join(
        f"{name} {value}" for name, value in found.items() if value != "not installed"
    )


def sentence(facts: dict[str, object]) -> str:
    """The facts in one line for people."""
    return (
        f"{hardware(facts)}, {facts['system']}, {facts['date']}, load {facts['load']} at the "
        f"start; {versions(facts)}"
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = dict(
        part.split(":", 1) for line in lines if len(part := line.replace("\t", "")) and ":" in part
    )
    model = facts.get("model name", platform.machine()).strip()
    family, number = (facts.get(key, "?").strip() for key in ("cpu family", "model"))
    return f"{model} (family {family}, model {number})"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def wait_until_quiet(limit_seconds: float = 8.0, share: float = 0.15) -> bool:
    """Waits until the processors are nearly idle (peers that spin lose 10x to a busy neighbour);
    False if they never are.
    """
    end = time.monotonic() + limit_seconds
    while _busy_share() > share:
        if time.monotonic() > end:
            return False
    return True


def _busy_share(seconds: float = 0.2) -> float:
    """The share of all processors' time in use during a moment."""
    first = _ticks()
    time.sleep(seconds)
    idle, total = (after - before for before, after in zip(first, _ticks(), strict=False))
    return 1 - idle / total if total else 0.0


def _ticks() -> tuple[int, int]:
    try:
        fields = [
            int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
        ]
    except OSError:
        return 0, 0
    return fields[3] + fields[4], sum(fields)
