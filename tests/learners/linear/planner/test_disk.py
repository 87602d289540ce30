"""Equation 3 of the cost model, and which rows come from the disk."""

import math
from pathlib import Path

import pytest

from tuskml.learners.machine import reading
from tuskml.schedule import budget


@pytest.mark.parametrize("size", [0, 1, 4096, 5 << 20, (2 << 20) * 7, 10_000_000_001])
def test_a_scan_costs_a_seek_and_the_pages_of_each_partition(size: int) -> None:
    """Partition by partition, as the paper's waves of one process."""
    seconds, left = 0.0, size
    while left > 0:
        here = min(left, reading.PARTITION_BYTES)
        pages = -(-here // reading.PAGE_BYTES)
        seconds += reading.SEEK_SECONDS + pages * reading.PAGE_SECONDS
        left -= here
    assert reading.scan_seconds(size) == pytest.approx(seconds)


def test_rows_that_lie_anywhere_cost_a_seek_each() -> None:
    """224 bytes are in one page; a thousand such reads cost more than a scan of 10 MB."""
    each = reading.SEEK_SECONDS + reading.PAGE_SECONDS
    assert reading.draw_seconds(1000, 224) == pytest.approx(1000 * each)
    assert reading.draw_seconds(1000, 224) > reading.scan_seconds(10 << 20)


def test_spilled_rows_are_read_where_memory_does_not_hold_them(
    tmp_path: Path, monkeypatch
) -> None:
    seen = tmp_path / "meminfo"
    seen.write_text("MemTotal: 8 kB\nMemAvailable:    4096 kB\n")
    monkeypatch.setattr(reading, "MEMINFO", seen)
    monkeypatch.setattr(budget, "memory_left", lambda root: math.inf)
    assert reading.available() == 4 << 20
    assert reading.not_cached(4 << 20) == 0
    assert reading.not_cached(5 << 20) == 5 << 20
    assert reading.not_cached(5 << 20, 6 << 20) == 0
    monkeypatch.setattr(budget, "memory_left", lambda root: 1 << 20)  # as in a container
    assert reading.not_cached(4 << 20) == 4 << 20
    monkeypatch.setattr(budget, "memory_left", lambda root: math.inf)
    monkeypatch.setattr(reading, "MEMINFO", tmp_path / "none")
    assert reading.available() == math.inf
