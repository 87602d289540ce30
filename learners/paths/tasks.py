"""The tasks of linear models that select features, as data."""

from dataclasses import dataclass

from tuskml.kernels.paths.fitting import LOGISTIC, SQUARED
from tuskml.learners.tasks import Task, built_in


@dataclass(frozen=True, kw_only=True)
class PathTask(Task):
    """A task whose penalty has an L1 part. loss: the kernels' number; response: what a margin
    says, `identity` or `logistic`."""

    loss: int
    response: str


TASKS = {
    name: built_in(task)
    for name, task in {
        "lasso": PathTask("lasso", "1/2 (m - y)^2", loss=SQUARED, response="identity"),
        "elastic_net": PathTask("elastic_net", "1/2 (m - y)^2", loss=SQUARED, response="identity"),
        "sparse_logistic": PathTask(
            "sparse_logistic", "log(1 + exp(-y m))", True, loss=LOGISTIC, response="logistic"
        ),
    }.items()
}
"""By name, each as the tasks of one learner."""
