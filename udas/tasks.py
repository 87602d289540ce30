"""The built-in tasks; `scripts/build/tasks.py` writes this from `udas/rowblock/tasks.h`."""

from typing import NamedTuple


class TaskRow(NamedTuple):
    """A task as the table has it, whose columns the header describes, in lower case.

    metric: None where it is that of its labels.
    """

    learner: str
    kind: str
    response: str
    labels: str
    test: str | None
    metric: str | None
    formula: str


TASK_TABLE = {
    "linear": TaskRow(
        learner="linear",
        kind="linear",
        response="identity",
        labels="numbers",
        test="t",
        metric=None,
        formula="1/2 (m - y)^2",
    ),
    "logistic": TaskRow(
        learner="linear",
        kind="logistic",
        response="identity",
        labels="classes",
        test="z",
        metric=None,
        formula="log(1 + exp(-y m))",
    ),
    "svm": TaskRow(
        learner="linear",
        kind="svm",
        response="identity",
        labels="two",
        test=None,
        metric="accuracy",
        formula="max(0, 1 - y m)",
    ),
    "squared_hinge": TaskRow(
        learner="linear",
        kind="svm",
        response="identity",
        labels="two",
        test=None,
        metric="accuracy",
        formula="max(0, 1 - y m)^2",
    ),
    "poisson": TaskRow(
        learner="linear",
        kind="linear",
        response="exp",
        labels="numbers",
        test="z",
        metric="poisson_deviance",
        formula="exp(m) - y m",
    ),
    "negative_binomial": TaskRow(
        learner="linear",
        kind="linear",
        response="exp",
        labels="numbers",
        test="z",
        metric="poisson_deviance",
        formula="(y + 1/a) log(1 + a exp(m)) - y m",
    ),
    "gamma": TaskRow(
        learner="linear",
        kind="linear",
        response="exp",
        labels="numbers",
        test="t",
        metric="gamma_deviance",
        formula="y exp(-m) + m",
    ),
    "tweedie": TaskRow(
        learner="linear",
        kind="linear",
        response="exp",
        labels="numbers",
        test="t",
        metric="tweedie_deviance",
        formula="exp((2 - p) m) / (2 - p) + y exp((1 - p) m) / (p - 1)",
    ),
    "inverse_gaussian": TaskRow(
        learner="linear",
        kind="linear",
        response="exp",
        labels="numbers",
        test="t",
        metric=None,
        formula="y exp(-2 m) / 2 - exp(-m)",
    ),
    "huber": TaskRow(
        learner="linear",
        kind="linear",
        response="identity",
        labels="numbers",
        test="z",
        metric="mae",
        formula="r^2/2 of r = m - y up to |r| = delta, then delta (|r| - delta/2)",
    ),
    "quantile": TaskRow(
        learner="linear",
        kind="linear",
        response="identity",
        labels="numbers",
        test=None,
        metric="pinball",
        formula="max(q (y - m), (q - 1) (y - m))",
    ),
    "ordinal": TaskRow(
        learner="ordinal",
        kind="ordinal",
        response="identity",
        labels="levels",
        test="z",
        metric=None,
        formula="-log(G(t_y - m) - G(t_(y - 1) - m)), t the thresholds of levels",
    ),
    "matrix_factorization": TaskRow(
        learner="factorization",
        kind="factorization",
        response="identity",
        labels="ratings",
        test=None,
        metric=None,
        formula="1/2 (m - y)^2",
    ),
    "gbdt": TaskRow(
        learner="trees",
        kind="boosted",
        response="identity",
        labels="either",
        test=None,
        metric=None,
        formula="by `objective` `1/2 (m - y)^2`, or that of the task of its name",
    ),
    "random_forest": TaskRow(
        learner="trees",
        kind="boosted",
        response="shares",
        labels="either",
        test=None,
        metric=None,
        formula="by option `objective` 1/2 (m - y)^2 or, for classes, Gini's impurity",
    ),
    "mlp": TaskRow(
        learner="nets",
        kind="net",
        response="identity",
        labels="either",
        test=None,
        metric=None,
        formula="`1/2 (m - y)^2`, or `log(1 + exp(-y m))` by option `objective`",
    ),
    "lasso": TaskRow(
        learner="paths",
        kind="linear",
        response="identity",
        labels="numbers",
        test=None,
        metric=None,
        formula="1/2 (m - y)^2",
    ),
    "elastic_net": TaskRow(
        learner="paths",
        kind="linear",
        response="identity",
        labels="numbers",
        test=None,
        metric=None,
        formula="1/2 (m - y)^2",
    ),
    "sparse_logistic": TaskRow(
        learner="paths",
        kind="logistic",
        response="identity",
        labels="two",
        test=None,
        metric=None,
        formula="log(1 + exp(-y m))",
    ),
    "lda": TaskRow(
        learner="topics",
        kind="topics",
        response="identity",
        labels="documents",
        test=None,
        metric="perplexity",
        formula="-log p(words, topics) of a token",
    ),
    "kmeans": TaskRow(
        learner="clusters",
        kind="centres",
        response="identity",
        labels="none",
        test=None,
        metric="silhouette",
        formula="min_j |x - c_j|^2",
    ),
    "fm": TaskRow(
        learner="fm",
        kind="machine",
        response="identity",
        labels="either_two",
        test=None,
        metric=None,
        formula="`1/2 (m - y)^2`, or `log(1 + exp(-y m))` by option `objective`",
    ),
}
"""By name, in the order of the manual."""
