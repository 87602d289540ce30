"""A part of documents, visited by blocks: one part with one block is the sampler."""

import numpy as np
import pytest
from documents import documents, pass_over, planted

from tuskml.kernels.parts import topics
from tuskml.kernels.parts.keeping import Beside
from tuskml.kernels.topics import Prior, Sampler, SamplerOrder

pytestmark = pytest.mark.native
PRIOR, WORDS, SEED = Prior(40, 0.1, 0.05), 200, 7


class Ring:
    """Parts, and the counts of blocks that visit one part after the other."""

    def __init__(self, docs, blocks):
        frequency = np.bincount([w for one in docs for part in one for w in part], minlength=WORDS)
        given = {"topics": PRIOR.topics, "beta": PRIOR.beta, "blocks": blocks}
        seed = np.array([SEED], np.uint64)
        self.rows = [pass_over(documents(one, WORDS)) for one in docs]
        self.beside = [Beside() for _ in docs]
        self.alpha = np.full(PRIOR.topics, PRIOR.alpha)
        for rows, beside in zip(self.rows, self.beside, strict=True):
            topics.open_part(rows, [frequency.astype(np.uint32), None, None, seed], given, beside)
        self.places = self.ask(0, "places", 0, blocks=blocks)
        nothing = np.zeros(0, np.uint16), np.zeros(0, np.uint32)
        self.blocks = [[np.zeros(len(one), np.uint32), *nothing] for one in self.places]
        self.totals, self.visits = np.zeros(PRIOR.topics, np.int64), 0

    def ask(self, p, what, visits, *arrays, **given):
        given |= {"what": what, "visits": visits}
        return topics.answer(self.rows[p], list(arrays), given, self.beside[p])

    def rotate(self, sweep):
        changes = []
        for p in range(len(self.rows)):
            totals = self.totals.copy()
            for b, block in enumerate(self.blocks):
                *self.blocks[b], totals = self.ask(
                    p, "visit", self.visits + b, *block, self.alpha, totals, sweep=sweep, block=b
                )
            changes.append(totals - self.totals)
        self.visits += len(self.blocks)
        self.totals = self.totals + sum(changes)


def test_one_part_and_one_block_have_the_bits_of_the_sampler():
    """Of frequent words: the lists of others are in another order."""
    docs, _, _ = planted(60)
    often = np.bincount(np.concatenate(docs), minlength=WORDS) >= 20
    docs = [[w for w in one if often[w]] for one in docs]
    ring = Ring([docs], 1)
    for sweep in range(4):
        ring.rotate(sweep)
    with Sampler(ring.rows[0], PRIOR, SEED, 0, cut=SamplerOrder(1)) as sampler:
        sampler.sweep(ring.rows[0], 3)
        _, word, topic = sampler.tokens(0)
        likelihood = sampler.likelihood(ring.rows[0])[0]
        sampler.optimize(ring.rows[0], 1)
        alpha = np.frombuffer(sampler.blob(0).tobytes()[64:], np.float64)[: PRIOR.topics]
    np.testing.assert_array_equal(ring.ask(0, "state", ring.visits)[0], topic)
    n_kw = np.zeros((PRIOR.topics, WORDS), np.int64)
    np.add.at(n_kw, (topic, word), 1)
    listed, of, times = ring.blocks[0]
    np.testing.assert_array_equal(n_kw[of, np.repeat(ring.places[0], listed)], times)
    assert times.sum() == n_kw.sum()
    terms = ring.ask(0, "alpha", ring.visits, ring.alpha)[0]
    assert np.maximum(1e-5, ring.alpha * terms[:-1] / terms[-1]).tolist() == alpha.tolist()
    (documents_alone,) = ring.ask(0, "likelihood", ring.visits, ring.alpha)[0]
    assert likelihood < documents_alone < 0


@pytest.mark.parametrize("blocks", [1, 3])
def test_counts_of_blocks_are_those_of_all_tokens(blocks):
    docs, _, _ = planted(60)
    ring = Ring([docs[:25], docs[25:]], blocks)
    for sweep in range(4):
        ring.rotate(sweep)
    assert sorted(np.concatenate(ring.places).tolist()) == sorted({w for one in docs for w in one})
    loads = [int(one[2].sum()) for one in ring.blocks]
    assert sum(loads) == sum(map(len, docs)) == ring.totals.sum()
    assert max(loads) < 1.2 * min(loads)
    found = np.zeros(PRIOR.topics, np.int64)
    for _, topic, times in ring.blocks:
        np.add.at(found, topic, times.astype(np.int64))
    np.testing.assert_array_equal(found, ring.totals)
    drawn = np.concatenate([ring.ask(p, "state", ring.visits)[0] for p in range(2)])
    np.testing.assert_array_equal(np.bincount(drawn, minlength=PRIOR.topics), found)


def test_a_visit_that_came_before_is_not_made_again():
    docs, _, _ = planted(10)
    ring = Ring([docs], 1)
    ring.rotate(0)
    arrays = *ring.blocks[0], ring.alpha, ring.totals
    assert ring.ask(0, "visit", 0, *arrays, sweep=1, block=0) == []
    assert len(ring.ask(0, "visit", 1, *arrays, sweep=1, block=0)) == 4
