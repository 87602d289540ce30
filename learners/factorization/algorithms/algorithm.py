"""What the house knows of an algorithm of matrix factorization: its descriptor."""

from enum import Enum


class Place(Enum):
    """Where ratings train; IN_ORDER: on a GPU, with the same bits each time."""

    MEMORY = 0
    STORE = 1
    GPU = 2
    GPU_IN_ORDER = 3


class Algorithm:
    """A descriptor.

    name: the value of the option `algorithm`; title and source: what it is and the paper it is
    from, for the manual; step: the first one, unless it is given; chosen_for: the places where it
    is the default, with the reason, which completes "because"; lock_free: threads share vectors
    without locks; stored: it trains vectors in a store.
    """

    name: str
    title: str
    source: str
    reason: str
    chosen_for: tuple[Place, ...] = ()
    step = 0.05
    stochastic = True
    lock_free = False
    on_gpu = True
    stored = False
    rotates = False
    """Blocks of ratings that share no vector rotate among threads."""
    implicit: str | None = None
    """The loss of implicit feedback that it trains; None: it needs ratings."""
    solves = False
    """Its last epochs solve for each vector in turn."""

    def first_solved(self, max_iter: int) -> int:
        """The first epoch that is solved, counted from 0; max_iter where none is."""
        return max_iter

    def relax(self, epoch: int, max_iter: int) -> float:
        """How far a solved epoch goes, in units of the way to the least objective."""
        return 1.0
