"""Options of trees as the kernels have them."""

from dataclasses import replace

from tuskml.kernels.trees.boosting import GINI, LOGISTIC, SOFTMAX, Rules
from tuskml.learners.trees.forest_options import ForestOptions
from tuskml.learners.trees.options import OBJECTIVES, TreeOptions


def classifies(options: TreeOptions) -> bool:
    """Whether labels are classes."""
    return OBJECTIVES[options.objective] in (LOGISTIC, GINI)


def rules_of(options: TreeOptions, several: bool = False) -> Rules:
    """The options as the kernels have them; several: whether there are more than two classes."""
    return Rules(
        objective=SOFTMAX if several else OBJECTIVES[options.objective],
        trees=options.trees,
        num_leaves=options.num_leaves,
        max_depth=options.max_depth,
        max_bins=options.max_bins,
        patience=options.patience,
        min_child_rows=options.min_child_rows,
        min_child_hessian=options.min_child_hessian,
        min_gain=options.min_gain,
        l1=options.l1,
        l2=options.l2,
        learning_rate=options.learning_rate,
        feature_fraction=options.feature_fraction or 1.0,
        row_fraction=options.row_fraction,
        top_rate=options.goss * options.top_rate,
        other_rate=options.goss * options.other_rate,
        shape=options.delta if options.objective == "huber" else options.quantile,
        seed=options.seed,
        max_cat_threshold=options.max_cat_threshold,
        max_cat_to_onehot=options.max_cat_to_onehot,
        min_category_rows=options.min_category_rows,
        cat_smooth=options.cat_smooth,
        cat_l2=options.cat_l2,
    )


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
