"""The options of boosted trees, with their defaults."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuskml.errors import OptionError
from tuskml.kernels.trees.boosting import (
    MOST_BINS,
    SOFTMAX,
    Rules,
    least_bin_rows,
    least_child_rows,
    usual_curvature,
    usual_feature_fraction,
    usual_l2,
    usual_row_fraction,
)
from tuskml.learners.options.kinds import (
    BOOLEAN,
    CATEGORY,
    EVERYWHERE,
    LIST,
    MISSING,
    PARTS,
    Acts,
    Beside,
    Kind,
    Option,
    choice,
    integer,
    real,
    with_option,
)
from tuskml.learners.options.other_names import objective_hint
from tuskml.learners.options.table import SHARED, Options, OptionTable, acts_on_missing
from tuskml.learners.trees.constraints import (
    BOUNDS,
    SETS,
    SIGNS,
    Bounds,
    BoundsByName,
    ByName,
    Sets,
)
from tuskml.learners.trees.forest import BOOSTED, OBJECTIVES
from tuskml.learners.trees.warm_start import TREES_BEFORE

BY_GRADIENTS = with_option(
    "objective", *(name for name in BOOSTED if OBJECTIVES[name].by_gradients)
)
"""Objectives whose leaves are means of gradients; those of the others are quantiles."""
OF_CLASSES = SHARED["class_weight"].acts
CLASS_WEIGHT = replace(
    SHARED["class_weight"],
    acts=tuple(replace(case, where=case.where - {PARTS}) for case in OF_CLASSES),
)
OF_LISTS = (
    Acts(
        frozenset((LIST,)),
        instead="whose columns of text are categories: expected option 'categories', the names of "
        "columns of numbers",
    ),
)
OF_LEVELS = (
    Acts(frozenset((LIST,)), (Beside("categorical"),)),
    Acts(
        frozenset((CATEGORY,)),
        (Beside("category_encoding", "native"), Beside("interactions", None)),
    ),
)
"""Acts if features are numbers of levels."""
ENCODING = (
    Acts(frozenset((CATEGORY,)), (Beside("interactions", None),)),
    Acts(frozenset((CATEGORY,)), values=("one_hot",)),
)


def _places(value: Any) -> tuple[int, ...]:
    given = value if isinstance(value, list) else []
    if not given or any(type(one) is not int or one < 1 for one in given):
        raise ValueError
    return tuple(sorted(set(given)))


PLACES = Kind("a list of places of features, the first being 1, such as [2, 5]", _places)


@dataclass(frozen=True, kw_only=True)
class TreeOptions(Options):
    """The options of a call whose task is `gbdt`."""

    objective: str
    trees: int
    num_leaves: int
    max_depth: int
    learning_rate: float
    min_child_rows: int | None
    min_child_hessian: float | None
    min_gain: float
    l1: float
    l2: float | None
    feature_fraction: float | None
    row_fraction: float | None
    goss: bool
    top_rate: float
    other_rate: float
    quantile: float
    power: float
    delta: float | None
    monotone: tuple[int, ...] | ByName | None
    interaction_constraints: Sets | None
    categorical: tuple[int, ...] | None
    category_encoding: str
    max_cat_threshold: int
    max_cat_to_onehot: int
    min_category_rows: int
    cat_smooth: float
    cat_l2: float
    max_bins: int
    min_bin_rows: int | None
    bounds: tuple[Bounds, ...] | BoundsByName | None
    patience: int


def _check(options: TreeOptions) -> None:
    """Raises OptionError for values that cannot go together."""
    if options.goss:
        _check_goss(options)
    _check_signs(options)


def _check_signs(options: TreeOptions) -> None:
    """Raises OptionError for a sign of a feature that is a category."""
    signs = options.monotone if isinstance(options.monotone, tuple) else ()
    both = next((f for f in options.categorical or () if f <= len(signs) and signs[f - 1]), None)
    if both is not None:
        raise OptionError(
            f"option 'monotone' has a sign for feature {both}, which option 'categorical' lists: "
            "the levels of a category have no order, expected 0"
        )


def _check_goss(options: TreeOptions) -> None:
    """Raises OptionError for options that gradient-based sampling does not support."""
    if (options.row_fraction or 1.0) < 1:
        raise OptionError(
            "options 'goss' and 'row_fraction' both draw rows: leave one of them out"
        )
    if options.top_rate + options.other_rate > 1:
        raise OptionError(
            f"options 'top_rate' and 'other_rate' are {options.top_rate:g} and "
            f"{options.other_rate:g}, expected fractions of the rows that add up to 1 at most"
        )


OPTIONS = OptionTable(
    TreeOptions,
    (
        Option(
            "objective",
            choice(*BOOSTED, elsewhere=objective_hint),
            "squared",
            "the loss that the trees lower, as that of the task of its name",
        ),
        Option("trees", integer(1, 100_000), 100, "the trees, one per iteration"),
        Option("num_leaves", integer(2, 65_536), 31, "the most leaves of a tree"),
        Option("max_depth", integer(0, 65_535), 0, "the most splits above a leaf; 0: any number"),
        Option("learning_rate", real(0, open_low=True), 0.1, "the factor of each leaf's value"),
        Option(
            "min_child_rows",
            integer(1, 2**31 - 1),
            None,
            "the least rows of a leaf; default: a twelfth of the group's rows, from 3 to 20",
        ),
        Option(
            "min_child_hessian",
            real(0),
            None,
            "the least sum of second derivatives of a leaf; default: 0.001 of a row's mean "
            "weight, times the mean count of `poisson` if below 1, or the mean amount of "
            "`tweedie` to the power 2 - `power`",
        ),
        Option("min_gain", real(0), 0.0, "the gain that a split must exceed"),
        Option(
            "l1", real(0), 0.0, "the amount by which a leaf's sum of gradients is shrunk towards 0"
        ),
        Option(
            "l2",
            real(0),
            None,
            "added to a leaf's sum of second derivatives; default: that of one row in groups of "
            "fewer than 200 rows, 0 in others",
        ),
        Option(
            "feature_fraction",
            real(0, open_low=True),
            None,
            "the fraction of the features that each tree may use; 1 or more: all of them; "
            "default: 0.6 in groups of fewer than 200 rows, all in others",
        ),
        Option(
            "row_fraction",
            real(0, open_low=True),
            None,
            "the fraction of the rows that each tree grows on; 1 or more: all; default: 0.7 in "
            "groups of fewer than 200 rows without `goss`, all in others",
        ),
        Option(
            "goss",
            BOOLEAN,
            False,
            "whether trees grow on the rows with the largest gradients and a few others, which "
            "count more; the first 1 / learning_rate trees grow on all",
            BY_GRADIENTS,
        ),
        Option(
            "top_rate",
            real(0, 1, open_low=True),
            0.2,
            "the fraction of rows drawn for their large gradients",
            with_option("goss"),
        ),
        Option(
            "other_rate",
            real(0, 1, open_low=True),
            0.1,
            "the others drawn, as a fraction of all rows",
            with_option("goss"),
        ),
        Option(
            "quantile",
            real(0, 1, open_low=True),
            0.5,
            "the share of labels below the prediction",
            with_option("objective", "quantile"),
        ),
        Option(
            "power",
            real(1, 2, open_low=True),
            1.5,
            "p in the variance mu^p, between 1 (`poisson`) and 2 (`gamma`)",
            with_option("objective", "tweedie"),
        ),
        Option(
            "delta",
            real(0, open_low=True),
            None,
            "the residual from which the loss is linear; default: 1.345 times a robust scale of"
            " the residuals before each tree",
            with_option("objective", "huber"),
        ),
        Option(
            "monotone",
            SIGNS,
            None,
            "whether predictions may only rise with a feature (1), only fall (-1), or both (0, "
            "or left out by name)",
            BY_GRADIENTS,
        ),
        Option(
            "interaction_constraints",
            SETS,
            None,
            "sets of features: splits on the way to a leaf use one set, and a feature in no set"
            " is used alone",
        ),
        Option(
            "categorical",
            PLACES,
            None,
            "features that are categories, with levels from 0 to 65,535",
            OF_LISTS,
        ),
        Option(
            "category_encoding",
            choice("native", "one_hot"),
            "native",
            "`native` splits by sets of levels; `one_hot` makes a feature of each level, as "
            "`interactions` always does",
            ENCODING,
        ),
        Option(
            "max_cat_threshold",
            integer(1, MOST_BINS),
            32,
            "the most levels on the left of a split",
            OF_LEVELS,
        ),
        Option(
            "max_cat_to_onehot",
            integer(0, MOST_BINS),
            4,
            "a category of at most this many levels is split by one level against the others",
            OF_LEVELS,
        ),
        Option(
            "min_category_rows",
            integer(1, 2**31 - 1),
            100,
            "the least rows on either side of a split by a set of levels",
            OF_LEVELS,
        ),
        Option(
            "cat_smooth",
            real(0),
            10.0,
            "the rows that a level needs to be in a set, also added to the second derivatives "
            "that sort levels",
            OF_LEVELS,
        ),
        Option(
            "cat_l2",
            real(0),
            10.0,
            "added to `l2` for splits by sets of levels",
            OF_LEVELS,
        ),
        Option("max_bins", integer(2, MOST_BINS), MOST_BINS, "the most bins of a feature"),
        Option(
            "min_bin_rows",
            integer(1, 2**31 - 1),
            None,
            "the least rows of a bin; default: 1 for groups below 256 rows, up to 4 for larger "
            "ones, and at most `min_child_rows`",
        ),
        Option(
            "bounds",
            BOUNDS,
            None,
            "bounds between the bins of features for all groups; null, or left out by name: "
            "each group finds its own",
        ),
        Option(
            "patience",
            integer(1, 100_000),
            10,
            "the trees without a lower held-out loss after which training ends",
            with_option("validation"),
        ),
        Option(
            "missing",
            choice(*MISSING),
            "keep",
            "a row with a NULL: `keep` trains on it, with a side of splits for the NULLs of a "
            "number, and a level for those of a category; the others are as with other tasks",
            acts_on_missing("skip", "keep"),
        ),
        Option(
            "warm_start",
            TREES_BEFORE,
            None,
            "the model that is continued with `trees` more trees",
        ),
        CLASS_WEIGHT,
        *("threads", "seed", "validation", "classes", "format"),
    ),
    _check,
)
"""The defaults are those of LightGBM, except for the least rows of leaves and bins."""


# The options of random forests, with their defaults.


NO_LIMIT = 2**31 - 1
"""Leaves of a tree."""


@dataclass(frozen=True, kw_only=True)
class ForestOptions(TreeOptions):
    """The options of a call whose task is `random_forest`; settings without an option are fixed.

    feature_fraction: None for the square root of the number of features for classes (Breiman
    2001), and 0.6 of them for numbers.
    """

    row_fraction: float
    min_child_rows: int
    learning_rate: float = 1.0
    min_child_hessian: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    quantile: float = 0.5
    power: float = 1.5
    delta: float = 1.0
    interaction_constraints: None = None
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
            "root of their number for classes, 0.6 of them for numbers",
        ),
        _like(
            "row_fraction",
            default=1.0,
            meaning="how many rows each tree draws, with replacement, as a fraction of all rows",
        ),
        _like("monotone", acts=EVERYWHERE),
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
        CLASS_WEIGHT,
        *("threads", "seed", "classes", "format"),
    ),
    _check_signs,
)


# Options of trees as the kernels have them.


def classifies(options: TreeOptions) -> bool:
    """Returns whether labels are classes."""
    return options.objective in ("logistic", "gini")


OWN_LEAST = -1e-3
"""The default of `min_child_hessian`, in the units of a group's rows (`tk_boost`)."""


