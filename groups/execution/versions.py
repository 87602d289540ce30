"""Versions that must agree on all workers for their models to equal those of one machine."""

import hashlib
from importlib.metadata import version
from pathlib import Path

import duckdb

from tuskml.kernels.library import library

MUST_MATCH = ("tuskml", "duckdb")
"""Others change at most the last digits."""


def versions() -> dict[str, str]:
    """Returns the versions of tuskml and DuckDB, and the kernels' build for this processor."""
    path = Path(library()._name)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return {
        "tuskml": version("tuskml"),
        "duckdb": duckdb.__version__,
        "kernels": f"{path.stem} {digest}",
    }


def mismatch(here: dict[str, str], there: dict[str, str]) -> str | None:
    """One sentence about versions that must match and do not; None if all do."""
    for name in MUST_MATCH:
        if here[name] != there.get(name):
            return (
                f"a worker has {name} {there.get(name)} and this process has {here[name]}, "
                f"expected the same on all machines: install {name}=={here[name]} there"
            )
    return None


def difference(here: dict[str, str], there: dict[str, str]) -> str | None:
    """One sentence about builds that may change the last digits of a model."""
    if here["kernels"] == there.get("kernels"):
        return None
    return (
        f"a worker runs the kernels {there.get('kernels')} and this process {here['kernels']}, so "
        "models may differ from those of one machine in the last digits"
    )
