"""Models whose weights live in a store: a group in, a sealed version of a stored model out.

    mean(loss(m, y)) + l2/2 ||w||^2 + l1 ||w||_1,   m = w.x + b

by HogBatch over payloads (Qin, Torres, Rusu, *Scalable Asynchronous Gradient Descent Optimization
for Out-of-Core Models*, VLDB 2017). `stored_layout` is the offline stage (section 5), `stored_run`
the online one (section 6); here is what is refused, and what comes out.
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError, one_of
from tuskml.groups import events, file_rules, hosting, stored_factorization
from tuskml.groups.factorization_settings import refuse_elsewhere
from tuskml.groups.models import Lists, Models, Strings, resolved, thinned
from tuskml.groups.objective import class_weights
from tuskml.groups.planning import Request, plan_for, statistics
from tuskml.groups.stored_run import CACHE, Run, Trained
from tuskml.groups.trainer import classes_of, one_class, refuse_third_class
from tuskml.kvstore import StoreRoot, access
from tuskml.kvstore.locks import interruptible
from tuskml.kvstore.names import default_root
from tuskml.optimizer.choice import Choice
from tuskml.optimizer.elsewhere import requests_of
from tuskml.udas import kernels
from tuskml.udas.gpu.placement import refuse_gpu
from tuskml.udas.kernels import Pass
from tuskml.udas.own_operators import refuse_own
from tuskml.udas.plan import Plan
from tuskml.udas.tasks import TASKS

EPSILON = 1e-4
"""Of the running loss, where none is asked for."""
ALGORITHMS = ("auto", "sgd", "mgd", "hogwild", "hogbatch")


def train_stored(
    groups: NDArray[np.void], request: Request, memory: int, root: str | None, statement: int = 0
) -> Iterator[Models]:
    """Trains each of the groups (kernels.GROUP); models carry their groups' places in `groups`.

    Groups of one name become versions of it, each model value naming its own: a database hands
    groups over in batches as it likes, so that "one name, one group" could be refused now and then
    only. Each of these versions is a lineage of its own, which the training writes down. memory:
    address of the account that copies of rows are charged to; root: the directory of all stores,
    None for the default one (`StoreRoot`); statement: a number that its batches share, 0: unknown.

    Waiting for a store's lock is ended as the training is.
    """
    access.serve(hosting.host)
    one = stored_factorization.train if request.task.factorizes else train_one
    mark, training = kernels.cancel_mark(), training_of(statement)
    with interruptible(lambda: kernels.raise_if_cancelled(mark)):
        file_rules.check(root if root is not None else default_root())
        stores = StoreRoot(root, training)
        for place in range(len(groups)):
            model = one(groups[place : place + 1], request, memory, stores)
            yield model.numbered(np.array([place]))


_process = secrets.token_hex(8)


def training_of(statement: int) -> str:
    """What the versions of a statement have in common, in this process and any other."""
    told = access.training()
    if told is not None:
        return told
    return f"{_process}.{os.getpid()}.{statement}" if statement else secrets.token_hex(8)


def train_one(groups: NDArray[np.void], request: Request, memory: int, root: StoreRoot) -> Models:
    """Trains one group."""
    began = time.monotonic()
    refuse_elsewhere(request.options)
    refuse_gpu(request.options.device, "a training with option 'store'")
    check(groups, request)
    options, plan = request.options, stored_plan(groups, request)
    loss, mark = request.task.loss, kernels.cancel_mark()
    rows = Pass(groups, loss, None, None, options.fit_intercept, plan.threads, cancel_mark=mark)
    labels = rows.labels()
    if request.task.classifies:
        refuse_third_class(request.task, labels)
    rows = replace(
        rows,
        positive=np.ascontiguousarray(labels["high"]) if request.task.classifies else None,
        class_weight=class_weights(request.task, options, labels),
    )
    if request.task.classifies and labels["low"][0] == labels["high"][0]:
        constant = one_class(rows, labels, np.ones(1, np.int64), plan, request)
        return replace(constant, n_features=groups["dim"].astype(np.int64))
    with ExitStack() as stack, kernels.watching_sigint():
        if plan.canonical:
            kept, held = rows.shuffled(memory, options.seed, np.zeros(1, np.int64))
            stack.enter_context(held)
            rows = replace(rows, groups=stack.enter_context(kept))
            labels = rows.labels()  # their mean depends on the order
        trained = Run(rows, labels, request, plan, root)()
    events.tell(events.Event(1, int(groups["n_rows"][0]), 0, float("nan")))
    return model_of(trained, groups, labels, request, plan, time.monotonic() - began)


def check(groups: NDArray[np.void], request: Request) -> None:
    """Refuses what a stored model cannot be."""
    options = request.options
    if request.task.own is not None:
        raise OptionError(
            f"task '{request.task.name}' is not available with option 'store', expected "
            f"{one_of(TASKS)}"
        )
    refuse_own(options, "option 'store'")
    if options.explain:
        raise OptionError(
            "option 'explain' is not available with option 'store', expected explain_training, "
            "and the counters in the model's options"
        )
    if groups["kind"][0] < 2:
        raise DataError("a stored model needs sparse features, expected sparse(indices, values)")
    if options.algorithm not in ALGORITHMS:
        raise OptionError(
            f"algorithm '{options.algorithm}' is not available with option 'store', "
            f"expected {one_of(ALGORITHMS)}"
        )
    if options.validation:
        raise OptionError("option 'validation' is not available with option 'store'")
    if "converge" in options.given and options.converge != "loss":
        raise OptionError(
            f"option 'converge' is '{options.converge}', expected 'loss' with option 'store'"
        )


def stored_plan(groups: NDArray[np.void], request: Request) -> Plan:
    """HogBatch unless asked for another, the paper's and the fastest, until the loss rests.

    Same bits need one thread: workers that share payloads meet in no order.
    """
    options = request.options
    if options.algorithm == "auto":
        options = replace(options, algorithm="hogbatch")
    plan = plan_for(groups, replace(request, options=options))
    return replace(
        plan,
        converge="loss",
        epsilon=options.epsilon if "epsilon" in options.given else EPSILON,
        threads=1 if options.ordered else plan.threads,
    )


def considered_stored(group: NDArray[np.void], request: Request) -> Choice:
    """What would run, for explanations; raises what a training would."""
    check(group, request)
    plan = stored_plan(group, request)
    requests = requests_of(statistics(group))
    reason = (
        f"option 'store' is given; about {requests:,.0f} requests to the store an epoch with a "
        "key a feature, fewer where features share keys"
    )
    return Choice(replace(plan, reason=reason), ())


def model_of(
    trained: Trained,
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
        "cache": request.options.cache or CACHE,
        "partition": request.options.partition,
        "counters": trained.counters.as_dict(),
    }
    return Models(
        group=np.zeros(1, np.int64),
        task=Strings.same(request.task.name, 1),
        coef=Lists(np.empty(0), np.zeros(2, np.int64)),
        intercept=np.array([trained.intercept]),
        std_err=Lists(np.empty(0), np.zeros(2, np.int64)),
        classes=classes_of(request.task, labels),
        n_rows=groups["n_rows"].copy(),
        n_skipped=groups["n_skipped"].copy(),
        n_features=np.array([trained.dimension]),
        loss=np.array([trained.objective]),
        history=thinned([np.array([loss]) for loss in trained.history], 1),
        iterations=np.array([trained.epochs]),
        converged=np.array([trained.converged], np.uint8),
        status=Strings.same(trained.status, 1),
        plan=Strings.same(trained.description, 1),
        seconds=np.array([seconds]),
        options=Strings.same(resolved(request.options, plan, more), 1),
        store=Strings.same(trained.reference, 1),
    )
