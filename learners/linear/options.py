"""The options of linear models."""

from dataclasses import dataclass, replace
from typing import Any

from tuskml.errors import OptionError, one_of
from tuskml.learners.linear.algorithms import ALGORITHMS, REGISTERED
from tuskml.learners.linear.algorithms.parts.algorithm import Unfit
from tuskml.learners.linear.algorithms.parts.epochs import DRAWN, EAGER
from tuskml.learners.linear.request import (
    CLASSIC,
    COVARIANCES,
    CUSTOM,
    FREQUENCY,
    KV_VP,
    REFERENCE,
    SPECULATE,
    SURVEY,
    WEIGHT_KINDS,
    LinearOptions,
)
from tuskml.learners.linear.tasks import LINEAR, LINKS, LinearTask
from tuskml.learners.options.kinds import (
    ALONE,
    ANYWHERE,
    BOOLEAN,
    CATEGORY,
    IN_PARTS,
    LIST,
    NAMED_START,
    ONE_PLACE,
    PARTS,
    POWERS,
    ROW,
    ROW_GROUPS,
    SPARSE,
    STEP,
    STORED,
    Acts,
    Beside,
    Option,
    choice,
    integer,
    real,
    within,
)
from tuskml.learners.options.table import OF_TEXT, SHARED, OptionTable

IN_TURN = ("shuffled-partition", "sequential")
SEARCHING = " and ".join(one.name for one in REGISTERED if one.line_search)
SCHEDULES = (*POWERS, "line_search")
OF_LIKELIHOOD = tuple(
    name for name, one in LINEAR.items() if one.test is not None and one.parameter != "delta"
)
"""Tasks that are likelihoods, whose standard errors may be robust ones; those of `huber` are
anyway."""
WITH_ERRORS = tuple(name for name, one in LINEAR.items() if one.test is not None)
UNPENALISED = (Beside("l1", 0.0), Beside("l2", 0.0), Beside("class_weight", None))
"""Options with which coefficients have standard errors."""
UNSAMPLED = tuple(one.name for one in REGISTERED if not one.stochastic)
UNSTEPPED = tuple(one.name for one in REGISTERED if not one.sets_steps)
UNBATCHED = tuple(one.name for one in REGISTERED if not (one.sets_steps and one.stochastic))
BY_STORE = ("auto", *(one.name for one in REGISTERED if one.stored))
IN_STORE = Acts(
    frozenset((SPARSE,)),
    (Beside("store"), Beside("algorithm", *BY_STORE)),
    but=tuple(name for name, one in LINEAR.items() if one.general),
)
"""Acts only if weights are in the store during training, not if they are stored after it."""
DRAWING = Acts(beside=(Beside("algorithm", "auto"), Beside("sampler", but=(None, *IN_TURN))))
"""Acts if a sampler decides which algorithm `auto` takes."""


def with_steps(but: tuple[str, ...]) -> tuple[Acts, ...]:
    """Where an option of steps acts: with all algorithms except some, and where `auto` certainly
    takes one of them.
    """
    return (
        Acts(beside=(Beside("algorithm", but=("auto", *but)),)),
        replace(IN_STORE, beside=(Beside("store"), Beside("algorithm", "auto"))),
        DRAWING,
    )


STEPPING = with_steps(UNSTEPPED)
SAMPLING = (
    Acts(beside=(Beside("algorithm", but=("auto", *UNSAMPLED)),)),
    Acts(frozenset((ROW_GROUPS,)), (Beside("algorithm", "auto"),)),
    Acts(beside=(Beside("sampler", but=(None, *IN_TURN)),)),
)
"""Samplers that draw rows are refused with the algorithms that each of them is for."""
OF_KEYS = ("partition", "layout", "sharing")
"""Options of method `kv-vp`, which they stand for where no method is given."""
OF_STORES = ("cache", "method", *OF_KEYS, "resume")
"""Options that say how weights lie in a store, and so that they do."""
TESTED = frozenset((ONE_PLACE,))
"""Acts where standard errors and tests are computed from all rows, and the model has room for
them.
"""
IN_MEMORY = (
    Acts(frozenset((LIST, ROW)), tasks=OF_LIKELIHOOD, where=TESTED | {STORED}),
    Acts(
        beside=(Beside("algorithm", but=BY_STORE),),
        tasks=OF_LIKELIHOOD,
        where=TESTED | {STORED},
    ),
)
"""Stored models of these are trained in memory."""
FITTED = (*IN_MEMORY, Acts(tasks=OF_LIKELIHOOD, where=TESTED))
LEVERAGED = ("HC2", "HC3")
"""Covariances by the leverage of rows."""
NEVER_ABSORBED = (
    *("l1", "l2", "algorithm", "converge", "sampler", "speculate", "fit_intercept", "link"),
    *("likelihood_ratio", "validation", "warm_start"),
)
"""Options that no training which absorbs effects has, as its normal equations have one answer."""
ENDING = "a training may end before, or in one step"


