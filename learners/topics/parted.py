"""Topics of a group whose documents lie in parts: blocks of words rotate over the parts.

Each part has documents and the topics of their tokens; the counts n_kw of a block of words are at
one part at a time. A part knows the totals n_k from the last rotation on, and its own changes; all
changes are summed at the one barrier of a rotation (Kim et al., SMPFRAME, 2015, section 4.2 and
algorithm 3). So topics depend on the documents of each part and on the seed alone.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.kernels import passes
from tuskml.kernels.library import OutOfTime
from tuskml.kernels.parts.message import Array
from tuskml.kernels.parts.sharded import Parts, ShardedPass, of_parts
from tuskml.kernels.passes import Floats
from tuskml.kernels.topics import ABOUT, MOST_TOKENS, TOO_MANY_TOKENS, Texts, refusal
from tuskml.learners.learner import Request
from tuskml.learners.models import Models, Strings, seconds_by_group
from tuskml.learners.rotation import Rotation
from tuskml.learners.tasks import Task
from tuskml.learners.topics import training
from tuskml.learners.topics.options import TopicOptions
from tuskml.learners.validation import deadline_of
from tuskml.schedule import budget

HEAD = np.dtype(
    [
        *((name, np.uint32) for name in ("version", "topics", "table", "flags")),
        *(("entries", np.uint64), ("text", np.uint64), ("beta", np.float64)),
        *((name, np.uint64) for name in ("tokens", "words", "documents")),
    ]
)
"""The head of a model's bytes (`native/topics/sections.hpp`)."""
HAS_WORDS = 1
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Vocabulary:
    """The words of all parts. texts: None where words are ids; frequency: tokens of each, 0 where
    it is left out, (V,); ranks: of each part, the places of its words, None: their ids.
    """

    texts: Texts | None
    frequency: NDArray[np.uint32]
    ranks: Sequence[NDArray[np.uint32] | None]

    @property
    def width(self) -> int:
        """Returns the number of features of a group with these words."""
        return max(len(self.frequency), 1)

    @classmethod
    def of(cls, rows: ShardedPass, options: TopicOptions) -> "Vocabulary":
        """Asks the parts for their words."""
        replies = rows.ask("topic_words")
        found = [words_in(text, offsets) for text, offsets, *_ in replies]
        named = found[0] is not None
        ranks: list[NDArray[np.uint32] | None] = [None] * len(found)
        n, texts = max(len(one[2]) for one in replies), None
        if named:
            every = sorted(set().union(*(one or () for one in found)))
            place = {word: rank for rank, word in enumerate(every)}
            n, texts = len(every), texts_of(every)
            ranks = [np.array([place[word] for word in one or ()], np.uint32) for one in found]
        documents, tokens = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for (*_, seen, counts), rank in zip(replies, ranks, strict=True):
            at = slice(len(seen)) if rank is None else rank
            documents[at] += seen
            tokens[at] += counts
        if texts is not None:
            dropped = training.drop_words(texts, documents, options)
            tokens[dropped] = 0
        about = np.zeros(1, ABOUT)
        about["tokens"] = tokens.sum()
        if about["tokens"] > MOST_TOKENS:
            about["fault"] = TOO_MANY_TOKENS
            raise RowsError(refusal(about))
        return cls(texts, tokens.astype(np.uint32), ranks)


def words_in(text: Any, offsets: Any) -> list[bytes] | None:
    """Words of a text."""
    if offsets is None:
        return None
    whole = b"" if text is None else text.tobytes()
    return [whole[a:b] for a, b in pairwise(offsets.tolist())]


def texts_of(words: Sequence[bytes]) -> Texts:
    """Concatenates words."""
    ends = np.cumsum([0, *(len(one) for one in words)])
    return b"".join(words), ends.astype(np.int64)


class Block(NamedTuple):
    """Counts of a block: the number of topics of each word, these topics, and how often."""

    listed: NDArray[np.uint32]
    topic: NDArray[np.uint16]
    times: NDArray[np.uint32]


class Counts(NamedTuple):
    """The counts of all blocks, and the totals n_k, (K,), after a number of rotations."""

    blocks: Sequence[Block]
    totals: Ints
    rotations: int


