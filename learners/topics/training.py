"""The task `lda`: a batch of groups of documents in, a batch of models out.

The model of documents and the sources are in `kernels/native/topics/api.h` and, of variational
Bayes, in `kernels/native/topics/online/api.h`.
"""

import struct
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.library import OutOfTime
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.segments import chunks
from tuskml.kernels.topics import (
    MOST_TOKENS,
    Online,
    Prior,
    Sampler,
    SamplerOrder,
    Steps,
    Texts,
    Words,
)
from tuskml.learners import events
from tuskml.learners.classes import Mask
from tuskml.learners.explaining import Document, document, plan_document
from tuskml.learners.learner import Request, refuse_offsets
from tuskml.learners.models import (
    Lists,
    Models,
    Strings,
    options_text,
    seconds_by_group,
    thin_history,
    threads_text,
)
from tuskml.learners.tasks import Task
from tuskml.learners.topics.options import OF_GIBBS, OF_ONLINE, OPTIONS, TopicOptions
from tuskml.learners.validation import pass_until
from tuskml.schedule import shares
from tuskml.schedule.budget import look_at_limits

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
    topics: Any,
    history: list[Floats],
    late: bool,
    request: Request[Task, TopicOptions],
) -> Models:
    """The models of groups; topics: as for `run`; history: minus the log-likelihood of a token, or
    its bound, (G,).

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


LOOK = 10
"""Passes between two looks at the likelihood."""
MOST_TOGETHER = 1 << 22
"""Entries and ids of the groups that train in one call, unless one of them has more."""
ROW_BYTES, WORD_BYTES = 48, 48
"""Bytes that the kernels keep in addition to those charged to the account: of a document until it
is read, and of a word.
"""


@dataclass
class Progress:
    """The progress of groups' trainings. history: minus the log-likelihood of a token, or its
    bound, (G,) each.
    """

    sweeps: int = 0
    late: bool = False
    history: list[Floats] = field(default_factory=list)


def train(
    groups: NDArray[np.void], request: Request[Task, TopicOptions], memory: int
) -> Iterator[Models]:
    """Trains each of the groups; models carry their groups' indices in `groups`."""
    refuse_rows(groups, request.task.name)
    with passes.watching_sigint():
        for places in together(groups):
            models = train_together(groups[places], request, memory)
            yield models.renumber(places)


def are_counts(rows: tuple[NDArray[np.uint32], NDArray[np.int32], Floats]) -> Mask:
    """Tests whether the values of sparse rows (starts (n + 1,), ids, values) are counts, (n,)."""
    starts, _, values = rows
    wrong = ~((values >= 0) & (values <= MOST_TOKENS) & (values == np.floor(values)))
    before = np.concatenate([[0], np.cumsum(wrong)])
    return np.asarray(before[starts[1:]] == before[starts[:-1]])


def refuse_rows(groups: NDArray[np.void], task: str) -> None:
    """Raises DataError for rows that are not counts of words, OptionError for offsets."""
    refuse_offsets(groups, task)
    if (groups["kind"] < 2).any():
        raise DataError(
            f"features of '{task}' are the words of a document, got a list of numbers: expected "
            "a list of text, or sparse(ids, counts)"
        )


def together(groups: NDArray[np.void]) -> Iterator[NDArray[np.intp]]:
    """Places of groups that train in one call: neighbours, until they have many entries or
    ids, whose tables take memory."""
    sizes = Pass(groups).entries() + groups["dim"]
    number = (np.cumsum(sizes) - sizes) // MOST_TOGETHER
    yield from np.split(np.arange(len(groups)), np.flatnonzero(np.diff(number)) + 1)


def train_together(
    groups: NDArray[np.void], request: Request[Task, TopicOptions], memory: int
) -> Models:
    """Trains groups in one call of the kernels."""
    began = time.monotonic()
    options = request.options
    shares.note_plan(plan_of(options))
    look_at_limits(memory)
    # these count the kernels' uncharged memory: of words, and of rows until they are read
    kept = np.empty(int(groups["dim"].sum()) * WORD_BYTES, np.uint8)
    reading = np.empty(int(groups["n_rows"].sum()) * ROW_BYTES, np.uint8)
    rows = pass_until(groups, 0, options, began)
    words = words_of(groups, request)
    with open_topics(rows, words, request, memory) as topics:
        del reading
        progress = run(topics, rows, options)
        models = models_of(groups, topics, progress.history, progress.late, request)
    del kept
    events.tell_trained(groups, progress.sweeps)
    sweeps = np.full(len(groups), progress.sweeps, np.int64)
    return replace(models, seconds=seconds_by_group(groups, began), iterations=sweeps)


