"""A pass over fewer groups than threads keeps all of them busy."""

import time
from pathlib import Path

import numpy as np
import pytest

from tuskml.kernels.passes import Pass
from tuskml.learners.linear.planner.calibration import groups_of

pytestmark = pytest.mark.native

ROWS, FEATURES = 200_000, 16


def on_processors() -> dict[str, float]:
    """Seconds that each thread of this process has been on a processor."""
    found = {}
    for one in Path("/proc/self/task").iterdir():
        found[one.name] = int((one / "schedstat").read_text().split()[0]) / 1e9
    return found


@pytest.mark.parametrize("share", [1.0, 0.97])
def test_two_threads_share_the_largest_group(share: float) -> None:
    """Of one group, and of two of which one has nearly all rows: a thread a group would not do."""
    rng = np.random.default_rng(0)
    sizes = [ROWS] if share == 1.0 else [int(share * ROWS), ROWS - int(share * ROWS)]
    kept, groups = [], []
    for n in sizes:
        x = rng.standard_normal((n, FEATURES)).astype(np.float32)
        segment, group = groups_of(rng.integers(0, 2, n), [x], 0, "dense float32", FEATURES)
        kept.append((segment, x))
        groups.append(group)
    rows = Pass(np.concatenate(groups), 1, np.ones(len(sizes)), None, True, 2)
    weights = np.zeros((len(sizes), FEATURES + 1))
    rows.gradient(weights)  # threads have begun
    end = time.monotonic() + 60
    while time.monotonic() < end:
        # The system takes long to say what a thousand threads did, so it is asked seldom.
        before, stop = on_processors(), time.monotonic() + 0.5
        while time.monotonic() < stop:
            rows.gradient(weights)
        spent = sorted(now - before.get(name, 0.0) for name, now in on_processors().items())
        others = sum(spent[:-1])  # the pool may have more threads, which take turns as the second
        if others > max(0.05, 0.25 * spent[-1]):
            return
    pytest.fail(f"the busiest thread took {spent[-1]} seconds, and all others {others}")
