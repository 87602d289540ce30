"""The options of boosted trees, with their defaults."""

from dataclasses import dataclass

from tuskml.errors import OptionError
from tuskml.kernels.trees.boosting import HUBER, LOGISTIC, MOST_BINS, POISSON, QUANTILE, SQUARED
from tuskml.learners.options.kinds import MISSING, Option, choice, integer, real
from tuskml.learners.options.table import Options, OptionTable
from tuskml.learners.trees.signs import SIGNS, ByName

OBJECTIVES = {
    "squared": SQUARED,
    "logistic": LOGISTIC,
    "poisson": POISSON,
    "quantile": QUANTILE,
    "huber": HUBER,
}
"""By name the loss that trees lower, as the kernels number it."""


@dataclass(frozen=True, kw_only=True)
class TreeOptions(Options):
    """The options of a call whose task is `gbdt`."""

    objective: str
    trees: int
    num_leaves: int
    max_depth: int
    learning_rate: float
    min_child_rows: int
    min_child_hessian: float
    min_gain: float
    l1: float
    l2: float
    feature_fraction: float
    row_fraction: float
    quantile: float
    delta: float
    monotone: tuple[int, ...] | ByName | None
    max_bins: int
    patience: int


def _check(options: TreeOptions) -> None:
    """OptionError for values that cannot go together."""
    if options.monotone and options.objective == "quantile":
        raise OptionError(
            "option 'monotone' is not available with objective 'quantile', whose leaves are "
            "quantiles: leave one of them out"
        )


OPTIONS = OptionTable(
    TreeOptions,
    (
        Option(
            "objective",
            choice(*OBJECTIVES),
            "squared",
            "the loss that the trees lower; logistic: labels are two classes or more; poisson: "
            "labels are counts; quantile and huber: as the tasks of these names",
        ),
        Option("trees", integer(1, 100_000), 100, "the trees, one per iteration"),
        Option("num_leaves", integer(2, 65_536), 31, "the most leaves of a tree"),
        Option("max_depth", integer(0, 65_535), 0, "the most splits above a leaf; 0: any number"),
        Option("learning_rate", real(0, open_low=True), 0.1, "the factor of what each leaf says"),
        Option("min_child_rows", integer(1, 2**31 - 1), 20, "the least rows of a leaf"),
        Option(
            "min_child_hessian", real(0), 1e-3, "the least sum of second derivatives of a leaf"
        ),
        Option("min_gain", real(0), 0.0, "what a split must gain more than"),
        Option("l1", real(0), 0.0, "how far the sum of gradients of a leaf is shrunk towards 0"),
        Option("l2", real(0), 0.0, "what is added to the sum of second derivatives of a leaf"),
        Option(
            "feature_fraction",
            real(0, open_low=True),
            1.0,
            "the fraction of the features that each tree may use; 1 or more: all of them",
        ),
        Option(
            "row_fraction",
            real(0, open_low=True),
            1.0,
            "the fraction of the rows that each tree grows on; 1 or more: all of them",
        ),
        Option(
            "quantile",
            real(0, 1, open_low=True),
            0.5,
            "objective `quantile`: the share of the labels that lie below the prediction",
        ),
        Option(
            "delta",
            real(0, open_low=True),
            1.0,
            "objective `huber`: the residual, in units of the label, from which on the loss is "
            "linear",
        ),
        Option(
            "monotone",
            SIGNS,
            None,
            "for each feature whether predictions may only rise with it (1), only fall (-1), or "
            "either (0); by name, features that are left out have 0",
        ),
        Option("max_bins", integer(2, MOST_BINS), MOST_BINS, "the most bins of a feature"),
        Option(
            "patience",
            integer(1, 100_000),
            10,
            "with `validation`, the trees without a lower loss after which training ends",
        ),
        Option(
            "missing",
            choice(*MISSING),
            "keep",
            "what becomes of a row with a NULL: `keep` trains on it; splits learn a side for the "
            "NULLs of a number, and those of a category are a level of its own; `skip` leaves it "
            "out; `impute`, `level` and `error` are for rows by name, as with other tasks",
        ),
        *("threads", "seed", "validation", "classes", "format"),
    ),
    _check,
)
"""The defaults are LightGBM's, which its users know."""