def words_of(groups: NDArray[np.void], request: Request[Task, TopicOptions]) -> list[Words | None]:
    """The words that the features of groups are, in the order of their ids, and which are left
    out.
    """
    if request.words is None:
        return []
    found: list[Words | None] = []
    for group in groups:
        words = request.words(int(group["place"]))
        found.append(words and (*words, find_dropped_words(group, words, request.options)))
    return found


def find_dropped_words(
    group: np.void, words: tuple[bytes, NDArray[np.int64]], options: TopicOptions
) -> NDArray[np.uint8] | None:
    """1 for the words that options leave out of a group's documents, (V,); None where all stay."""
    if not (options.stop_words or options.max_categories) and options.min_count <= 1:
        return None
    documents = np.zeros(len(words[1]) - 1, np.int64)
    for _, (_, ids, counts), _ in chunks(group):
        documents += np.bincount(ids[counts > 0], minlength=len(documents))
    return drop_words(words, documents, options).astype(np.uint8)


def drop_words(
    words: Texts, documents: NDArray[np.int64], options: TopicOptions
) -> NDArray[np.bool_]:
    """Tests which words options leave out, (V,); documents: that have each word, (V,)."""
    text, offsets = words
    n = len(offsets) - 1
    dropped = np.zeros(n, bool)
    for word in options.stop_words or ():
        wanted = word.encode()
        place = bisect_left(range(n), wanted, key=lambda k: text[offsets[k] : offsets[k + 1]])
        if place < n and text[offsets[place] : offsets[place + 1]] == wanted:
            dropped[place] = True
    dropped[documents < options.min_count] = True
    if options.max_categories:
        kept = np.flatnonzero(~dropped)
        order = np.lexsort((kept, -documents[kept]))
        dropped[kept[order[options.max_categories :]]] = True
    return dropped


def open_topics(
    rows: Pass, words: list[Words | None], request: Request[Task, TopicOptions], memory: int
) -> Sampler | Online:
    """Opens the documents of groups in the kernels of the chosen algorithm."""
    options = request.options
    prior = Prior(options.topics, options.alpha, options.beta)
    if options.online:
        steps = Steps(options.batch_size, options.learning_offset, options.learning_decay)
        return Online(rows, prior, steps, options.seed, memory, words, request.last)
    return Sampler(rows, prior, options.seed, memory, words, SamplerOrder(spends=request.last))


def run(topics: Any, rows: Pass, options: TopicOptions) -> Progress:
    """Reads all tokens until the option `max_iter` or the option `time` ends it; topics: a
    `Sampler`, another object with its methods, or an `Online`."""
    found, pace = Progress(), events.Pace(rows.n_groups, int(rows.groups["n_rows"].sum()))
    tokens = np.maximum(topics.about["tokens"], 1)
    while found.sweeps < options.passes and not found.late:
        n = passes_until(found.sweeps, options)
        try:
            if options.online:
                topics.pass_over(rows, n)
            else:
                topics.sweep(rows, n)
            found.sweeps += n
            pace.epochs(found.sweeps, options.passes)
        except OutOfTime:
            found.late = True
        interval = options.optimize_interval
        if not options.online and interval and found.sweeps % interval == 0:
            topics.optimize(rows)
        if found.late or found.sweeps % LOOK == 0 or found.sweeps == options.passes:
            found.history.append(-topics.likelihood(rows) / tokens)
            mean = float(np.average(found.history[-1], weights=tokens))
            events.tell(events.Event(0, 0, found.sweeps, mean))
    return found


def passes_until(done: int, options: TopicOptions) -> int:
    """The number of passes until the next other step."""
    stops = [LOOK - done % LOOK, options.passes - done]
    if options.optimize_interval:
        stops.append(options.optimize_interval - done % options.optimize_interval)
    return min(stops)
