"""Topics by the static engine: the counts are those of two loops and of the tokens."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

import tuskml
from tuskml.kernels.topics import Prior, Sampler, SamplerOrder
from tuskml.learners.topics.scheduled import Counts, WordRotation
from tuskml.schedule import Static

sys.path.append(str(Path(__file__).parents[2] / "kernels" / "topics"))
from documents import documents, pass_over, planted

WORDS, PRIOR = 120, Prior(4, 0.2, 0.05)
DOCS = [one for one in planted(60, 4, WORDS, 40)[0] if one]


def likelihood_of_words(n_kw):
    """log p(w | z) per token."""
    n_k, beta = n_kw.sum(axis=1), PRIOR.beta
    words = np.count_nonzero(n_kw.sum(axis=0))
    log = gammaln(n_kw + beta).sum() - n_kw.size * gammaln(beta)
    log += len(n_k) * gammaln(words * beta) - gammaln(n_k + words * beta).sum()
    return log / n_kw.sum()


def by_loops(rotations, workers):
    """The same rotations without an engine: rounds, and in each the workers one by one."""
    program = WordRotation(PRIOR, WORDS, seed=3)
    model, data = program.deal(DOCS, workers)
    blocks = program.schedule(model, data)
    for _ in range(rotations):
        parts = [program.part(block, model) for block in blocks]
        for step in range(workers):
            for p in reversed(range(workers)):
                b = (p - step) % workers
                parts[b] = program.update(p, blocks[b], data[p], parts[b])
        model = program.aggregate(parts, model)
    return model


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_engine_gives_the_counts_of_two_loops(workers):
    program = WordRotation(PRIOR, WORDS, seed=3)
    model, data = program.deal(DOCS, workers)
    first = model.words.copy()
    found = tuskml.run_program(program, model, data, Static(3), executor="threads")
    assert isinstance(found.model, Counts)
    np.testing.assert_array_equal(found.model.words, by_loops(3, workers).words)
    assert (found.model.words != first).any()
    counts = np.zeros_like(first)
    for _, word, topic in found.local:
        np.add.at(counts, (topic, word), 1)
    np.testing.assert_array_equal(found.model.words, counts)
    np.testing.assert_array_equal(found.model.totals, counts.sum(axis=1))


def test_the_likelihood_is_that_of_the_kernel():
    """Both are samples of one distribution, so not the same bits."""
    program = WordRotation(PRIOR, WORDS, seed=3)
    model, data = program.deal(DOCS, 2)
    began = likelihood_of_words(model.words)
    found = tuskml.run_program(program, model, data, Static(30), executor="threads")
    rows = pass_over(documents(DOCS, WORDS))
    with Sampler(rows, PRIOR, 3, 0, cut=SamplerOrder(2)) as sampler:
        sampler.sweep(rows, 30)
        start, word, topic = sampler.tokens(0)
    kernel = np.zeros((PRIOR.topics, WORDS), np.int64)
    np.add.at(kernel, (topic, word), 1)
    ours, its = likelihood_of_words(found.model.words), likelihood_of_words(kernel)
    assert len(start) == len(DOCS) + 1
    assert abs(ours - its) < 0.1 * (its - began)
