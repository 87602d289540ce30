"""Makespans of rotations of the topic model's blocks of words, which figures 8 and 9 use.

Processor seconds of each visit are measured, one visit after the other, by the product's sampler;
32 simulated workers with four blocks each then take these.
"""

import argparse
from collections.abc import Mapping

import rotation_barriers

WORKERS, EACH = 32, 4


def makespans(scale: float) -> Mapping[str, float]:
    """Mean makespans by schedule, in the seconds that workers compute."""
    given = argparse.Namespace(
        tokens=max(200_000, round(2_000_000 * scale)), words=20_000, topics=100, mean=120
    )
    program = rotation_barriers.Blocks(given, WORKERS, WORKERS * EACH)
    found = rotation_barriers.simulated(program, program.start(), 5)
    return {kind: 1 / (1 - idle) for kind, idle in found["idle"].items()}
