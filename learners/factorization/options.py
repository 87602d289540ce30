"""The options of matrix factorization with their defaults, and its algorithms as descriptors."""

from dataclasses import dataclass, replace
from enum import Enum

from tuskml.learners import learner
from tuskml.learners.options.kinds import (
    BOOLEAN,
    PAIRS,
    PENALTY,
    POWERS,
    STEP,
    Acts,
    Beside,
    Option,
    choice,
    integer,
    real,
    with_option,
)
from tuskml.learners.options.table import SHARED, Options, OptionTable
from tuskml.learners.tasks import Task


class Place(Enum):
    """A device that trains ratings; IN_ORDER: a GPU, with the same bits each time; PARTS: workers
    that have a part of the rows each.
    """

    MEMORY = 0
    STORE = 1
    GPU = 2
    GPU_IN_ORDER = 3
    PARTS = 4


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
    chosen_for = (Place.STORE, Place.GPU_IN_ORDER, Place.PARTS)
    stored = True
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


FALLING = "linear"
EXPLICIT, IMPLICIT = "explicit", "implicit"
SQUARED, BPR = "squared", "bpr"
ONE_VALUE = "it has one value"
OF_RATINGS = Beside("feedback", EXPLICIT)
OF_CHOICES = Beside("feedback", IMPLICIT)
OF_STEPS = (Acts(beside=(OF_RATINGS,)), Acts(beside=(OF_CHOICES, Beside("loss", BPR))))
OF_LEAST_SQUARES = (Acts(beside=(OF_CHOICES, Beside("loss", SQUARED))),)


def _of_ratings(name: str, *more: Beside) -> Option:
    """A shared option that is for explicit feedback alone: of the other kind, rows that are held
    out would count as without feedback, and vectors are in memory."""
    return replace(SHARED[name], acts=(Acts(beside=(OF_RATINGS, *more)),))


@dataclass(frozen=True, kw_only=True)
class FactorizationOptions(Options):
    """The options of a call whose task is `matrix_factorization`."""

    algorithm: str
    max_iter: int
    converge: str
    step: float | str
    schedule: str
    l2: float | str
    rank: int
    biases: bool
    transform: str
    feedback: str
    loss: str
    alpha: float
    cg_steps: int


OPTIONS = OptionTable(
    FactorizationOptions,
    (
        Option("algorithm", choice("auto", *ALGORITHMS), "auto", "the algorithm that trains"),
        Option("max_iter", integer(1, 2**31 - 1), 20, "the epochs"),
        Option("epsilon", real(0), 0.0, "the tolerance of `converge`; 0 runs max_iter epochs"),
        "time",
        Option(
            "converge",
            choice("loss"),
            "loss",
            "the quantity that must fall to epsilon: the relative change of the objective",
            with_option("epsilon"),
            unseen=ONE_VALUE,
        ),
        Option(
            "step",
            STEP,
            "auto",
            "the first step size",
            OF_STEPS,
        ),
        Option(
            "schedule",
            choice(*POWERS, FALLING),
            FALLING,
            "how the step size shrinks with epoch i; linear: to 0 at max_iter",
            OF_STEPS,
        ),
        Option(
            "l2",
            PENALTY,
            "auto",
            "half of it is the weight, for each rating, of the squares of its user's and item's"
            " numbers; for implicit feedback it is the weight of all squares. auto: 0.07 for "
            "labels divided by their standard deviation, 10 for implicit feedback, 0.01 for bpr",
        ),
        *("threads", "seed", "deterministic"),
        _of_ratings("validation", Beside("store", None)),
        Option("rank", integer(1, 4096), 10, "the number of factors"),
        Option(
            "biases",
            BOOLEAN,
            True,
            "whether users and items have biases",
            (Acts(beside=(OF_RATINGS,)),),
        ),
        Option(
            "feedback",
            choice(EXPLICIT, IMPLICIT),
            EXPLICIT,
            "labels are ratings, or how often a user chose an item",
        ),
        Option(
            "loss",
            choice(SQUARED, BPR),
            SQUARED,
            "bpr: a user prefers items with feedback to those without",
            (Acts(beside=(OF_CHOICES,)),),
        ),
        Option(
            "alpha",
            real(0, open_low=True),
            1.0,
            "the rise of the confidence per unit of feedback; it is 1 without any",
            OF_LEAST_SQUARES,
        ),
        Option(
            "cg_steps",
            integer(0, 1000),
            3,
            "steps of conjugate gradient for each vector in an epoch; 0: Cholesky's "
            "factorization, which is exact",
            OF_LEAST_SQUARES,
        ),
        Option(
            "transform",
            choice("lazy"),
            "lazy",
            "ratings are read as they are",
            unseen=ONE_VALUE,
        ),
        _of_ratings("store"),
        *(_of_ratings(name, Beside("store")) for name in ("cache", "resume")),
        replace(
            _of_ratings("method", Beside("store")),
            kind=choice("kv-vp", "kv"),
            default="kv-vp",
            meaning="the keys of a stored model: of some vectors each, or of one number each",
        ),
        *("device", "format"),
    ),
    features=frozenset((PAIRS,)),
)
"""A set number of epochs is the custom of the field, so epsilon is 0. A step that falls straight
to 0 reaches in 6 epochs what a constant one does in 20. Without a penalty every epoch more
would overfit."""


Request = learner.Request[Task, FactorizationOptions]
"""A call of `train_model` whose task is `matrix_factorization`."""
