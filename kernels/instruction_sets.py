"""Builds of the kernels by the instruction sets of this processor.

The build reads this file too, before anything is installed: it imports the standard library alone.
"""

from pathlib import Path

V3_FLAGS = {"avx2", "fma", "bmi2", "f16c", "movbe"}
V4_FLAGS = V3_FLAGS | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def instruction_sets() -> list[str]:
    """Suffixes of the builds this processor runs, best first; the last one runs everywhere."""
    try:
        words = Path("/proc/cpuinfo").read_text().split("flags", 1)[1].split("\n", 1)[0].split()
    except (OSError, IndexError):
        return [""]
    flags = set(words)
    levels = [("_v4", V4_FLAGS), ("_v3", V3_FLAGS), ("", set[str]())]
    return [suffix for suffix, needed in levels if needed <= flags]
