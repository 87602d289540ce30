"""Topics by collapsed Gibbs sampling: the exact posterior, planted topics, and any threads."""

import itertools
from collections import Counter
from math import lgamma

import numpy as np
import pytest
from documents import documents, pass_over, planted, recovered, text_of
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import together
from topic_blob import read

from tuskml.errors import DataError, Interrupted
from tuskml.kernels.library import OutOfTime, cancel, cancel_mark
from tuskml.kernels.topics import Prior, Sampler, SamplerOrder

pytestmark = pytest.mark.native


def log_joint(docs, topics, prior, alpha=None):
    """log p(w, z), from the definition. docs, topics: of each token its document, word, topic."""
    n_dk, n_kw = Counter(), Counter()
    n_d, n_k = Counter(), Counter()
    for (d, w), k in zip(docs, topics, strict=True):
        n_dk[d, k] += 1
        n_kw[k, w] += 1
        n_d[d] += 1
        n_k[k] += 1
    alpha = [prior.alpha] * prior.topics if alpha is None else alpha
    words = len({w for _, w in docs})
    total = sum(lgamma(n + alpha[k]) - lgamma(alpha[k]) for (_, k), n in n_dk.items())
    total += sum(lgamma(sum(alpha)) - lgamma(sum(alpha) + n) for n in n_d.values())
    total += sum(lgamma(n + prior.beta) - lgamma(prior.beta) for n in n_kw.values())
    whole = words * prior.beta
    return total + sum(lgamma(whole) - lgamma(whole + n) for n in n_k.values())


def state(sampler):
    """Documents and words of the tokens, and their topics."""
    start, word, topic = sampler.tokens(0)
    document = np.repeat(np.arange(len(start) - 1), np.diff(start))
    return list(zip(document.tolist(), word.tolist(), strict=True)), topic.tolist()


def shape_of(docs, topics):
    """What a state says, whatever the topics' names and whichever of the same tokens they have."""
    counts = Counter((k, d, w) for (d, w), k in zip(docs, topics, strict=True))
    named = {}
    for (k, d, w), n in counts.items():
        named.setdefault(k, []).append((d, w, n))
    return tuple(sorted(tuple(sorted(one)) for one in named.values()))


@pytest.mark.parametrize(("tokens", "topics"), [
    ([[0, 1, 2], [1, 1, 3]], 3), ([[0] * 5 + [1], [0] * 4 + [2]], 2),
], ids=["lists", "a row"])  # fmt: skip
def test_long_run_frequencies_are_the_exact_posterior(tokens, topics):
    """In the second case a word is so frequent that its counts are a row of all topics."""
    prior = Prior(topics, 0.7, 0.4)
    rows = pass_over(documents(tokens, 4))
    seen, exact = Counter(), Counter()
    with Sampler(rows, prior, 3, 0) as sampler:
        docs, _ = state(sampler)
        sampler.sweep(rows, 100)
        for _ in range(20_000):
            sampler.sweep(rows, 2)
            seen[tuple(sampler.tokens(0)[2].tolist())] += 1
    found = Counter()
    for one, n in seen.items():
        found[shape_of(docs, one)] += n / 20_000
    for one in itertools.product(range(topics), repeat=len(docs)):
        exact[shape_of(docs, one)] += np.exp(log_joint(docs, one, prior))
    total = sum(exact.values())
    assert sum(abs(n / total - found[one]) for one, n in exact.items()) < 0.065
    assert found.keys() <= exact.keys()


@pytest.mark.parametrize("kind", ["sparse float32", "sparse float64"])
@pytest.mark.parametrize(("topics", "parts"), [(1, 1), (4, 1), (20, 3), (70, 2), (300, 1)])
def test_counts_are_those_of_the_topics_and_the_likelihood_is_the_definition_s(
    kind, topics, parts
):
    tokens, _, _ = planted(60, seed=topics)
    prior = Prior(topics, 0.1, 0.05)
    rows = pass_over(documents(tokens, 210, kind, segment_rows=7), threads=2)
    with Sampler(rows, prior, 1, 0, cut=SamplerOrder(parts)) as sampler:
        sampler.sweep(rows, 3)
        docs, topic = state(sampler)
        model = read(sampler.blob(0))
        (found,) = sampler.likelihood(rows)
    assert Counter(w for _, w in docs) == Counter(w for one in tokens for w in one)
    n_kw = np.zeros((topics, 210), np.int64)
    np.add.at(n_kw, (topic, [w for _, w in docs]), 1)
    np.testing.assert_array_equal(model.n_kw, n_kw)
    np.testing.assert_array_equal(model.totals, n_kw.sum(axis=1))
    assert found == pytest.approx(log_joint(docs, topic, prior), rel=1e-10)
    assert model.head["words"] == len({w for one in tokens for w in one})
    assert model.phi.sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("parts", [4, pytest.param(1, marks=pytest.mark.nightly)])
