"""Random queries of the abstract model, and profiles of what a scheduler gives."""

import numpy as np

from research.qoop.model import Queries


def random_queries(draws, k, n=6, halving=False, most=2000.0):
    """k queries of two to n plans; halving: each does at most half the work of the one before."""
    need = np.sort(draws.uniform(1, 32, (k, n)), axis=1)
    if halving:
        parts = np.concatenate([np.ones((k, 1)), draws.uniform(0.1, 0.5, (k, n - 1))], axis=1)
        work = draws.uniform(most / 10, most, (k, 1)) * np.cumprod(parts, axis=1)
    else:
        work = most ** draws.uniform(0.4, 1, (k, n))
    exists = np.arange(n) < draws.integers(2, n + 1, (k, 1))
    return Queries(need, np.where(exists, work, np.inf))


def theorem(m, size):
    """The plans of theorem 2.1: twice the need each, and half the work."""
    i = np.arange(1, m + 1)
    return Queries((2.0**i)[None], (size * 2.0 ** (m - i))[None])


def profiles(draws, k, steps, volatility, units=16.0):
    """What is given to k queries: it changes every 5 to 40 steps, by `volatility` (low, high) of
    the units of the cluster (Mahajan 2021, section 2.6.2.1)."""
    given = np.empty((k, steps))
    for one in given:
        at, now = 0, units * draws.uniform(0.4, 1)
        while at < steps:
            length = int(draws.integers(5, 40))
            one[at : at + length] = now
            at += length
            change = units * draws.uniform(*volatility) * draws.choice([-1, 1])
            now = now + change if 1 <= now + change <= units else now - change
            now = float(np.clip(now, 1, units))
    return given
