"""What tuskml and other systems have, feature by feature, for the comparison's table.

What tuskml has is looked up among what is registered, so a row follows the code. What others have
is from the sources that docs/comparison.md names.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import tuskml
from tuskml.groups.selection.candidates import SEARCHES
from tuskml.learners.learner import Pooled
from tuskml.learners.registry import TASKS, learner_of


@dataclass(frozen=True)
class Feature:
    """A row. needs: what tuskml must have registered for it, each `task NAME`, `option TASK NAME`,
    `search OPTION`, `function NAME`, `python FUNCTION`, `pooled` or `nothing`; test: the file and
    the function that test it, '' where tuskml lacks it; others: the systems that have it, with a
    star in part; note: what tuskml's cell says besides.
    """

    name: str
    needs: tuple[str, ...]
    test: str
    others: str
    note: str = ""


SYSTEMS = (
    "anofox_ml", "anofox_statistics", "ml", "vgi", "duckboost", "MADlib", "BigQuery", "HANA",
    "Oracle",
)  # fmt: skip
FEATURES = (
    Feature(
        "a model per group",
        ("nothing",),
        "sql/inference/test_tasks.py::test_groups_are_models_of_their_own",
        "anofox_ml, anofox_statistics, vgi, duckboost, MADlib*, HANA, Oracle",
        "`GROUP BY`",
    ),
    Feature(
        "many classes",
        ("task multinomial",),
        "sql/inference/test_multinomial.py::test_without_a_penalty_it_is_statsmodels_mnlogit",
        "anofox_ml, ml, vgi, duckboost, MADlib, BigQuery, HANA, Oracle",
    ),
    Feature(
        "gamma and negative binomial",
        ("task gamma", "task negative_binomial"),
        "sql/inference/test_tasks.py::test_gamma_is_statsmodels_glm",
        "anofox_ml*, anofox_statistics, vgi*, MADlib*, HANA*",
    ),
    Feature(
        "Tweedie",
        ("task tweedie",),
        "sql/inference/test_tasks.py::test_tweedie_is_statsmodels_glm",
        "anofox_ml, anofox_statistics, vgi",
    ),
    Feature(
        "probit, cloglog",
        ("option logistic link",),
        "sql/inference/test_links.py::test_a_link_is_that_of_a_glm",
        "anofox_statistics, MADlib, Oracle",
    ),
    Feature(
        "ordinal classes",
        ("task ordinal",),
        "sql/inference/test_ordinal.py::test_housing_is_polr",
        "ml, MADlib",
    ),
    Feature("isotonic regression", ("task isotonic",), "", "anofox_ml, anofox_statistics, vgi"),
    Feature(
        "quantiles",
        ("task quantile",),
        "sql/inference/test_tasks.py::test_quantile_is_the_optimum_of_its_linear_program",
        "anofox_ml, anofox_statistics, vgi, duckboost",
    ),
    Feature(
        "paths of the lasso",
        ("task lasso", "task elastic_net", "task sparse_logistic"),
        "sql/paths/test_paths_in_sql.py::test_the_lasso_is_scikit_learn_s",
        "anofox_ml*, anofox_statistics*, vgi*, MADlib*, HANA*",
    ),
    Feature(
        "pooling of groups",
        ("pooled",),
        "front/training/test_pooling.py::test_partial_pooling_wins_between_them",
        "anofox_statistics",
    ),
    Feature("splines", ("task gam",), "", "vgi*"),
    Feature(
        "robust and clustered errors",
        ("option linear covariance", "option linear cluster"),
        "sql/inference/test_robust.py::test_robust_errors_are_the_sandwich",
        "anofox_statistics, MADlib",
    ),
    Feature(
        "intervals of predictions",
        ("function predict_interval",),
        "sql/selection/test_conformal.py::test_an_interval_reaches_as_far_as_its_level_needs",
        "anofox_ml, anofox_statistics, duckboost*, BigQuery*, HANA*, Oracle*",
    ),
    Feature(
        "boosted trees, forests",
        ("task gbdt", "task random_forest"),
        "sql/trees/test_trees.py::test_sql_trains_what_the_kernels_grow",
        "anofox_ml, ml, vgi, duckboost, MADlib, BigQuery, HANA, Oracle",
    ),
    Feature(
        "neural nets",
        ("task mlp",),
        "sql/nets/test_nets.py::test_numbers_are_predicted_by_the_formula",
        "anofox_ml, ml, vgi, MADlib, BigQuery, HANA, Oracle",
    ),
    Feature(
        "matrix factorization",
        ("task matrix_factorization",),
        "sql/factorization/test_factorization.py::test_each_group_has_its_own_model",
        "vgi*, MADlib*, BigQuery, HANA",
    ),
    Feature(
        "factorization machines",
        ("task fm",),
        "sql/fm/test_machines.py::test_numbers_are_predicted_by_the_formula",
        "HANA",
    ),
    Feature(
        "topics",
        ("task lda",),
        "sql/topics/test_topics_in_sql.py::test_each_group_has_words_and_topics_of_its_own",
        "vgi, MADlib, HANA",
    ),
    Feature(
        "k-means",
        ("task kmeans",),
        "sql/clusters/test_kmeans_in_sql.py::test_predictions_and_distances",
        "anofox_ml, ml, vgi, MADlib, BigQuery, HANA, Oracle",
    ),
    Feature(
        "principal components",
        ("task pca",),
        "",
        "anofox_ml, anofox_statistics*, ml, vgi, MADlib, BigQuery, HANA, Oracle",
    ),
    Feature(
        "anomalies",
        ("task isolation_forest",),
        "",
        "anofox_ml, anofox_statistics*, vgi, BigQuery, HANA, Oracle",
    ),
    Feature(
        "ARIMA and the like",
        ("task arima",),
        "",
        "anofox_statistics, ml, MADlib, BigQuery, HANA, Oracle",
    ),
    Feature("survival", ("task cox",), "", "anofox_statistics*, ml, MADlib, HANA"),
    Feature(
        "naive Bayes, k-NN",
        ("task naive_bayes", "task knn"),
        "",
        "anofox_ml, ml, vgi, MADlib, HANA, Oracle*",
    ),
    Feature(
        "categories as features",
        ("option linear categories",),
        "sql/named/test_levels.py::test_coefficients_are_those_of_a_factor",
        "anofox_ml, vgi, duckboost*, MADlib, BigQuery, HANA, Oracle",
    ),
    Feature("TF-IDF", ("function tf_idf",), "", "anofox_ml, vgi, MADlib, BigQuery, Oracle"),
    Feature(
        "calibrated probabilities",
        ("search calibration",),
        "sql/selection/test_calibration.py::test_probabilities_are_those_of_scikit_learn",
        "anofox_ml, vgi*",
    ),
    Feature(
        "explanations by row",
        ("function explain_prediction",),
        "sql/trees/test_explain_prediction.py::test_values_are_those_of_all_subsets",
        "BigQuery, HANA, Oracle",
    ),
    Feature(
        "drift from the training",
        ("option linear histogram", "function drift"),
        "sql/inference/test_drift_from_models.py::test_numbers_are_those_of_scipy",
        "anofox_ml, BigQuery",
    ),
    Feature(
        "a search per group",
        ("search folds", "function model_trials"),
        "sql/selection/test_search.py::test_winners_and_metrics_are_those_of_grid_search",
        "duckboost*, HANA",
    ),
    Feature(
        "a search over tasks",
        ("search tasks",),
        "sql/selection/test_search.py::test_tasks_compete",
        "anofox_ml*, vgi*, BigQuery, HANA, Oracle",
    ),
    Feature(
        "tests of hypotheses", ("function t_test",), "", "anofox_statistics, MADlib*, HANA, Oracle"
    ),
    Feature(
        "models as plain SQL",
        ("function model_to_sql",),
        "sql/test_model_to_sql.py::test_the_expression_is_python_s_and_gives_the_model_s_numbers",
        "duckboost",
    ),
    Feature(
        "models of XGBoost and LightGBM",
        ("function model_from",),
        "postgres/training/test_model_from.py::test_sql_predicts_as_the_package_does",
        "ml*, duckboost, BigQuery, Oracle*",
    ),
    Feature(
        "rolling frames",
        ("function rolling_model",),
        "sql/rolling/test_rolling_model.py::test_any_frame_is_a_training_of_its_rows",
        "anofox_statistics",
    ),
    Feature(
        "models larger than memory",
        ("option linear store",),
        "learners/linear/stored/test_truth.py::test_the_optimum",
        "MADlib*",
    ),
    Feature(
        "rows larger than memory",
        ("nothing",),
        "faults/test_memory.py::test_the_same_model_bit_for_bit",
        "MADlib*",
    ),
    Feature(
        "the plan of a training",
        ("function explain_training",),
        "sql/golden/test_parity.py::test_explanations",
        "BigQuery*",
    ),
    Feature(
        "a status per group",
        ("nothing",),
        "sql/training/test_invalid.py::test_a_group_with_a_bad_feature_spoils_no_other",
        "anofox_statistics*, MADlib*, BigQuery*, HANA, Oracle*",
        "field `status`",
    ),
)


def is_registered(need: str, functions: Collection[str]) -> bool:
    """Returns whether tuskml has what a row needs; functions: those of both databases."""
    kind, *names = need.split()
    tests: dict[str, Callable[[str], bool]] = {
        "task": lambda name: any(name in (task.name, *task.also) for task in TASKS.values()),
        "option": lambda task: names[1] in learner_of(TASKS[task]).options.by_name,
        "function": lambda name: name in functions,
        "search": lambda name: name in SEARCHES,
        "python": lambda name: hasattr(tuskml, name),
        "pooled": lambda _: type(learner_of(TASKS["linear"]).pooled) is not Pooled,
        "nothing": lambda _: True,
    }
    return tests[kind](names[0] if names else "")


def has(feature: Feature, functions: Collection[str]) -> bool:
    """Returns whether tuskml has a feature."""
    return all(is_registered(need, functions) for need in feature.needs)


def own_cell(feature: Feature, functions: Collection[str]) -> str:
    """What tuskml has of a feature: the names by which it is used."""
    if not has(feature, functions):
        return "–"
    names = (need.split() for need in feature.needs)
    shown = [f"`{name[-1]}`" for name in names if name[0] != "nothing"]
    return ", ".join([*shown, *([feature.note] if feature.note else [])]) or "yes"
