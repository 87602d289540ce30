"""The algorithms of matrix factorization, each with a descriptor."""

from enum import Enum


class Place(Enum):
    """A device that trains ratings; IN_ORDER: a GPU, with the same bits each time."""

    MEMORY = 0
    STORE = 1
    GPU = 2
    GPU_IN_ORDER = 3


class Algorithm:
    """A descriptor.

    name: the value of the option `algorithm`; title and source: its name and paper, for the
    manual; step: the default first step; chosen_for: the devices where it is the default, with the
    reason, which completes "because"; lock_free: threads share vectors without locks; stored: it
    trains vectors in a store.
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
        """The over-relaxation of a solved epoch: 1 goes to the least objective, more goes beyond
        it.
        """
        return 1.0


SOLVED = 4
"""One of this many epochs solves for the vectors, at least the last one."""
RELAX = 1.6
"""Over-relaxation of solved epochs except the last: users and items depend on each other, so a
step beyond the least objective brings both sooner to where they end."""


class Als(Algorithm):
    """Steps first, and in the end alternating least squares, which solves for each vector in turn.

    Zhou, Wilkinson, Schreiber and Pan, Large-scale parallel collaborative filtering for the
    Netflix prize, AAIM 2008.
    """

    name = "als"
    title = "epochs of steps, then alternating least squares"
    source = "Zhou, Wilkinson, Schreiber and Pan 2008"
    reason = "steps come near the least objective soon, and solving for the vectors reaches it"
    chosen_for = (Place.MEMORY,)
    step = 0.1
    """The final solved epochs remove the noise of a long step."""
    on_gpu = False
    solves = True
    implicit = "squared"

    def first_solved(self, max_iter: int) -> int:
        return max_iter - max(1, max_iter // SOLVED)

    def relax(self, epoch: int, max_iter: int) -> float:
        return 1.0 if epoch + 1 == max_iter else RELAX


class Sgd(Algorithm):
    """Stochastic gradient descent: blocks of ratings that share no vector run side by side.

    Gemulla, Nijkamp, Haas and Sismanis, Large-scale matrix factorization with distributed
    stochastic gradient descent, KDD 2011.
    """

    name = "sgd"
    title = "stochastic gradient descent, a step per rating"
    source = "Gemulla, Nijkamp, Haas and Sismanis 2011"
    reason = "blocks of ratings that share neither users nor items run side by side"
    chosen_for = (Place.STORE, Place.GPU_IN_ORDER)
    stored = True
    rotates = True
    implicit = "bpr"


class Hogwild(Algorithm):
    """HOGWILD!: ratings are trained as threads come to them, without locks.

    Niu, Recht, Re and Wright, HOGWILD!: a lock-free approach to parallelizing stochastic gradient
    descent, NIPS 2011.
    """

    name = "hogwild"
    title = "steps per rating by threads that share vectors without locks"
    source = "Niu, Recht, Re and Wright 2011"
    reason = "a GPU trains more ratings side by side than there are blocks that share no vector"
    chosen_for = (Place.GPU,)
    lock_free = True


REGISTERED: tuple[Algorithm, ...] = (Als(), Sgd(), Hogwild())
ALGORITHMS = {one.name: one for one in REGISTERED}


def default_for(place: Place) -> Algorithm:
    """The algorithm where the options name none."""
    return next(one for one in REGISTERED if place in one.chosen_for)
