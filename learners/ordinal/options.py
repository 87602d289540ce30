"""The options of the task `ordinal`, with its defaults."""

from dataclasses import dataclass, replace
from typing import Any

from tuskml.errors import OptionError
from tuskml.kernels.ordinal import LINKS
from tuskml.learners.options.kinds import (
    BOOLEAN,
    NAMES,
    ROW,
    Acts,
    Beside,
    ClassNames,
    Kind,
    Option,
    choice,
    class_names,
    real,
)
from tuskml.learners.options.table import OF_TEXT, SHARED, Options, OptionTable

ITERATIONS = 100
CLASSIC = "classic"
COVARIANCES = (CLASSIC, "HC0", "HC1")
FREQUENCY, ANALYTIC, SAMPLING = "frequency", "analytic", "sampling"
WEIGHT_KINDS = (FREQUENCY, ANALYTIC, SAMPLING)
UNPENALISED = (Acts(beside=(Beside("l2", 0.0),)),)
"""Options of standard errors, which models without a penalty have."""


@dataclass(frozen=True, kw_only=True)
class OrdinalOptions(Options):
    """The options of a call whose task is `ordinal`."""

    l2: float
    link: str
    covariance: str
    weight_kind: str
    fit: bool

    @property
    def iterations(self) -> int:
        """The most iterations."""
        return self.max_iter or ITERATIONS

    @property
    def is_robust(self) -> bool:
        """Returns whether standard errors are those of the sandwich."""
        return (
            self.covariance != CLASSIC or self.weight_kind == SAMPLING or self.cluster is not None
        )


def _levels(value: Any) -> ClassNames:
    """The levels of labels that are text, from the lowest on. Raises ValueError."""
    names = NAMES.parse(value)
    if len(names) < 2:
        raise ValueError
    return class_names(names)


def _leverage(name: str) -> str:
    """A hint on covariances that are not those of ordered levels."""
    if name not in ("HC2", "HC3"):
        return ""
    return (
        f"; {name} corrects a row's residual by its leverage, and rows of ordered levels have no "
        "single residual"
    )


def _check(options: OrdinalOptions) -> None:
    """Raises OptionError for two definitions of standard errors."""
    if options.cluster is not None and options.covariance != CLASSIC:
        raise OptionError(
            f"options 'cluster' and 'covariance' are both given, '{options.covariance}' the "
            "latter, expected one of them"
        )


OPTIONS = OptionTable(
    OrdinalOptions,
    (
        Option(
            "link",
            choice(*LINKS),
            "logit",
            "the distribution function G in P(label <= k) = G(threshold - margin)",
        ),
        Option(
            "l2",
            real(0),
            0.0,
            "half of it is the weight of the sum of squared coefficients",
        ),
        Option(
            "classes",
            Kind('a list of levels as text, the lowest first, such as ["low", "high"]', _levels),
            None,
            "the order of labels that are text",
            unseen="labels may be of an ENUM, whose order is the same",
        ),
        Option(
            "covariance",
            choice(*COVARIANCES, elsewhere=_leverage),
            CLASSIC,
            "standard errors by the likelihood, or robust ones, with or without a correction for "
            "few rows",
            UNPENALISED,
        ),
        Option(
            "weight_kind",
            choice(*WEIGHT_KINDS),
            FREQUENCY,
            "the meaning of weights: how often a row is there, its precision, or how many rows of "
            "a population it stands for",
            UNPENALISED,
        ),
        Option(
            "fit",
            BOOLEAN,
            False,
            "whether the model keeps what `model_fit` and `model_terms` show",
            unseen=OF_TEXT,
        ),
        replace(SHARED["cluster"], acts=(Acts(frozenset((ROW,)), beside=UNPENALISED[0].beside),)),
        replace(SHARED["max_iter"], default=ITERATIONS, unseen="a training may end before"),
        replace(SHARED["epsilon"], unseen="a training may end before"),
        *("time", "threads", "seed", "deterministic", "format"),
    ),
    _check,
)
