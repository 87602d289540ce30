"""The options of random forests, with their defaults."""

from dataclasses import dataclass, replace

from tuskml.learners.options.kinds import Option, choice, integer, real
from tuskml.learners.options.table import OptionTable
from tuskml.learners.trees.options import OPTIONS, TreeOptions

NO_LIMIT = 2**31 - 1
"""Leaves of a tree."""


@dataclass(frozen=True, kw_only=True)
class ForestOptions(TreeOptions):
    """The options of a call whose task is `random_forest`; what it has no option for is fixed.

    feature_fraction: None for the square root of the number of features for classes, and a third
    of them for numbers (Breiman 2001).
    """

    feature_fraction: float | None  # type: ignore[assignment]
    min_child_rows: int
    learning_rate: float = 1.0
    min_child_hessian: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    quantile: float = 0.5
    delta: float = 1.0
    monotone: tuple[int, ...] | None = None
    bounds: None = None
    goss: bool = False
    top_rate: float = 0.0
    other_rate: float = 0.0
    patience: int = 0


def _like(name: str, **given: object) -> Option:
    """The option of boosted trees of this name, with another default or meaning."""
    return replace(OPTIONS.by_name[name], **given)  # type: ignore[arg-type]


FOREST_OPTIONS = OptionTable(
    ForestOptions,
    (
        Option(
            "objective",
            choice("squared", "gini"),
            "squared",
            "`squared`: labels are numbers; `gini`: labels are two classes or more",
        ),
        _like("trees", meaning="the trees, whose leaves are averaged"),
        Option("num_leaves", integer(2, NO_LIMIT), NO_LIMIT, "the most leaves of a tree"),
        _like("max_depth"),
        _like("min_child_rows", default=1, meaning="the least rows of a leaf"),
        _like("min_gain"),
        Option(
            "feature_fraction",
            real(0, open_low=True),
            None,
            "the fraction of the features that are drawn for each split; default: the square "
            "root of their number for classes, a third of them for numbers",
        ),
        _like(
            "row_fraction",
            meaning="how many rows each tree draws, with replacement, as a fraction of all rows",
        ),
        _like("categorical"),
        _like("category_encoding"),
        _like("max_cat_threshold"),
        _like("max_cat_to_onehot"),
        _like("min_category_rows", default=1),
        _like("cat_smooth", default=1.0),
        _like("cat_l2", default=0.0),
        _like("max_bins"),
        _like("min_bin_rows", default=1, meaning="the least rows of a bin"),
        _like("missing"),
        *("threads", "seed", "classes", "format"),
    ),
)
