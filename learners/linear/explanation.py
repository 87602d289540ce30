"""`explain_training` of linear models: the plan of a group, and the reasons for it."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.kernels.rows.renumber import renumber
from tuskml.learners.explaining import Document, format_explanation
from tuskml.learners.linear import gpu as devices
from tuskml.learners.linear.algorithms import REGISTERED
from tuskml.learners.linear.check import (
    many_classes,
    refuse_labels,
    refuse_together,
    with_extras,
    with_link,
)
from tuskml.learners.linear.multinomial.choice import plan_of_classes
from tuskml.learners.linear.objective import describe, start
from tuskml.learners.linear.planner.choice import (
    Choice,
)
from tuskml.learners.linear.planner.curves import Question
from tuskml.learners.linear.planner.explanation import document
from tuskml.learners.linear.planner.planning import (
    LEAST_OVERHEAD,
    by_statistics,
    decide,
    first_plan,
    with_elsewhere,
)
from tuskml.learners.linear.planner.sampling import add_sketch, with_rows_seen
from tuskml.learners.linear.planner.trials import time_custom_code
from tuskml.learners.linear.renumbered import own_request
from tuskml.learners.linear.request import Plan, Request
from tuskml.learners.linear.shares import of_both_classes
from tuskml.learners.linear.stored.in_memory import in_memory, without_store
from tuskml.learners.linear.stored.outgrown import groups_beyond_memory


def explain(groups: NDArray[np.void], request: Request, memory: int = 0) -> Iterator[str]:
    """The plan of each group, as text, or with the option `format` as JSON.

    memory: address of the account that copies of rows are charged to.
    """
    refuse_together(request.task, request.options)
    if request.options.shares:
        with of_both_classes(groups, request, memory) as both:
            yield from explain(both.groups, both.request, memory)
        return
    request = with_extras(groups, with_link(request))
    if request.options.store is not None and in_memory(groups, request):
        request = without_store(request)
    elif request.options.store is not None:
        memory = 0  # whose ids are not numbered anew
    large = (
        {} if request.options.store is not None else groups_beyond_memory(groups, request, memory)
    )
    with renumber(groups, memory, passes.cancel_mark()) as seen:
        for place, group in enumerate(np.split(groups, len(groups))):
            if place in large:
                yield format_explanation(
                    explain_with_store(group, request, large[place].why), request.options.format
                )
                continue
            own = own_request(request, seen.ids.get(place), int(group["dim"][0]))
            chosen = consider(seen.groups[place : place + 1], own, memory)
            yield format_explanation(document(group, request, chosen), request.options.format)


def explain_with_store(group: NDArray[np.void], request: Request, why: str) -> Document:
    """The explanation of a group whose model does not fit into memory."""
    unasked = replace(
        request,
        options=replace(request.options, store="auto"),
        unasked=f"{why}: where a store's directory is set, it keeps the weights",
    )
    return document(group, unasked, consider(group, unasked))


def consider(group: NDArray[np.void], request: Request, memory: int = 0) -> Choice:
    """The choice as a training would make it; memory: address of the rows' account."""
    if request.options.store is not None:
        from tuskml.learners.linear.stored.explanation import consider_stored  # slow to import

        return consider_stored(group, request, memory)
    plan, question = first_plan(group, request, memory)
    if question is None:
        return Choice(plan, ())
    gpu = devices.answer(group, request)
    question = replace(question, gpu=gpu.use)
    if request.options.keeps_order or request.options.validation > 0:
        chosen = by_statistics(plan, question)
    else:
        chosen = try_out(group, request, plan, question)
    return with_elsewhere(chosen, question, None if gpu.use else gpu.reason)


def try_out(group: NDArray[np.void], request: Request, plan: Plan, question: Question) -> Choice:
    """The choice after a look at the rows; labels that a training would refuse are not tried."""
    group = group.copy()
    group["dim"] = np.maximum(group["dim"], 1)
    task, options = request.task, request.options
    intercept, mark = options.fit_intercept, passes.cancel_mark()
    rows = Pass(group, task.loss, None, None, intercept, plan.threads, cancel_mark=mark)
    labels = rows.labels()
    refuse_labels(task, labels)
    if many_classes(task, options, labels).any():
        return Choice(plan_of_classes(rows, request), ())
    if task.classifies and (labels["third_row"][0] or labels["low"][0] == labels["high"][0]):
        return by_statistics(plan, question)
    with passes.watching_sigint():
        problem = describe(rows, labels, plan, request)
        begin = start(problem, labels, options)
        chosen = decide(problem, begin, plan, question)
        if len(chosen.candidates) < len(REGISTERED):  # a training would not have looked at all
            asked = with_rows_seen(problem, time_custom_code(problem, begin, question))
            whole = by_statistics(plan, add_sketch(problem, begin, asked, LEAST_OVERHEAD))
            chosen = replace(chosen, candidates=whole.candidates)
        return chosen
