"""The task `lda`: a batch of groups of documents in, a batch of models out.

The model of documents and the sources are in `kernels/native/topics/api.h` and, of variational
Bayes, in `kernels/native/topics/online/api.h`.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.library import OutOfTime
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.segments import chunks
from tuskml.kernels.topics import MOST_TOKENS, Online, Prior, Sampler, SamplerOrder, Steps, Words
from tuskml.learners import events
from tuskml.learners.classes import Mask
from tuskml.learners.learner import Request, refuse_offsets
from tuskml.learners.models import Models, seconds_by_group
from tuskml.learners.tasks import Task
from tuskml.learners.topics.options import TopicOptions
from tuskml.learners.topics.outcome import models_of, plan_of
from tuskml.learners.validation import pass_until
from tuskml.schedule import shares
from tuskml.schedule.budget import look_at_limits

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
    text, offsets = words
    n = len(offsets) - 1
    dropped = np.zeros(n, np.uint8)
    for word in options.stop_words or ():
        wanted = word.encode()
        place = bisect_left(range(n), wanted, key=lambda k: text[offsets[k] : offsets[k + 1]])
        if place < n and text[offsets[place] : offsets[place + 1]] == wanted:
            dropped[place] = 1
    documents = np.zeros(n, np.int64)
    for _, (_, ids, counts), _ in chunks(group):
        documents += np.bincount(ids[counts > 0], minlength=n)
    dropped[documents < options.min_count] = 1
    if options.max_categories:
        kept = np.flatnonzero(dropped == 0)
        order = np.lexsort((kept, -documents[kept]))
        dropped[kept[order[options.max_categories :]]] = 1
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


def run(topics: Sampler | Online, rows: Pass, options: TopicOptions) -> Progress:
    """Reads all tokens until the option `max_iter` or the option `time` ends it."""
    found, pace = Progress(), events.Pace(rows.n_groups, int(rows.groups["n_rows"].sum()))
    tokens = np.maximum(topics.about["tokens"], 1)
    while found.sweeps < options.passes and not found.late:
        n = passes_until(found.sweeps, options)
        try:
            if isinstance(topics, Sampler):
                topics.sweep(rows, n)
            else:
                topics.pass_over(rows, n)
            found.sweeps += n
            pace.epochs(found.sweeps, options.passes)
        except OutOfTime:
            found.late = True
        interval = options.optimize_interval
        if isinstance(topics, Sampler) and interval and found.sweeps % interval == 0:
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
