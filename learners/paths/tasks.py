"""The tasks of linear models that select features, as data."""

from dataclasses import dataclass

from tuskml.kernels.paths.fitting import LOGISTIC, SQUARED
from tuskml.learners.tasks import Task, built_in, in_table


@dataclass(frozen=True, kw_only=True)
class PathTask(Task):
    """A task whose penalty has an L1 part. loss: the kernels' number; response: the function of
    the margin, `identity` or `logistic`.
    """

    loss: int
    response: str


TASKS = {
    name: built_in(task)
    for name, task in {
        "lasso": PathTask(**in_table("lasso"), loss=SQUARED, response="identity"),
        "elastic_net": PathTask(**in_table("elastic_net"), loss=SQUARED, response="identity"),
        "sparse_logistic": PathTask(
            **in_table("sparse_logistic"), loss=LOGISTIC, response="logistic"
        ),
    }.items()
}
"""The tasks by learner, in the form that a learner has them."""