@dataclass(frozen=True)
class OpenChoice:
    """One of some names, or of those registered for this option."""

    option: str
    names: tuple[str, ...]

    @property
    def all_names(self) -> tuple[str, ...]:
        return (*self.names, *CUSTOM.get(self.option, ()))

    @property
    def allowed(self) -> str:
        return one_of(self.all_names)

    def parse(self, value: Any) -> str:
        return str(choice(*self.all_names).parse(value))


def check_together(options: LinearOptions) -> None:
    """Raises OptionError if an algorithm cannot train any task with the other options."""
    if all(refused(options, task) is not None for task in LINEAR.values()):
        refuse_unfit(options, LINEAR["linear"])
    if options.sampler == EAGER and "transform" in options.given and options.transform == "lazy":
        raise OptionError(
            f"transform 'lazy' is not available with sampler '{EAGER}', which takes its rows from "
            "all of them, expected 'eager'"
        )
    if options.speculate is not None and options.keeps_order:
        raise OptionError(
            "option 'speculate' is not available where the result must be reproducible, expected "
            "more than one thread and no 'deterministic'"
        )
    if options.cluster is not None and options.covariance != CLASSIC:
        raise OptionError(
            f"options 'cluster' and 'covariance' are both given, '{options.covariance}' the "
            "latter, expected one of them"
        )
    check_keys(options)
    if options.absorb is not None:
        check_absorbing(options)
    if options.weight_kind == SURVEY and options.covariance in LEVERAGED:
        raise OptionError(
            f"covariance '{options.covariance}' is not available with weight_kind "
            f"'{options.weight_kind}', expected 'HC0' or 'HC1'"
        )
    if options.weight_kind == SURVEY and options.likelihood_ratio:
        raise OptionError(
            "option 'likelihood_ratio' is not available with weight_kind 'sampling', whose "
            "rows have no likelihood, expected the tests by robust errors"
        )
    searching = [one.name for one in REGISTERED if one.line_search]
    if options.schedule == "line_search" and options.algorithm not in searching:
        raise OptionError(
            f"schedule 'line_search' is not available with algorithm '{options.algorithm}', "
            f"expected {one_of(searching)}"
        )


def check_keys(options: LinearOptions) -> None:
    """Raises OptionError for options of keys that another method, or another of them, excludes."""
    for name in OF_KEYS:
        if options.method != KV_VP and options.departs(name):
            raise OptionError(
                f"option '{name}' is not available with method '{options.method}', expected "
                f"'{KV_VP}'"
            )
    if options.partition is not None and options.departs("layout"):
        raise OptionError(
            f"option 'layout' is {options.layout!r}, but partitioning {options.partition!r} says "
            "already which features share a key: leave one of them out"
        )


def with_method(**values: Any) -> LinearOptions:
    """The options of a call by their values; options of keys alone choose method `kv-vp`."""
    options = LinearOptions(**values)
    if "method" in options.given or not options.departs(*OF_KEYS):
        return options
    return replace(options, method=KV_VP)