def _chosen_fraction(options: TreeOptions) -> float:
    """The fraction of the rows that options choose: all with `goss`; 0 for the group's default."""
    return options.row_fraction or (1.0 if options.goss else 0.0)


OF_FEW_ROWS = -1.0
"""The default of `l2` (`tk_boost`)."""


def rules_of(options: TreeOptions, several: bool = False) -> Rules:
    """The options as the kernels have them; several: whether there are more than two classes."""
    least = options.min_child_hessian
    objective = OBJECTIVES[options.objective]
    shape = getattr(options, objective.shape) if objective.shape else None
    return Rules(
        objective=SOFTMAX if several else objective.number,
        trees=options.trees,
        num_leaves=options.num_leaves,
        max_depth=options.max_depth,
        max_bins=options.max_bins,
        patience=options.patience,
        min_child_rows=options.min_child_rows or 0,
        min_child_hessian=OWN_LEAST if least is None else least,
        min_gain=options.min_gain,
        l1=options.l1,
        l2=OF_FEW_ROWS if options.l2 is None else options.l2,
        learning_rate=options.learning_rate,
        feature_fraction=options.feature_fraction or 0.0,
        row_fraction=_chosen_fraction(options),
        top_rate=options.goss * options.top_rate,
        other_rate=options.goss * options.other_rate,
        shape=shape or 0.0,
        seed=options.seed,
        max_cat_threshold=options.max_cat_threshold,
        max_cat_to_onehot=options.max_cat_to_onehot,
        min_category_rows=options.min_category_rows,
        cat_smooth=options.cat_smooth,
        cat_l2=options.cat_l2,
        min_bin_rows=options.min_bin_rows or 0,
    )


