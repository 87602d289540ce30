"""Models whose weights live in a store: a group in, a sealed version of a stored model out.

    mean(loss(m, y)) + l2/2 ||w||^2 + l1 ||w||_1,   m = w.x + b

by HogBatch over payloads (Qin, Torres, Rusu, *Scalable Asynchronous Gradient Descent Optimization
for Out-of-Core Models*, VLDB 2017). `learners/stored/layout.py` is the offline stage (section 5),
`run.py` the online one (section 6), which `routed.py` replaces where the cache is too small; here
is what is refused, and what comes out.
"""

import time
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels import passes
from tuskml.kernels.gpu.placement import refuse_gpu
from tuskml.kernels.open_rows import Open
from tuskml.kernels.passes import Pass
from tuskml.kvstore import StoreRoot
from tuskml.learners import events
from tuskml.learners.classes import check_classes, class_fields, class_names
from tuskml.learners.linear.algorithms import STORED
from tuskml.learners.linear.check import many_classes, refuse_labels, refuse_together
from tuskml.learners.linear.multinomial.stored import Several, several_of, trains_in_store
from tuskml.learners.linear.objective import class_weights
from tuskml.learners.linear.planner.planning import plan_for
from tuskml.learners.linear.request import Plan, Request
from tuskml.learners.linear.result import classes_of, one_class, options_json, task_members
from tuskml.learners.linear.stored.in_memory import in_memory, train_in_memory
from tuskml.learners.linear.stored.online import SealedResult
from tuskml.learners.linear.stored.run import Run
from tuskml.learners.linear.stored.start import with_start
from tuskml.learners.models import Lists, Models, Strings, thin_history
from tuskml.learners.options.kinds import DEFAULT_CACHE
from tuskml.learners.validation import shuffle_rows
from tuskml.schedule import shares

EPSILON = 1e-4
"""The default tolerance of the running loss."""
PYTHON_BATCH = 128
"""Rows a step where a step asks a loss in Python."""


def train_stored(
    groups: NDArray[np.void], request: Request, memory: int, root: StoreRoot
) -> Models:
    """Trains one group (`passes.GROUP`)."""
    began = time.monotonic()
    request = replace(request, options=with_start(request.options, root))
    if in_memory(groups, request):
        refuse_together(request.task, request.options)
        return train_in_memory(groups, request, memory, root)
    refuse_gpu(request.options.device, "a training with option 'store'")
    check(groups, request)
    options, plan = request.options, make_plan(groups, request)
    shares.note_plan(plan.algorithm)
    loss, mark = request.task.loss, passes.cancel_mark()
    rows = Pass(groups, loss, None, None, options.fit_intercept, plan.threads, cancel_mark=mark)
    labels = rows.labels()
    refuse_labels(request.task, labels)
    classes = None
    if many_classes(request.task, options, labels).any():
        classes = several_of(rows, labels, request)
        if not trains_in_store(groups, request, len(classes.label), memory):
            return train_in_memory(groups, request, memory, root, many=True)
    else:
        rows = of_two(rows, labels, request)
    if request.task.classifies and labels["low"][0] == labels["high"][0]:
        constant = one_class(rows, labels, np.ones(1, np.int64), plan, request)
        return replace(constant, n_features=groups["dim"].astype(np.int64))
    held = None
    with ExitStack() as stack, passes.watching_sigint():
        if plan.canonical:
            kept, out = shuffle_rows(rows, request, memory)
            aside = stack.enter_context(out)
            held = aside if aside["n_rows"][0] else None
            rows = replace(rows, groups=stack.enter_context(kept))
            if not request.task.classifies:
                labels = rows.labels()  # their mean depends on the order
        trained = run_of(rows, labels, request, plan, root, held, classes)()
    events.tell_trained(groups)
    model = model_of(trained, groups, labels, request, plan, time.monotonic() - began)
    return model if classes is None else of_several(model, classes)


