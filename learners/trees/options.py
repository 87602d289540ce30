"""The options of boosted trees, with their defaults."""

from dataclasses import dataclass

from tuskml.kernels.trees.boosting import LOGISTIC, MOST_BINS, SQUARED
from tuskml.learners.options.kinds import Option, choice, integer, real
from tuskml.learners.options.table import Options, OptionTable

OBJECTIVES = {"squared": SQUARED, "logistic": LOGISTIC}
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
    max_bins: int
    patience: int


OPTIONS = OptionTable(
    TreeOptions,
    (
        Option(
            "objective",
            choice(*OBJECTIVES),
            "squared",
            "the loss that the trees lower; logistic: labels are two classes",
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
        Option("max_bins", integer(2, MOST_BINS), MOST_BINS, "the most bins of a feature"),
        Option(
            "patience",
            integer(1, 100_000),
            10,
            "with `validation`, the trees without a lower loss after which training ends",
        ),
        *("threads", "seed", "validation", "classes", "format"),
    ),
)
"""The defaults are LightGBM's, which its users know."""
