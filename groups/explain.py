"""`explain_training`: what would run for a group, and why."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.groups import devices, factorization_explanation
from tuskml.groups.explanation import document
from tuskml.groups.explanation_text import written
from tuskml.groups.objective import describe, start
from tuskml.groups.own import refuse_labels
from tuskml.groups.own_costs import measured
from tuskml.groups.planning import Request, by_statistics, decide, first_plan, with_elsewhere
from tuskml.groups.renumbered import own_request
from tuskml.groups.rows_seen import with_rows_seen
from tuskml.optimizer.choice import Choice
from tuskml.optimizer.costs import Question
from tuskml.optimizer.space import FAMILIES
from tuskml.udas import kernels
from tuskml.udas.kernels import Pass
from tuskml.udas.own_tasks import refuse_together
from tuskml.udas.plan import Plan
from tuskml.udas.renumber import renumbered


def explain(groups: NDArray[np.void], request: Request, memory: int = 0) -> Iterator[str]:
    """The plan of each group, as text, or with the option `format` as JSON.

    memory: address of the account that copies of rows are charged to.
    """
    refuse_together(request.task, request.options)
    if request.task.factorizes or request.options.store is not None:
        memory = 0  # neither numbers ids anew
    with renumbered(groups, memory, kernels.cancel_mark()) as seen:
        for place, group in enumerate(np.split(groups, len(groups))):
            if request.task.factorizes:
                yield explain_factorization(group, request)
                continue
            own = own_request(request, seen.ids.get(place), int(group["dim"][0]))
            chosen = considered(seen.groups[place : place + 1], own)
            yield written(document(group, request, chosen), request.options.format)


def explain_factorization(group: NDArray[np.void], request: Request) -> str:
    """The plan of a matrix factorization, which has no candidates."""
    options = replace(request.options, given=request.options.given - {"format"})
    found = factorization_explanation.document(group, options)
    found["reading_seconds"] = request.reading
    return written(found, options.format, factorization_explanation.text_of)


def considered(group: NDArray[np.void], request: Request) -> Choice:
    """The choice as a training would make it."""
    if request.options.store is not None:
        from tuskml.groups.stored import considered_stored  # takes a while to import

        return considered_stored(group, request)
    plan, question = first_plan(group, request)
    if question is None:
        return Choice(plan, ())
    gpu = devices.answer(group, request)
    question = replace(question, gpu=gpu.use)
    if request.options.ordered or request.options.validation > 0:
        chosen = by_statistics(plan, question)
    else:
        chosen = tried(group, request, plan, question)
    return with_elsewhere(chosen, question, None if gpu.use else gpu.reason)


def tried(group: NDArray[np.void], request: Request, plan: Plan, question: Question) -> Choice:
    """The choice after a look at the rows; labels that a training would refuse are not tried."""
    group = group.copy()
    group["dim"] = np.maximum(group["dim"], 1)
    task, options = request.task, request.options
    intercept, mark = options.fit_intercept, kernels.cancel_mark()
    rows = Pass(group, task.loss, None, None, intercept, plan.threads, cancel_mark=mark)
    labels = rows.labels()
    refuse_labels(task, labels)
    if task.classifies and (labels["third_row"][0] or labels["low"][0] == labels["high"][0]):
        return by_statistics(plan, question)
    with kernels.watching_sigint():
        problem = describe(rows, labels, plan, request)
        begin = start(problem, labels, options)
        chosen = decide(problem, begin, plan, question)
        if len(chosen.candidates) < len(FAMILIES):  # a training would not have looked at all
            asked = with_rows_seen(problem, measured(problem, begin, question))
            whole = by_statistics(plan, asked)
            chosen = replace(chosen, candidates=whole.candidates)
        return chosen