class RotatingSampler(Rotation):
    """Topics of a group in parts, with the methods of `Sampler`."""

    def __init__(self, rows: ShardedPass, options: TopicOptions, vocabulary: Vocabulary) -> None:
        super().__init__(rows, "topics")
        self.options, self.vocabulary = options, vocabulary
        self.alpha = np.full(options.topics, options.alpha)
        self.about = np.zeros(1, ABOUT)
        self.about["words"] = np.count_nonzero(vocabulary.frequency)
        self.totals: list[Ints] = []
        self.places: list[NDArray[np.uint32]] = []
        self.start()

    def open(self, states: Sequence[Array | None], saved: Counts | None) -> Counts:
        options, known = self.options, self.vocabulary
        drawn = [
            np.random.SeedSequence([options.seed & (2**64 - 1), p]).generate_state(1, np.uint64)
            for p in range(self.n_parts)
        ]
        given = {"topics": options.topics, "beta": options.beta, "blocks": self.n_blocks}
        arrays = {
            p: (known.frequency, padded(known.ranks[p], known.width), states[p], drawn[p])
            for p in range(self.n_parts)
        }
        replies = self.rows.ask_each("open_topics", arrays, **given)
        self.about["tokens"], self.about["documents"] = np.sum([one[0] for one in replies], axis=0)
        if not self.places:
            about = {"what": "places", "visits": 0, "blocks": self.n_blocks}
            self.places = self.rows.ask_part(0, self.method, **about)
        # the first rotation counts the tokens of each block
        empty = [
            Block(np.zeros(len(one), np.uint32), np.zeros(0, np.uint16), np.zeros(0, np.uint32))
            for one in self.places
        ]
        counted = Counts(empty, np.zeros(options.topics, np.int64), 0)
        model: Counts = self.run(1, counted)
        return model if saved is None else model._replace(rotations=saved.rotations)

    def part(self, S_p: int, A: Counts) -> Block:
        return A.blocks[S_p]

    def weight(self, S_p: int) -> float:
        return float(self.vocabulary.frequency[self.places[S_p]].sum())

    def schedule(self, A: Counts, D: Any) -> Sequence[int]:
        self.totals = [A.totals] * self.n_parts
        self.rotation = A.rotations
        return super().schedule(A, D)

    def update(self, p: int, S_p: int, D_p: Any, A: Block) -> Block:
        arrays = *A, self.alpha, self.totals[p]
        *block, self.totals[p] = self.visit(p, *arrays, sweep=self.rotation, block=S_p)
        return Block(*block)

    def aggregate(self, R: Sequence[Block], A: Counts) -> Counts:
        totals = A.totals + sum(one - A.totals for one in self.totals)
        return Counts(R, totals, A.rotations + 1)

    def sweep(self, rows: ShardedPass, sweeps: int) -> None:
        """As `Sampler.sweep`, but looks at the deadline between sweeps alone."""
        late = False

        def look() -> bool:
            nonlocal late
            late = rows.deadline is not None and time.monotonic() > rows.deadline
            return late

        if self.about["tokens"][0]:
            self.advance(sweeps, look)
        if late:
            raise OutOfTime

    def likelihood(self, rows: ShardedPass) -> Floats:
        """As `Sampler.likelihood`."""
        from scipy.special import gammaln  # slow to import

        documents = self.steady(lambda: self.ask_all("likelihood", self.alpha))
        model, beta = self.model, self.options.beta
        whole = beta * float(self.about["words"][0])
        words = sum((gammaln(beta + one.times) - gammaln(beta)).sum() for one in model.blocks)
        totals = (gammaln(whole) - gammaln(whole + model.totals)).sum() if whole else 0.0
        return np.array([words + totals + sum(float(one[0][0]) for one in documents)])

    def optimize(self, rows: ShardedPass, steps: int = 5) -> None:
        """As `Sampler.optimize`."""
        self.save()  # rotations up to here have another alpha
        for _ in range(steps):
            terms = self.steady(lambda: self.ask_all("alpha", self.alpha))
            *above, below = np.sum([one[0] for one in terms], axis=0)
            if below:
                self.alpha = np.maximum(1e-5, self.alpha * np.array(above) / below)

    def blob(self, group: int) -> NDArray[np.uint8]:
        """As `Sampler.blob`."""
        known, model, about = self.vocabulary, self.model, self.about[0]
        n_words = len(known.frequency)
        pairs = zip(self.places, model.blocks, strict=True)
        word = np.concatenate([np.repeat(places, one.listed) for places, one in pairs])
        topic = np.concatenate([one.topic for one in model.blocks])
        times = np.concatenate([one.times for one in model.blocks])
        order = np.lexsort((topic, word))
        head = np.zeros(1, HEAD)
        head["version"], head["topics"], head["table"] = 1, self.options.topics, n_words
        head["flags"] = 0 if known.texts is None else HAS_WORDS
        head["entries"], head["beta"] = len(word), self.options.beta
        for name in ("tokens", "words", "documents"):
            head[name] = about[name]
        start = np.concatenate([[0], np.cumsum(np.bincount(word, minlength=n_words))])
        sections = [head, self.alpha, model.totals.astype(np.float64), start.astype(np.uint32)]
        sections += [topic[order], times[order]]
        if known.texts is not None:
            text, offsets = known.texts
            head["text"] = len(text)
            sections += [offsets.astype(np.uint32), np.frombuffer(text, np.uint8)]
        bytes_of = [one.tobytes() for one in sections]
        return np.frombuffer(b"".join(one + bytes(-len(one) % 8) for one in bytes_of), np.uint8)


def padded(rank: NDArray[np.uint32] | None, n: int) -> NDArray[np.uint32] | None:
    """The places of words, behind them zeros up to a length."""
    return None if rank is None else np.concatenate([rank, np.zeros(n - len(rank), np.uint32)])


def train_by_parts(parts: Parts, request: Request[Task, TopicOptions]) -> Models | None:
    """The model of the group; None where it has no usable row."""
    groups = of_parts(parts)
    if groups is None:
        return None
    began = time.monotonic()
    training.refuse_rows(groups, request.task.name)
    options = request.options
    with passes.watching_sigint():
        rows = ShardedPass(
            groups, threads=budget.threads(options.threads),
            cancel_mark=passes.cancel_mark(), parts=parts, deadline=deadline_of(options, began),
        )  # fmt: skip
        known = Vocabulary.of(rows, options)
        groups["dim"] = known.width
        sampler = RotatingSampler(rows, options, known)
        progress = training.run(sampler, sampler.rows, options)
        late = progress.late
        models = training.models_of(groups, sampler, progress.history, late, request)
    plan = training.plan_of(options).rpartition(", ")[0]  # without threads, which are the workers'
    plan = f"{plan}, {sampler.describe('words')}"
    return replace(
        models,
        plan=Strings.same(plan, 1),
        seconds=seconds_by_group(groups, began),
        iterations=np.full(1, progress.sweeps, np.int64),
    )
