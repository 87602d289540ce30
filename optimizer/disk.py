"""What reading rows from a disk takes: equation 3 of ML4all's cost model.

Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017, section 7.1:
a partition costs a seek and its pages. Partitions are read one after another, since several
threads share one disk (the paper's `cap` is 1). The constants were measured on a virtual disk of
a shared machine (256 MiB, page cache dropped, medians of three; load 8.6).
"""

import math
from pathlib import Path

from tuskml.schedule import budget

PAGE_BYTES, PARTITION_BYTES = 4096, 2 << 20
"""Of a page, and of a partition: a slab of spilled rows (`rowblock/memory.c`)."""
PAGE_SECONDS = PAGE_BYTES / 1.27e9
SEEK_SECONDS = 110e-6
MEMINFO = Path("/proc/meminfo")


def scan_seconds(size: float, partition: int = PARTITION_BYTES) -> float:
    """Seconds to read so many bytes, partition after partition (equation 3)."""
    whole, rest = divmod(size, partition)
    seconds = whole * (SEEK_SECONDS + partition / PAGE_BYTES * PAGE_SECONDS)
    if rest:
        seconds += SEEK_SECONDS + math.ceil(rest / PAGE_BYTES) * PAGE_SECONDS
    return seconds


def draw_seconds(pieces: float, each: float) -> float:
    """Seconds to read pieces of so many bytes that lie anywhere: a seek for each."""
    return pieces * (SEEK_SECONDS + max(1, math.ceil(each / PAGE_BYTES)) * PAGE_SECONDS)


def not_cached(spilled: int, room: float | None = None) -> float:
    """Bytes of spilled rows that a pass reads from the disk; room: for files, None: as it is.

    The kernel keeps them in memory as far as that is available. Where they are more, a pass over
    all of them finds that those which come next have just been given up: it reads all.
    """
    if not spilled:  # as most rows are not, and to ask takes a moment
        return 0.0
    return float(spilled) if spilled > (available() if room is None else room) else 0.0


def available() -> float:
    """Bytes of memory that the kernel could give to files; infinite where it does not say.

    The process's control groups, such as a container's, may leave it less than the system has.
    """
    return min(of_system(), budget.memory_left(budget.HERE))


def of_system() -> float:
    """The same without control groups."""
    try:
        lines = MEMINFO.read_text().splitlines()
        found = next(line for line in lines if line.startswith("MemAvailable:"))
        return float(found.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return math.inf
