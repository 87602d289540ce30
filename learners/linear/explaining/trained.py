"""The explanation of a training that has been made."""

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.explaining.text import written
from tuskml.learners.linear.estimates.question import Question
from tuskml.learners.linear.explaining.explanation import Actual, document
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.planner.choice import Choice
from tuskml.learners.linear.planner.planning import by_statistics
from tuskml.learners.linear.request import Request


def explained(
    groups: NDArray[np.void],
    request: Request,
    chosen: Choice,
    question: Question | None,
    state: State,
    began: float,
) -> str:
    """The whole explanation of a batch's training, with what it came to."""
    if question is not None and not chosen.candidates:  # it was instant anyway
        whole = by_statistics(chosen.plan, question)
        chosen = replace(chosen, candidates=whole.candidates)
    took = time.monotonic() - began
    actual = Actual(state.iterations, took, int(state.converged.sum()))
    return written(document(groups, request, chosen, actual), request.options.format)