def test_planted_topics_are_recovered(parts):
    tokens, phi, _ = planted()
    rows = pass_over(documents(tokens, 200))
    with Sampler(rows, Prior(5, 0.2, 0.05), 4, 0, cut=SamplerOrder(parts)) as sampler:
        assert recovered(read(sampler.blob(0)), phi) < 0.9
        sampler.sweep(rows, 100)
        assert recovered(read(sampler.blob(0)), phi) > 0.95


FOUR = SamplerOrder(4)


def trained(groups, threads, seed=5, cut=FOUR, words=()):
    """The bytes of the models of groups."""
    rows = pass_over(groups, threads)
    with Sampler(rows, Prior(40, 0.1, 0.01), seed, 0, words, cut) as sampler:
        sampler.sweep(rows, 4)
        return [sampler.blob(g).tobytes() for g in range(len(groups))]


def test_threads_and_the_order_of_rows_change_no_bit():
    tokens, _, _ = planted(200)
    tokens += tokens[:5]
    once = trained(documents(tokens, 200), 1)
    assert trained(documents(tokens, 200), 3) == once
    rng = np.random.default_rng(1)
    mixed = [rng.permutation(tokens[i]).tolist() for i in rng.permutation(len(tokens))]
    assert trained(documents(mixed, 200, segment_rows=11), 2) == once
    assert trained(documents(tokens, 200), 1, seed=6) != once


def test_windows_are_drawn_one_after_the_other():
    """Each window takes all blocks, so threads change no bit, and the counts are right."""
    tokens, phi, _ = planted(200)
    groups, cut = documents(tokens, 200), SamplerOrder(3, 2_000)
    once = trained(groups, 1, cut=cut)
    assert trained(groups, 2, cut=cut) == once != trained(groups, 1, cut=SamplerOrder(3))
    rows = pass_over(groups)
    with Sampler(rows, Prior(5, 0.2, 0.05), 4, 0, cut=cut) as sampler:
        sampler.sweep(rows, 100)
        docs, topic = state(sampler)
        model = read(sampler.blob(0))
        (found,) = sampler.likelihood(rows)
    assert found == pytest.approx(log_joint(docs, topic, Prior(5, 0.2, 0.05)), rel=1e-10)
    assert model.n_kw.sum() == sum(map(len, tokens))
    assert recovered(model, phi) > 0.9


def test_more_words_than_sixteen_bits_name():
    """Words of a block have 32 bits then."""
    n = 70_000
    tokens = [[*range(i, n, 7), *range(i, n, 70)] for i in range(7)]
    rows = pass_over(documents(tokens, n), 2)
    with Sampler(rows, Prior(3, 0.1, 0.01), 1, 0, cut=SamplerOrder(1)) as sampler:
        sampler.sweep(rows, 2)
        docs, topic = state(sampler)
        model = read(sampler.blob(0))
    n_kw = np.zeros((3, n), np.int64)
    np.add.at(n_kw, (topic, [w for _, w in docs]), 1)
    np.testing.assert_array_equal(model.n_kw, n_kw)
    np.testing.assert_array_equal(
        n_kw.sum(axis=0), np.bincount([w for one in tokens for w in one], minlength=n)
    )


def test_a_group_among_others_is_as_by_itself():
    parts = [planted(40, seed=s)[0] for s in range(3)]
    blocks = [documents(one, 200) for one in parts]
    alone = [trained(one, 2)[0] for one in blocks]
    assert trained(together(blocks), 2) == alone


def test_the_numbers_of_words_do_not_matter():
    """Words in another order, and with gaps, give the same model but for their numbers."""
    tokens, _, _ = planted(50, words=30)
    names = [f"w{i:02d}" for i in range(30)]
    order = np.random.default_rng(2).permutation(30)
    renamed = [[int(np.flatnonzero(order == w)[0]) for w in one] for one in tokens]
    (plain,) = trained(documents(tokens, 30), 1, words=[text_of(names)])
    (other,) = trained(documents(renamed, 30), 1, words=[text_of([names[i] for i in order])])
    assert plain == other
    assert read(np.frombuffer(plain, np.uint8)).words == tuple(names)