def check_absorbing(options: LinearOptions) -> None:
    """Raises OptionError for options that do not go with effects that are absorbed."""
    if options.covariance in LEVERAGED:
        raise OptionError(
            f"covariance '{options.covariance}' is not available with option 'absorb', which "
            "computes no leverages, expected 'HC0' or 'HC1'"
        )
    given = [
        name for name in NEVER_ABSORBED if getattr(options, name) != OPTIONS.by_name[name].default
    ]
    if options.device == "gpu":
        given.append("device")
    if given:
        raise OptionError(
            f"option '{given[0]}' is not available with option 'absorb': leave one of them out"
        )


def refused(options: LinearOptions, task: LinearTask) -> Unfit | None:
    """The option that keeps the algorithm from training a task; None where none does."""
    chosen = ALGORITHMS.get(options.algorithm)
    return None if chosen is None else chosen.unfit(options, task)


def refuse_unfit(options: LinearOptions, task: LinearTask) -> None:
    """Raises OptionError if another option keeps the algorithm from training a task."""
    wrong = refused(options, task)
    if wrong is not None:
        raise OptionError(unfit_sentence(options, wrong, task))


def unfit_sentence(options: LinearOptions, wrong: Unfit, task: LinearTask) -> str:
    """A sentence on what an option must be for an algorithm, or which algorithms have it."""
    algorithm = f"algorithm '{options.algorithm}'"
    if not getattr(options, wrong.option):
        return (
            f"option '{wrong.option}' is 0, {algorithm} needs a number greater than 0: {wrong.why}"
        )
    found = [(one.name, one.unfit(options, task)) for one in REGISTERED]
    others = [name for name, why in found if why is None or why.option != wrong.option]
    return (
        f"option '{wrong.option}' is not available with {algorithm}: {wrong.why}, "
        f"expected {one_of([*others, 'auto'])}"
    )