def child_rows(options: TreeOptions, n: int) -> int:
    """The least rows of a leaf in a group of n rows."""
    return options.min_child_rows or least_child_rows(n)


def bin_rows(options: TreeOptions, n: int) -> int:
    """The usual number of rows in a bin of a group of n rows, if there are enough bins."""
    if options.min_bin_rows:
        return options.min_bin_rows
    return 2 * min(least_bin_rows(n), child_rows(options, n)) - 1


def row_fraction(options: TreeOptions, n: int) -> float:
    """The fraction of the rows that each tree of a group of n rows grows on."""
    return _chosen_fraction(options) or usual_row_fraction(n)


def in_units_of(rules: Rules, labels: np.void, n: int) -> Rules:
    """The rules for a group with such LABELS, in the kernels' form for groups in one process.

    n: the rows that trees grow on.
    """
    unit = float(labels["weight"] / labels["n_rows"])
    unit *= usual_curvature(rules, float(labels["mean"]))
    least = rules.min_child_hessian
    return replace(
        rules,
        min_child_rows=rules.min_child_rows or least_child_rows(n),
        min_child_hessian=least if least >= 0 else -unit * least,
        l2=rules.l2 if rules.l2 >= 0 else unit * usual_l2(n),
        feature_fraction=rules.feature_fraction or usual_feature_fraction(n),
        row_fraction=rules.row_fraction or usual_row_fraction(n),
    )


def forest_rules(rules: Rules, options: ForestOptions, n_features: int) -> Rules:
    """The rules of a random forest, which draws features for each split."""
    usual = n_features**-0.5 if classifies(options) else 0.6
    share = options.feature_fraction or usual
    least = 1 / max(n_features, 1)  # draws one feature at least
    return replace(
        rules,
        objective=OBJECTIVES[options.objective].number,
        learning_rate=1 / options.trees,
        feature_fraction=1.0,
        averaged=1,
        node_fraction=min(max(share, least), 1.0),
    )
