"""Decides whether `auto` reads a table by row group instead of all its rows.

By row group a training reads only the rows that its tolerance needs, but only trying tells how
many. So it may be tried if the usual number is at most a third of the rows, and is given up for a
training on all rows after that third: that reads at most a third more, for any data, and on large
tables it saves nearly everything. It is tried if that is expected to take less than reading all
rows (`plans.py`).
"""

from collections.abc import Sequence

from tuskml.learners.linear.options import OPTIONS
from tuskml.learners.linear.request import Request
from tuskml.learners.options.kinds import STREAMED
from tuskml.learners.options.table import idle_where
from tuskml.learners.row_groups import Layout

USUAL_ROWS = 1_000_000
"""Rows that such trainings read to a tolerance of 0.01; to a tenth of it ten times as many."""
USUAL_EPSILON = 0.01
PART = 3
FIRST_ROW_GROUPS = 16
"""Row groups of the held-out rows: without the option, rows may well be sorted by something."""
FEW_ROW_GROUPS, MANY = 2, 320
"""Row groups of the held-out rows, if 16 are more than a twentieth of all, that is of fewer than
MANY. Rows of another row group then have to confirm the result.
"""
CONFIRMED = 2.0
"""Times epsilon, that the gradient may be on these other rows, or at the hinge the gap."""


def may_skip(request: Request) -> bool:
    """Returns whether `auto` may."""
    return why_not(request) is None


def why_not(request: Request) -> str | None:
    """The reason why `auto` reads all rows: the tolerance must be an option that held-out rows can
    confirm.

    A training with a time limit has none left for all rows, and with l1 > 0 stochastic steps stop
    where no tolerance is met.
    """
    options = request.options
    of_all = idle_where(OPTIONS.by_name, options, STREAMED)
    reasons = (
        (options.algorithm != "auto", "option 'algorithm' names the plan"),
        (options.sampler is not None, "option 'sampler' names the plan"),
        (options.transform == "eager", "option 'transform' is 'eager'"),
        (options.validation > 0, "option 'validation' holds rows out of all of them"),
        (of_all is not None, f"option '{of_all}' needs all rows"),
        (
            "epsilon" not in options.given or not options.epsilon > 0,
            "option 'epsilon' does not say how exact a part of the rows must be",
        ),
        (options.converge != "gradient", "option 'converge' is not 'gradient'"),
        (options.l1 > 0, "stochastic steps do not reach the optimality condition of l1"),
        (options.time is not None, "option 'time' may leave none for all rows"),
        (options.max_iter is not None, "option 'max_iter' counts iterations on all rows"),
        (options.warm_start is not None, "option 'warm_start' is near the end already"),
    )
    return next((why for holds, why in reasons if holds), None)


def is_too_far(request: Request, sizes: Sequence[int], layout: Layout | None) -> bool:
    """Returns whether the usual rows are more than a third; layout: None where none is
    possible.
    """
    if layout is not None:
        return most_chunks(request, sizes, layout) == 0
    return sum(sizes) // PART < USUAL_ROWS * USUAL_EPSILON / request.options.epsilon


def too_far(request: Request, sizes: Sequence[int], layout: Layout | None) -> str:
    """A sentence on why all rows are read; layout: None if none is possible."""
    wanted = USUAL_ROWS * USUAL_EPSILON / request.options.epsilon
    first = 0 if layout is None else sum(piece.n_rows for piece in layout.first)
    beside = f" beside the first {first:,}" if sum(sizes) // PART >= wanted else ""
    return (
        f"epsilon {request.options.epsilon:g} may need {wanted:,.0f} rows{beside}, and a third of "
        f"{sum(sizes):,} is fewer"
    )


def most_chunks(request: Request, sizes: Sequence[int], layout: Layout) -> int:
    """After how many chunks to give up, the first included; 0: not even worth trying."""
    rows = sum(sizes) // PART - sum(piece.n_rows for piece in layout.first)
    wanted = USUAL_ROWS * USUAL_EPSILON / request.options.epsilon
    return 1 + rows // layout.chunk_rows if rows >= wanted else 0


def first_row_groups(there: int) -> int:
    """The number of row groups, of `there`, to hold rows out of at first."""
    return FEW_ROW_GROUPS if there < MANY else FIRST_ROW_GROUPS
