"""Whether `auto` reads a table by row group rather than all of its rows.

By row group a training reads as many rows as its tolerance asks for, however many there are; but
how many that are, only trying tells. So it is tried where the usual number is at most a third of
the rows, and given up for a training on all rows after that third: whatever the data, that reads a
third more at most, and on large tables it spares nearly everything. The choice follows from the
number of rows and the options, on any machine.
"""

from collections.abc import Sequence

from tuskml.learners.linear.request import Request
from tuskml.learners.row_groups import Layout

USUAL_ROWS = 1_000_000
"""Rows that such trainings read to a tolerance of 0.01; to a tenth of it ten times as many."""
USUAL_EPSILON = 0.01
PART = 3
FIRST_ROW_GROUPS = 16
"""To hold rows out of: where nobody asked for a sample, rows may well be sorted by something."""
FEW_ROW_GROUPS, MANY = 2, 320
"""To hold rows out of, where 16 would be more than a twentieth of all: fewer than MANY. Rows of
another row group then have to confirm the result."""
CONFIRMED = 2.0
"""Times epsilon, that the gradient may be on these other rows."""


def may_skip(request: Request) -> bool:
    """Whether `auto` may: the tolerance is asked for, and is one that held-out rows can show.

    A training under a limit of time has none left for all rows, and with l1 > 0 or at the hinge's
    corners stochastic steps come to rest where no tolerance is met.
    """
    options, task = request.options, request.task
    return (
        options.algorithm == "auto"
        and options.sampler is None
        and "epsilon" in options.given
        and options.epsilon > 0
        and options.converge == "gradient"
        and options.l1 == 0
        and options.time is None
        and options.max_iter is None
        and options.warm_start is None
        and task.smooth
    )


def most_chunks(request: Request, sizes: Sequence[int], layout: Layout) -> int:
    """After how many chunks to give up, the first included; 0: not even worth trying."""
    rows = sum(sizes) // PART - sum(piece.n_rows for piece in layout.first)
    wanted = USUAL_ROWS * USUAL_EPSILON / request.options.epsilon
    return 1 + rows // layout.chunk_rows if rows >= wanted else 0


def first_row_groups(there: int) -> int:
    """How many row groups of so many to hold rows out of at first."""
    return FEW_ROW_GROUPS if there < MANY else FIRST_ROW_GROUPS