def test_words_are_sorted_by_their_bytes():
    names = ["b", "", "\N{GRINNING FACE}", "ab", "a", "\N{LATIN SMALL LETTER E WITH ACUTE}"]
    tokens = [[0, 1, 2, 3], [4, 5, 5, 0]]
    model = read(np.frombuffer(trained(documents(tokens, 6), 1, words=[text_of(names)])[0], "u1"))
    assert model.words == tuple(sorted(names, key=str.encode))
    counts = dict(zip(model.words, model.n_kw.sum(axis=0).tolist(), strict=True))
    assert counts == {"b": 2, "": 1, "\N{GRINNING FACE}": 1, "ab": 1, "a": 1, names[5]: 2}


def test_bytes_pass_as_doubles():
    blob = np.frombuffer(trained(documents(planted(50)[0], 200), 1)[0], np.uint8)
    assert not np.isnan(blob.view(np.float64)).any()
    with pytest.raises(ValueError, match="bytes has"):
        read(blob[:-8])
    with pytest.raises(ValueError, match="version 1"):
        read(np.zeros(80, np.uint8))


def optimised(n_dk, alpha, steps):
    """Minka's fixed point with SciPy's digamma."""
    from scipy.special import digamma

    for _ in range(steps):
        above = (digamma(n_dk + alpha) - digamma(alpha)).sum(axis=0)
        below = (digamma(n_dk.sum(axis=1) + alpha.sum()) - digamma(alpha.sum())).sum()
        alpha = alpha * above / below
    return alpha


def test_alpha_is_optimised_as_by_minka():
    tokens, _, _ = planted(100, topics=3)
    prior = Prior(3, 0.5, 0.1)
    rows = pass_over(documents(tokens, 200))
    with Sampler(rows, prior, 1, 0) as sampler:
        sampler.sweep(rows, 50)
        docs, topic = state(sampler)
        sampler.optimize(rows, 4)
        model = read(sampler.blob(0))
        (found,) = sampler.likelihood(rows)
    n_dk = np.zeros((max(d for d, _ in docs) + 1, 3))
    np.add.at(n_dk, ([d for d, _ in docs], topic), 1)
    expected = optimised(n_dk, np.full(3, 0.5), 4)
    np.testing.assert_allclose(model.alpha, expected, rtol=1e-9)
    assert found == pytest.approx(log_joint(docs, topic, prior, expected), rel=1e-10)


@pytest.mark.parametrize(("count", "told"), [
    (-1.0, "-1"), (0.5, "0.5"), (3e9, "3000000000"),
])  # fmt: skip
def test_counts_that_are_none_are_refused(count, told):
    from rows import block

    rows = pass_over(block([([7], [1.0]), ([3], [count])], np.zeros(2), "sparse float64", dim=8))
    with pytest.raises(DataError, match=rf"count of word 3 is {told} in a document, expected"):
        Sampler(rows, Prior(2, 0.1, 0.1), 0, 0)


def test_too_many_tokens_are_refused():
    from rows import block

    rows = pass_over(block([([0], [2e9]), ([1], [2e9])], np.zeros(2), "sparse float64", dim=8))
    with pytest.raises(DataError, match="4,000,000,000 tokens"):
        Sampler(rows, Prior(2, 0.1, 0.1), 0, 0)


@given(
    st.lists(st.lists(st.integers(0, 6), max_size=6), min_size=1, max_size=6),
    st.integers(1, 40),
    st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)
def test_small_and_empty_documents(tokens, topics, parts):
    """Also more topics than tokens, more parts than documents, and no token at all."""
    rows = pass_over(documents(tokens, 7), 2)
    with Sampler(rows, Prior(topics, 0.1, 0.01), 1, 0, cut=SamplerOrder(parts)) as sampler:
        sampler.sweep(rows, 2)
        model = read(sampler.blob(0))
        (found,) = sampler.likelihood(rows)
    counts = np.bincount([w for one in tokens for w in one], minlength=7)
    np.testing.assert_array_equal(model.n_kw.sum(axis=0), counts)
    assert model.head["documents"] == sum(map(bool, tokens))
    assert np.isfinite(found)


def test_a_cancel_and_a_deadline_end_a_sweep():
    tokens, _, _ = planted(300)
    groups = documents(tokens, 200)
    rows = pass_over(groups, 2, cancel_mark=cancel_mark())
    with Sampler(rows, Prior(50, 0.1, 0.01), 1, 0, cut=SamplerOrder(4)) as sampler:
        late = pass_over(groups, 2, deadline=1e-9)
        with pytest.raises(OutOfTime):
            sampler.sweep(late, 1)
        sampler.sweep(rows, 1)
        cancel()
        with pytest.raises(Interrupted):
            sampler.sweep(rows, 1_000_000)
        _, topic = state(sampler)
        np.testing.assert_array_equal(
            read(sampler.blob(0)).totals, np.bincount(topic, minlength=50)
        )
