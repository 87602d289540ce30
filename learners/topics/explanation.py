"""The explanation of a training of topics, which has one plan."""

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.explaining.explanation import Document, document, plan_document
from tuskml.learners.learner import Request
from tuskml.learners.tasks import Task
from tuskml.learners.topics.options import TopicOptions
from tuskml.learners.topics.outcome import plan_of


def explain(group: NDArray[np.void], request: Request[Task, TopicOptions]) -> Document:
    """Explains the training of one group."""
    options = request.options
    because = (
        "it reads each document once a pass, and topics may be fractions of a token"
        if options.online
        else "it draws from the exact conditional of each token's topic"
    )
    return document(
        group,
        request.task.name,
        "bound of -log p(words) of a token" if options.online else request.task.formula,
        request.reading,
        plan=plan_document(
            options,
            plan_of(options),
            because,
            "documents by a hash of their content",
            options.passes,
        ),
    )
