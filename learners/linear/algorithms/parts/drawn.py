"""Samplers of ML4all's plans that draw each sample anew, from all rows or from partitions.

Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017, section 6.2
and figure 5: with shuffled partitions, which an epoch otherwise goes through, these are the
paper's samplers for packed rows. Each draws the samples of a whole epoch at once, as many as make
up the rows of the group in the mean; the kernel then steps once a sample, in this order.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.epochs import EpochSample
from tuskml.kernels.segments import dense_row_bytes
from tuskml.learners.linear.problem import Problem

PARTITION_BYTES = 2 << 20
"""Bytes of a partition of packed rows, which is spilled or read as a whole (`rowblock/memory.c`).
"""
SPARSE_PARTITION_ROWS = 1 << 14
LARGE = 0.25
"""Share of the rows, from which on a sample is drawn by itself."""

Counts = NDArray[np.int64]
Sizes = NDArray[np.int32]


def bernoulli(problem: Problem, size: int, random: "np.random.Generator") -> EpochSample:
    """Draws each row of a group independently, with a probability for which `size` are expected.

    Rows of a sample come in their order, each at most once. Their number is binomial, so it is
    drawn first and then the rows: the same distribution as a coin for each row. An empty sample is
    drawn again, as a step needs a row.
    """
    found = [draw_bernoulli(int(n), size, random) for n in problem.rows.groups["n_rows"]]
    return EpochSample.of([rows for rows, _ in found], [sizes for _, sizes in found])


def draw_bernoulli(n: int, size: int, random: "np.random.Generator") -> tuple[Counts, Sizes]:
    """Row numbers of the Bernoulli samples of an epoch over n rows, and the samples' sizes."""
    share = min(1.0, size / n)
    sizes = random.binomial(n, share, max(1, -(-n // size)))
    while not sizes.all():
        sizes[sizes == 0] = random.binomial(n, share, int((sizes == 0).sum()))
    if share > LARGE:
        each = [np.sort(random.choice(n, k, replace=False, shuffle=False)) for k in sizes]
        return np.concatenate(each), sizes.astype(np.int32)
    sample = np.repeat(np.arange(len(sizes)), sizes)
    rows = random.integers(n, size=len(sample))
    while True:
        rows = rows[np.lexsort((rows, sample))]
        again = (rows[1:] == rows[:-1]) & (sample[1:] == sample[:-1])
        if not again.any():
            return rows, sizes.astype(np.int32)
        rows[1:][again] = random.integers(n, size=int(again.sum()))


def random_partition(problem: Problem, size: int, random: "np.random.Generator") -> EpochSample:
    """Draws a partition at random for each row, and then any of its rows.

    Partitions are even pieces of a group's rows, of about PARTITION_BYTES. Rows may repeat.
    """
    each = partition_rows(problem)
    return EpochSample.of(
        [in_partitions(int(n), each, random) for n in problem.rows.groups["n_rows"]]
    )


def in_partitions(n: int, each: int, random: "np.random.Generator") -> Counts:
    """Row numbers of an epoch over n rows, whose partitions have about `each` rows."""
    partitions = max(1, round(n / each))
    chosen = random.integers(partitions, size=n)
    return random.integers(n * chosen // partitions, n * (chosen + 1) // partitions)


def partition_rows(problem: Problem) -> int:
    """Rows of a partition."""
    groups = problem.rows.groups
    if problem.rows.sparse:
        return SPARSE_PARTITION_ROWS
    return max(1, PARTITION_BYTES // dense_row_bytes(problem.d, int(groups["kind"][0])))


DRAWN: dict[str, Callable[[Problem, int, "np.random.Generator"], EpochSample]] = {
    "random-partition": random_partition,
    "bernoulli": bernoulli,
}
"""The samplers by their names in the option `sampler`: they draw an epoch's samples, of about a
given number of rows of each group."""
EAGER = "bernoulli"
"""The sampler that draws from all rows, which must all have been evaluated before."""