def run_of(
    rows: Pass,
    labels: NDArray[np.void],
    request: Request,
    plan: Plan,
    root: StoreRoot,
    held: NDArray[np.void] | None,
    classes: Several | None,
) -> Run:
    """The training of a group: in LevelDB or the cache, or by routes where its weights travel."""
    run = Run(rows, labels, request, plan, root, held, classes)
    with run.clock.phase("layout"):
        travels = run.travels()
    if not travels:
        return run
    from tuskml.learners.linear.stored.routed import RoutedRun  # for caches that are too small

    routed = RoutedRun(rows, labels, request, plan, root, held, classes)
    routed.clock, routed.deadline = run.clock, run.deadline
    return routed


def of_two(rows: Pass, labels: NDArray[np.void], request: Request) -> Pass:
    """The rows of one group of two classes, or of numbers."""
    check_classes(request.task, request.options, labels)
    return replace(
        rows,
        positive=np.ascontiguousarray(labels["high"]) if request.task.classifies else None,
        class_weight=class_weights(request.task, request.options, labels),
        open=None if request.task.own is None else Open(request.task.own),
    )


def of_several(model: Models, classes: Several) -> Models:
    """The model of more than two classes, whose intercepts lie in the store."""
    label = classes.label
    listed = Lists.of_rows(label[None, :], np.array([len(label)]))
    return replace(
        model,
        intercept=np.array([np.nan]),
        classes=listed,
        class_names=class_names(listed),
        plan=Strings.same(f"{model.plan.pool[model.plan.code[0]]}, {len(label)} classes", 1),
    )


def check(groups: NDArray[np.void], request: Request) -> None:
    """Raises OptionError for options that a stored model does not support."""
    options = request.options
    if options.explain:
        raise OptionError(
            "option 'explain' is not available with option 'store', expected explain_training, "
            "and the counters in the model's options"
        )
    if "converge" in options.given and options.converge != "loss":
        raise OptionError(
            f"option 'converge' is '{options.converge}', expected 'loss' with option 'store'"
        )


def make_plan(groups: NDArray[np.void], request: Request) -> Plan:
    """The plan of a stored model: HogBatch by default, the paper's and the fastest, until the loss
    converges.

    Reproducible bits need one thread: workers that share payloads meet in any order.
    """
    options = request.options
    if options.algorithm == "auto":
        options = replace(options, algorithm=STORED.name)
    plan = plan_for(groups, replace(request, options=options))
    own = request.task.own
    in_python = own is not None and own.address is None  # which the caller's thread alone asks
    return replace(
        plan,
        converge="loss",
        epsilon=options.epsilon if "epsilon" in options.given else EPSILON,
        threads=1 if options.keeps_order or in_python else plan.threads,
        batch_size=options.batch_size or (PYTHON_BATCH if in_python else plan.batch_size),
    )


def model_of(
    trained: SealedResult,
    groups: NDArray[np.void],
    labels: NDArray[np.void],
    request: Request,
    plan: Plan,
    seconds: float,
) -> Models:
    """The model value: everything but the coefficients, and where these are."""
    more = {
        "step": trained.step,
        "store": trained.reference,
        "cache": request.options.cache or DEFAULT_CACHE,
        "method": request.options.method,
        "partition": request.options.partition,
        "counters": trained.counters.as_dict(),
        "store_estimate": None if trained.estimate is None else trained.estimate.as_dict(),
    } | task_members(request.task, request.options)
    return Models.build(
        groups,
        request.task.name,
        intercept=np.array([trained.intercept]),
        **class_fields(classes_of(request.task, labels)),
        n_features=np.array([trained.dimension]),
        loss=np.array([trained.objective]),
        history=thin_history([np.array([loss]) for loss in trained.history], 1),
        iterations=np.array([trained.epochs]),
        converged=np.array([trained.converged], np.uint8),
        status=trained.status,
        plan=trained.description,
        seconds=np.array([seconds]),
        options=options_json(request.options, plan, more),
        store=trained.reference,
    )
