"""Options of trees as the kernels have them."""

from dataclasses import replace

import numpy as np

from tuskml.kernels.trees.boosting import (
    GINI,
    LOGISTIC,
    POISSON,
    SOFTMAX,
    Rules,
    least_bin_rows,
    least_child_rows,
)
from tuskml.learners.trees.forest_options import ForestOptions
from tuskml.learners.trees.options import OBJECTIVES, TreeOptions


def classifies(options: TreeOptions) -> bool:
    """Returns whether labels are classes."""
    return OBJECTIVES[options.objective] in (LOGISTIC, GINI)


OWN_LEAST = -1e-3
"""The default of `min_child_hessian`, in the units of a group's rows (`tk_boost`)."""


def rules_of(options: TreeOptions, several: bool = False) -> Rules:
    """The options as the kernels have them; several: whether there are more than two classes."""
    least = options.min_child_hessian
    shape = (options.delta or 0.0) if options.objective == "huber" else options.quantile
    return Rules(
        objective=SOFTMAX if several else OBJECTIVES[options.objective],
        trees=options.trees,
        num_leaves=options.num_leaves,
        max_depth=options.max_depth,
        max_bins=options.max_bins,
        patience=options.patience,
        min_child_rows=options.min_child_rows or 0,
        min_child_hessian=OWN_LEAST if least is None else least,
        min_gain=options.min_gain,
        l1=options.l1,
        l2=options.l2,
        learning_rate=options.learning_rate,
        feature_fraction=options.feature_fraction or 1.0,
        row_fraction=options.row_fraction,
        top_rate=options.goss * options.top_rate,
        other_rate=options.goss * options.other_rate,
        shape=shape,
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


def in_units_of(rules: Rules, labels: np.void, n: int) -> Rules:
    """The rules for a group with such LABELS, in the kernels' form for groups in one process.

    n: the rows that trees grow on.
    """
    rules = replace(rules, min_child_rows=rules.min_child_rows or least_child_rows(n))
    if rules.min_child_hessian >= 0:
        return rules
    unit = float(labels["weight"] / labels["n_rows"])
    if rules.objective == POISSON:
        unit *= min(float(labels["mean"]), 1.0)
    return replace(rules, min_child_hessian=-unit * rules.min_child_hessian)


def averaged(rules: Rules, options: ForestOptions, n_features: int) -> Rules:
    """The rules of a random forest, which draws features for each split."""
    few = n_features**-0.5 if classifies(options) else 1 / 3
    share = options.feature_fraction or few
    least = 1 / max(n_features, 1)  # draws one feature at least
    return replace(
        rules,
        objective=OBJECTIVES[options.objective],
        learning_rate=1 / options.trees,
        feature_fraction=1.0,
        averaged=1,
        node_fraction=min(max(share, least), 1.0),
    )