OPTIONS = OptionTable(
    with_method,
    (
        Option(
            "algorithm",
            OpenChoice("algorithm", ("auto", *ALGORITHMS)),
            "auto",
            "the algorithm that trains",
        ),
        *(replace(SHARED[name], unseen=ENDING) for name in ("max_iter", "epsilon")),
        "time",
        Option(
            "converge",
            OpenChoice("converge", ("gradient", "weights", "loss")),
            "gradient",
            "the quantity that must fall to epsilon: the violation of the optimality condition,"
            " or the change of a weight or of the objective",
            unseen=ENDING,
        ),
        Option(
            "step",
            STEP,
            "auto",
            "the first step size, for centred and scaled features",
            STEPPING,
        ),
        Option(
            "schedule",
            choice(*SCHEDULES),
            None,
            f"how the step size shrinks with iteration i; line_search is for {SEARCHING} only",
            STEPPING,
        ),
        Option(
            "batch_size",
            integer(1, 2**20),
            None,
            "rows per step of the stochastic algorithms",
            with_steps(UNBATCHED),
        ),
        Option(
            "sampler",
            OpenChoice("sampler", (*IN_TURN, *DRAWN)),
            None,
            "the rows of a step: from shuffled partitions, in order, from a random partition "
            "for each row, or each by chance",
            SAMPLING,
            "rows may be of one partition",
        ),
        Option(
            "transform",
            OpenChoice("transform", ("lazy", "eager")),
            "lazy",
            "when a training by row group packs features: as their rows are sampled, or all "
            "before",
            unseen="rows that an aggregate was given are there already",
        ),
        Option(
            "speculate",
            SPECULATE,
            None,
            "the trials of auto: the rows of the sample, the most time, and the tolerance from "
            "which errors are extrapolated",
            (Acts(beside=(Beside("algorithm", "auto"),), where=ALONE),),
        ),
        Option("l1", real(0), 0.0, "the weight of the sum of |coefficients|"),
        Option(
            "l2",
            real(0),
            0.0,
            "half of it is the weight of the sum of squared coefficients",
            (Acts(where=ANYWHERE),),
        ),
        Option("fit_intercept", BOOLEAN, True, "whether the model has an intercept"),
        Option(
            "reference",
            REFERENCE,
            None,
            "the level of each category without a coefficient, for models without a penalty: "
            "the most frequent, levels by column, or the first if not given",
            (
                Acts(
                    frozenset((CATEGORY,)),
                    (Beside("l1", 0.0), Beside("l2", 0.0)),
                    where=IN_PARTS,
                ),
            ),
        ),
        replace(
            SHARED["absorb"],
            acts=(
                Acts(
                    frozenset((CATEGORY,)),
                    tasks=("linear",),
                    where=frozenset((ONE_PLACE,)),
                ),
            ),
        ),
        Option(
            "quantile",
            real(0, 1, open_low=True),
            0.5,
            "the share of labels below the prediction",
            (Acts(tasks=("quantile",)),),
        ),
        Option(
            "delta",
            real(0, open_low=True),
            None,
            "the residual from which the loss is linear; default: 1.345 times a robust scale of"
            " the residuals",
            (Acts(tasks=("huber",)),),
        ),
        Option(
            "dispersion",
            real(0, open_low=True),
            None,
            "a in the variance mu + a mu^2; estimated if not given",
            (Acts(tasks=("negative_binomial",)),),
        ),
        Option(
            "power",
            real(1, 2, open_low=True),
            1.5,
            "p in the variance mu^p, between 1 (`poisson`) and 2 (`gamma`)",
            (Acts(tasks=("tweedie",)),),
        ),
        Option(
            "link",
            choice(*dict.fromkeys(link for links in LINKS.values() for link in links)),
            None,
            "the function of the mean or probability that is the margin; default: `logit` for "
            "`logistic`, `identity` for `linear`, else `log`",
            (Acts(tasks=tuple(LINKS), where=frozenset((ONE_PLACE, PARTS))),),
        ),
        Option(
            "proportions",
            BOOLEAN,
            False,
            "whether labels are shares of the higher class, and weights the numbers of trials",
            (Acts(tasks=("logistic",), where=frozenset((ONE_PLACE,))),),
            "all labels may be 0 or 1",
        ),
        Option(
            "firth",
            BOOLEAN,
            False,
            "whether Firth's penalty keeps coefficients of separable rows finite",
            (Acts(tasks=("logistic",), where=frozenset((ONE_PLACE,))),),
        ),
        Option(
            "covariance",
            choice(*COVARIANCES),
            CLASSIC,
            "standard errors by the likelihood, or robust ones, with or without a correction "
            "for few rows",
            (Acts(tasks=OF_LIKELIHOOD, where=frozenset((ONE_PLACE, PARTS))),),
        ),
        Option(
            "weight_kind",
            choice(*WEIGHT_KINDS),
            FREQUENCY,
            "the meaning of weights: how often a row is there, its precision, or how many rows "
            "of a population it stands for",
            (Acts(tasks=OF_LIKELIHOOD, where=frozenset((ONE_PLACE,))),),
        ),
        Option(
            "fit",
            BOOLEAN,
            False,
            "whether the model keeps what `model_fit` and `model_terms` show",
            FITTED,
            OF_TEXT,
        ),
        Option(
            "likelihood_ratio",
            BOOLEAN,
            False,
            "whether `model_terms` has likelihood-ratio tests too, each of which trains a model"
            " without the term",
            (Acts(tasks=OF_LIKELIHOOD, beside=(Beside("fit"),), where=TESTED),),
            OF_TEXT,
        ),
        Option(
            "intervals",
            choice("covariance"),
            None,
            "keeps the covariance of the coefficients for `predict_interval` and "
            "`model_covariance`",
            (Acts(tasks=WITH_ERRORS, beside=UNPENALISED, where=TESTED),),
        ),
        replace(
            SHARED["cluster"], acts=(Acts(frozenset((ROW,)), tasks=OF_LIKELIHOOD, where=TESTED),)
        ),
        "class_weight",
        *(within(SHARED[name], ANYWHERE) for name in ("threads", "seed")),
        *("deterministic", within(SHARED["validation"], TESTED | {STORED}), "classes"),
        Option("warm_start", NAMED_START, None, "the model to start from"),
        "store",
        *(replace(SHARED[name], acts=(IN_STORE,)) for name in OF_STORES),
        *("device", within(SHARED["explain"], IN_PARTS), "format"),
    ),
    check_together,
)


def parse(text: str) -> LinearOptions:
    """The options in a JSON text; an empty text has none. Raises OptionError."""
    return OPTIONS.parse(text)
