"""The options of matrix factorization, with its defaults."""

from dataclasses import dataclass, replace

from tuskml.learners import learner
from tuskml.learners.factorization.algorithms import ALGORITHMS
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

FALLING = "linear"
EXPLICIT, IMPLICIT = "explicit", "implicit"
ROTATION = "rotation"
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
    scheduler: str


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
            "scheduler",
            choice("auto", ROTATION),
            "auto",
            "rotation: blocks of ratings that share no vector rotate among threads, with the "
            "result of one thread",
            (Acts(beside=(OF_RATINGS,)),),
        ),
        Option(
            "transform",
            choice("lazy"),
            "lazy",
            "ratings are read as they are",
            unseen=ONE_VALUE,
        ),
        _of_ratings("store"),
        *(_of_ratings(name, Beside("store")) for name in ("cache", "partition", "resume")),
        *("device", "format"),
    ),
    features=frozenset((PAIRS,)),
)
"""A set number of epochs is the custom of the field, so epsilon is 0. A step that falls straight
to 0 reaches in 6 epochs what a constant one does in 20. Without a penalty every epoch more
would overfit."""


Request = learner.Request[Task, FactorizationOptions]
"""A call of `train_model` whose task is `matrix_factorization`."""
