"""A call of `train_model` whose task is `matrix_factorization`."""

from tuskml.learners import learner
from tuskml.learners.factorization.options import FactorizationOptions
from tuskml.learners.tasks import Task

Request = learner.Request[Task, FactorizationOptions]
