"""Equation 3 of the cost model, and which rows come from the disk."""

import math
from pathlib import Path

import pytest

from tuskml.optimizer import disk
from tuskml.schedule import budget


@pytest.mark.parametrize("size", [0, 1, 4096, 5 << 20, (2 << 20) * 7, 10_000_000_001])
def test_a_scan_costs_a_seek_and_the_pages_of_each_partition(size: int) -> None:
    """Partition by partition, as the paper's waves of one process."""
    seconds, left = 0.0, size
    while left > 0:
        here = min(left, disk.PARTITION_BYTES)
        pages = -(-here // disk.PAGE_BYTES)
        seconds += disk.SEEK_SECONDS + pages * disk.PAGE_SECONDS
        left -= here
    assert disk.scan_seconds(size) == pytest.approx(seconds)


def test_rows_that_lie_anywhere_cost_a_seek_each() -> None:
    """224 bytes are in one page; a thousand such reads cost more than a scan of 10 MB."""
    each = disk.SEEK_SECONDS + disk.PAGE_SECONDS
    assert disk.draw_seconds(1000, 224) == pytest.approx(1000 * each)
    assert disk.draw_seconds(1000, 224) > disk.scan_seconds(10 << 20)


def test_spilled_rows_are_read_where_memory_does_not_hold_them(
    tmp_path: Path, monkeypatch
) -> None:
    seen = tmp_path / "meminfo"
    seen.write_text("MemTotal: 8 kB\nMemAvailable:    4096 kB\n")
    monkeypatch.setattr(disk, "MEMINFO", seen)
    monkeypatch.setattr(budget, "memory_left", lambda root: math.inf)
    assert disk.available() == 4 << 20
    assert disk.not_cached(4 << 20) == 0
    assert disk.not_cached(5 << 20) == 5 << 20
    assert disk.not_cached(5 << 20, 6 << 20) == 0
    monkeypatch.setattr(budget, "memory_left", lambda root: 1 << 20)  # as in a container
    assert disk.not_cached(4 << 20) == 4 << 20
    monkeypatch.setattr(budget, "memory_left", lambda root: math.inf)
    monkeypatch.setattr(disk, "MEMINFO", tmp_path / "none")
    assert disk.available() == math.inf
