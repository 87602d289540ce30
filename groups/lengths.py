"""How long rows are: what the iterations of dual coordinate descent depend on."""

from dataclasses import replace

import numpy as np

from tuskml.optimizer.costs import Question
from tuskml.udas.dual import Dual
from tuskml.udas.options import unfit
from tuskml.udas.problem import Problem

FEW = 1024
"""Rows that are looked at."""


def with_length(problem: Problem, question: Question) -> Question:
    """The question with the mean squared length of some rows of the largest group.

    The same question where no dual is possible, and where the answer may not depend on rows.
    """
    options = question.options
    fit = question.task.name == "svm" and unfit(options, "dcd") is None
    if not fit or options.ordered or question.gpu:
        return question
    largest = problem.of(np.array([int(np.argmax(problem.rows.groups["n_rows"]))]))
    rows = largest.rows.head(FEW)
    dual = Dual.of_rows(rows, largest.shift, options.l2, 0.0, 0, np.zeros(1))
    return replace(question, length=float(dual.norm.mean()))
