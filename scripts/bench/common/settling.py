"""A pause between contenders that run in one process."""

import time

LONGEST = 2.0
"""Seconds."""


def settle() -> None:
    """Waits until the threads of the previous run sleep.

    Those of OpenBLAS spin for up to 0.1 s after their work, on a processor that the next contender
    would need.
    """
    end = time.perf_counter() + LONGEST
    used = -1.0
    while time.process_time() - used > 0.001 and time.perf_counter() < end:
        used = time.process_time()
        time.sleep(0.02)
