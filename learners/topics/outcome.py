"""The models of topics: their payload, statuses and explanation."""

import struct

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.kernels.topics import Online, Sampler
from tuskml.learners.explaining import Document, document, plan_document
from tuskml.learners.learner import Request
from tuskml.learners.models import Lists, Models, Strings, options_text, thin_history, threads_text
from tuskml.learners.tasks import Task
from tuskml.learners.topics.options import OF_GIBBS, OF_ONLINE, OPTIONS, TopicOptions

HEAD = struct.Struct("<4sHBBBBHIIIQd3d")
TASK, NULLS, WEIGHTS = 2, 4, 10
TOPICS, HAS_NULLS = 7, 8
"""`TUSK_TOPICS` and `TUSK_HAS_NULLS`."""


def topics_of_payload(payload: bytes) -> list[float] | None:
    """The bytes of the topics as doubles, as `coef` has them; None for other payloads, and for
    a truncated one.
    """
    if len(payload) < HEAD.size:
        return None
    head = HEAD.unpack_from(payload)
    end = HEAD.size + 8 * head[WEIGHTS]
    if head[TASK] != TOPICS or head[NULLS] & HAS_NULLS or end > len(payload):
        return None
    return np.frombuffer(payload[HEAD.size : end], np.float64).tolist() or None


STATUSES = ("ok", "time limit", "no words")


def models_of(
    groups: NDArray[np.void],
    topics: Sampler | Online,
    history: list[Floats],
    late: bool,
    request: Request[Task, TopicOptions],
) -> Models:
    """The models of groups; history: minus the log-likelihood of a token, or its bound, (G,).

    `coef` is the bytes of a model (`kernels/topics/blob.py`) as doubles, none of which is NaN.
    """
    n, empty = len(groups), topics.about["tokens"] == 0
    status = np.where(empty, 2, int(late)).astype(np.int32)
    return Models.build(
        groups,
        request.task.name,
        coef=Lists.of_parts([topics.blob(g).view(np.float64) for g in range(n)]),
        intercept=np.full(n, np.nan),
        loss=np.where(empty, np.nan, history[-1]),
        history=thin_history([np.where(empty, np.nan, one) for one in history], n),
        converged=np.asarray(status == 0, np.uint8),
        status=Strings(STATUSES, status),
        plan=plan_of(request.options),
        options=options_json(request.options),
    )


PRUNING = ("min_count", "max_categories", "stop_words")
"""Options that leave words out, which a model lists where they were given."""


def plan_of(options: TopicOptions) -> str:
    """Describes the training in one line."""
    of = threads_text(options)
    if options.online:
        return (
            f"online variational Bayes, {options.topics} topics, {options.passes} passes, batches "
            f"of {options.batch_size} documents, {of}"
        )
    optimised = options.optimize_interval
    alpha = f"alpha optimised every {optimised} sweeps, " if optimised else ""
    return (
        f"collapsed Gibbs sampling, {options.topics} topics, {options.passes} sweeps, {alpha}{of}"
    )


def options_json(options: TopicOptions) -> str:
    """The options in force, as JSON that starts with the version of the format."""
    where = OF_ONLINE if options.online else OF_GIBBS
    only = [name for name, option in OPTIONS.by_name.items() if option.acts is where]
    given = [name for name in PRUNING if name in options.given]
    names = ("algorithm", "topics", "alpha", "beta", *only, *given, "time", "threads", "seed")
    return options_text(options, names, max_iter=options.passes)


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
