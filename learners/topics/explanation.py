"""The explanation of a training of topics, which has one plan."""

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.explaining.explanation import Document, document
from tuskml.learners.learner import Request
from tuskml.learners.tasks import Task
from tuskml.learners.topics.options import TopicOptions
from tuskml.learners.topics.outcome import plan_of


def explain(group: NDArray[np.void], request: Request[Task, TopicOptions]) -> Document:
    """What would run for one group."""
    options = request.options
    return document(
        group,
        request.task.name,
        "-log p(words, topics) of a token",
        request.reading,
        plan={
            "algorithm": "gibbs",
            "description": plan_of(options),
            "because": "it draws from the exact conditional of each token's topic",
            "order": "documents by a hash of their content",
            "threads": options.threads,
            "max_iter": options.max_iter,
            "epsilon": 0.0,
            "converge": "loss",
            "time": options.time,
        },
    )
