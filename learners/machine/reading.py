"""The cost of reading rows from a table or from files: ML4all's cost model before rows are packed.

Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017, section 7.1.
Input and output by equation 3: a partition costs a seek and its pages, and partitions come one
after another, since all threads share one disk. Processing by equation 4: partitions come in waves
of as many as there are threads. To process is to decode values and to transform rows, which is to
evaluate their features and to pack them. The disk's constants are those of `disk.py`. The others
are seconds of one thread's processor, measured on 4 and 28 FLOAT columns of 122,880 rows: of
Parquet files and of DuckDB's tables in one row group (2026-11-23, load 11, medians of three), of a
table of PostgreSQL and of spilled rows by `tuskml calibrate` (2026-11-23, load 19, geometric means
of both widths, medians of three).
"""

import json
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tuskml.learners.machine.constants import host_file
from tuskml.schedule import budget

PAGE_BYTES, PARTITION_BYTES = 4096, 2 << 20
"""Bytes of a page, and of a partition: a slab of spilled rows (`rowblock/memory.c`)."""
PAGE_SECONDS = PAGE_BYTES / 1.27e9
SEEK_SECONDS = 110e-6
MEMINFO = Path("/proc/meminfo")


def scan_seconds(size: float, partition: int = PARTITION_BYTES) -> float:
    """Seconds to read `size` bytes, partition after partition (equation 3)."""
    whole, rest = divmod(size, partition)
    seconds = whole * (SEEK_SECONDS + partition / PAGE_BYTES * PAGE_SECONDS)
    if rest:
        seconds += SEEK_SECONDS + math.ceil(rest / PAGE_BYTES) * PAGE_SECONDS
    return seconds


def draw_seconds(pieces: float, each: float) -> float:
    """Seconds to read pieces of `each` bytes at random positions: a seek for each."""
    return pieces * (SEEK_SECONDS + max(1, math.ceil(each / PAGE_BYTES)) * PAGE_SECONDS)


def not_cached(spilled: int, room: float | None = None) -> float:
    """Bytes of spilled rows that a pass reads from the disk; room: for files, None: as it is.

    The kernel keeps them in memory as far as that is available. If they are more, a pass over all
    of them always needs the rows that were evicted last: it reads all.
    """
    if not spilled:
        return 0.0
    return float(spilled) if spilled > (available() if room is None else room) else 0.0


def available() -> float:
    """Bytes of memory that the kernel could give to files; infinite where it does not say.

    The process's control groups, such as a container's, may leave it less than the system has.
    """
    return min(of_system(), budget.memory_left(budget.HERE))


def of_system() -> float:
    """Available bytes of the system, without control groups."""
    try:
        lines = MEMINFO.read_text().splitlines()
        found = next(line for line in lines if line.startswith("MemAvailable:"))
        return float(found.split()[1]) * 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return math.inf


SPILL = "spill"
KINDS = ("parquet", "table", "blocks", SPILL)
"""Parquet files, a table of DuckDB, a table of PostgreSQL, rows that were packed and spilled."""
TABLES = ("query", "decode", "pack")
LEAST = 1e-12


def by_kind(parquet: float, table: float, blocks: float, spill: float) -> Mapping[str, float]:
    """Seconds by KINDS."""
    return dict(zip(KINDS, (parquet, table, blocks, spill), strict=True))


@dataclass(frozen=True)
class Reading:
    """Seconds of reading on a machine.

    By kind: query, of a query that reads partitions or of another request, without the rows;
    decode, of a value, for each row of a partition of which any row is read; pack, of a value of a
    row that is transformed. By disk: seek and page, as `disk.SEEK_SECONDS` and
    `disk.PAGE_SECONDS`.
    """

    query: Mapping[str, float] = field(
        default_factory=lambda: by_kind(2.6e-3, 2.6e-3, 1.2e-3, 1.5e-5)
    )
    decode: Mapping[str, float] = field(
        default_factory=lambda: by_kind(4.5e-9, 5e-10, 1.1e-8, LEAST)
    )
    pack: Mapping[str, float] = field(
        default_factory=lambda: by_kind(6.5e-9, 6.5e-9, 2.5e-8, 8.6e-9)
    )
    seek: float = SEEK_SECONDS
    page: float = PAGE_SECONDS

    def from_disk(self, sizes: Mapping[float, int]) -> float:
        """Seconds to read partitions, how many by their bytes (equation 3)."""
        return sum(
            n * (self.seek + math.ceil(size / PAGE_BYTES) * self.page) for size, n in sizes.items()
        )

    def processing(self, kind: str, decoded: float, packed: float) -> float:
        """Seconds of one thread for values that are decoded, and for those that are packed."""
        return self.decode[kind] * decoded + self.pack[kind] * packed


def waves(partitions: int, threads: int) -> int:
    """The number of waves in which the threads take a partition each (w(D) of the paper, the last
    included).
    """
    return -(-partitions // max(threads, 1))


def parse(value: Any) -> Reading:
    """Parses JSON's types; missing values are the shipped ones: no host has measured its disk, and
    some have no PostgreSQL. Raises ValueError unless numbers are positive.
    """
    known = shipped_reading()
    try:
        query, decode, pack = (
            dict(getattr(known, name))
            | {kind: _positive(value[name][kind]) for kind in KINDS if kind in value[name]}
            for name in TABLES
        )
        seek, page = (
            _positive(value.get(name, getattr(known, name))) for name in ("seek", "page")
        )
        return Reading(query, decode, pack, seek, page)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it lacks what reading takes ({error})") from None


def _positive(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError("seconds of reading need positive numbers")
    return max(number, LEAST)


def shipped_reading() -> Reading:
    """The figures that come with the package, the same on every host."""
    return Reading()


@cache
def of_host() -> Reading:
    """The member `reading` of this host's calibration, and the shipped figures without one."""
    try:
        return parse(json.loads(host_file().read_text())["reading"])
    except (OSError, RuntimeError, UnicodeDecodeError, ValueError, KeyError, TypeError):
        return shipped_reading()


RUNS = 3


def median_seconds(
    work: Callable[[], object], clock: Callable[[], float] = time.process_time
) -> float:
    """Seconds, the middle one of a few runs; the first one, which warms up, does not count."""
    work()
    runs = []
    for _ in range(RUNS):
        began = clock()
        work()
        runs.append(clock() - began)
    return statistics.median(runs)
