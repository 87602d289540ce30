"""Topics by online variational Bayes: scikit-learn's numbers, planted topics, and any threads."""

import numpy as np
import pytest
import scipy.sparse
from documents import documents, pass_over, planted, recovered, text_of
from rows import together
from topic_blob import read

from tuskml.errors import DataError, Interrupted
from tuskml.kernels.library import OutOfTime, cancel, cancel_mark
from tuskml.kernels.topics import Online, Prior, Sampler, SamplerOrder, Steps

pytestmark = pytest.mark.native

PRIOR = Prior(5, 0.2, 0.05)


def in_our_order(rows, dim):
    """The documents as a matrix of counts, in the order in which the kernels read them."""
    with Sampler(rows, Prior(1, 0.1, 0.1), 0, 0, cut=SamplerOrder(1)) as sampler:
        start, word, _ = sampler.tokens(0)
    row = np.repeat(np.arange(len(start) - 1), np.diff(start))
    ones = np.ones(len(word))
    return scipy.sparse.csr_matrix((ones, (row, word)), (len(start) - 1, dim))


@pytest.mark.sample(1)
@pytest.mark.parametrize("batch", [32, 1000])
@pytest.mark.parametrize("seed", [0, 1])
def test_topics_and_bound_are_scikit_learn_s(batch, seed):
    """From the same lambda and gamma, with the same batches."""
    from sklearn.decomposition import LatentDirichletAllocation

    tokens, _, _ = planted(150, seed=seed, words=120)
    used = sorted({w for one in tokens for w in one})
    tokens = [[used.index(w) for w in one] for one in tokens]
    words = len(used)
    rows = pass_over(documents(tokens, words), 2)
    x = in_our_order(rows, words)
    begin = np.random.default_rng(seed).gamma(100, 0.01, (5, words))
    theirs = LatentDirichletAllocation(
        5, doc_topic_prior=0.2, topic_word_prior=0.05, learning_method="online", random_state=1,
        learning_offset=10, learning_decay=0.7, batch_size=batch, max_iter=3, evaluate_every=-1,
        mean_change_tol=1e-9, max_doc_update_iter=3000,
    )  # fmt: skip
    theirs._init_latent_vars = begun(theirs, begin)

    def from_ones(*given, random_init, original=theirs._e_step, **more):
        return original(*given, random_init=False, **more)

    theirs._e_step = from_ones
    theirs.fit(x)
    with Online(rows, PRIOR, Steps(batch, 10, 0.7, 1e-9, 3000), 1, 0) as ours:
        ours.set_topic_words(0, begin)
        ours.pass_over(rows, 3)
        found = ours.topic_words(0, words)
        (bound,) = ours.likelihood(rows)
        model = read(ours.blob(0))
    np.testing.assert_allclose(found, theirs.components_, rtol=1e-4, atol=1e-4)
    gamma = theirs.transform(x) * (np.asarray(x.sum(axis=1)) + 1)  # whose sum is n + K alpha
    expected = theirs._approx_bound(x, gamma, sub_sampling=False)
    assert bound == pytest.approx(expected, rel=1e-5)
    phi = theirs.components_ / theirs.components_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.phi, phi, rtol=2e-3, atol=1e-5)


def begun(model, begin):
    """scikit-learn's beginning, with these lambda."""
    from sklearn.decomposition._online_lda_fast import _dirichlet_expectation_2d

    original = type(model)._init_latent_vars

    def start(n_features, dtype=np.float64):
        original(model, n_features, dtype)
        model.components_ = begin.copy()
        model.exp_dirichlet_component_ = np.exp(_dirichlet_expectation_2d(begin))

    return start


def trained(groups, threads, passes=3, seed=5, words=(), batch=16):
    """The bytes of the models of groups."""
    rows = pass_over(groups, threads)
    with Online(rows, Prior(20, 0.1, 0.01), Steps(batch, 10, 0.7), seed, 0, words) as topics:
        topics.pass_over(rows, passes)
        return [topics.blob(g).tobytes() for g in range(len(groups))]


def test_planted_topics_are_recovered():
    tokens, phi, _ = planted()
    rows = pass_over(documents(tokens, 200))
    with Online(rows, PRIOR, Steps(64, 10, 0.7), 3, 0) as topics:
        assert recovered(read(topics.blob(0)), phi) < 0.9
        topics.pass_over(rows, 15)
        assert recovered(read(topics.blob(0)), phi) > 0.95


def test_passes_raise_the_bound():
    rows = pass_over(documents(planted(200)[0], 200))
    with Online(rows, PRIOR, Steps(64, 10, 0.7), 3, 0) as topics:
        bounds = []
        for _ in range(4):
            topics.pass_over(rows)
            bounds += topics.likelihood(rows).tolist()
    assert bounds == sorted(bounds)


def test_threads_and_the_order_of_rows_change_no_bit():
    tokens, _, _ = planted(200)
    tokens += tokens[:5]
    once = trained(documents(tokens, 200), 1)
    assert trained(documents(tokens, 200), 3) == once
    rng = np.random.default_rng(1)
    mixed = [rng.permutation(tokens[i]).tolist() for i in rng.permutation(len(tokens))]
    assert trained(documents(mixed, 200, segment_rows=11), 2) == once
    assert trained(documents(tokens, 200), 1, seed=6) != once


def test_a_group_among_others_is_as_by_itself():
    blocks = [documents(planted(40, seed=s)[0], 200) for s in range(3)]
    alone = [trained(one, 2)[0] for one in blocks]
    assert trained(together(blocks), 2) == alone


def test_words_are_in_the_model():
    names = [f"w{i:02d}" for i in range(30)]
    tokens, _, _ = planted(50, words=30)
    (blob,) = trained(documents(tokens, 30), 1, words=[text_of(names)])
    model = read(np.frombuffer(blob, np.uint8))
    assert model.words == tuple(names)
    assert not np.isnan(np.frombuffer(blob)).any()


def test_long_trainings_keep_lambda_finite():
    """The scale of lambda becomes small again and again."""
    groups = documents(planted(60, words=40)[0], 40)
    rows = pass_over(groups)
    with Online(rows, Prior(3, 0.1, 0.01), Steps(2, 0, 0.1), 1, 0) as topics:
        topics.pass_over(rows, 60)
        found = topics.topic_words(0, 40)
    used = found[:, found.sum(axis=0) > 0]
    assert (used >= 0.01).all()
    assert 0.2 * 60 * 80 < used.sum() < 3 * 60 * 80


@pytest.mark.parametrize("tokens", [[[]], [[], [2]], [[0] * 50], [[0, 1], [1, 2], []]])
def test_small_and_empty_documents(tokens):
    rows = pass_over(documents(tokens, 4), 2)
    with Online(rows, Prior(7, 0.1, 0.01), Steps(256, 10, 0.7), 1, 0) as topics:
        topics.pass_over(rows, 2)
        (bound,) = topics.likelihood(rows)
        model = read(topics.blob(0))
    assert np.isfinite(bound)
    used = sorted({w for one in tokens for w in one})
    assert np.flatnonzero(model.listed).tolist() == used
    if used:
        assert model.phi.sum(axis=1) == pytest.approx(1)


def test_counts_that_are_none_are_refused():
    from rows import block

    rows = pass_over(block([([3], [0.5])], np.zeros(1), "sparse float64", dim=8))
    with pytest.raises(DataError, match=r"count of word 3 is 0\.5 in a document"):
        Online(rows, PRIOR, Steps(2, 10, 0.7), 0, 0)


def test_a_cancel_and_a_deadline_end_a_pass():
    groups = documents(planted(300)[0], 200)
    rows = pass_over(groups, 2, cancel_mark=cancel_mark())
    with Online(rows, PRIOR, Steps(16, 10, 0.7), 1, 0) as topics:
        with pytest.raises(OutOfTime):
            topics.pass_over(pass_over(groups, 2, deadline=1e-9))
        topics.pass_over(rows)
        cancel()
        with pytest.raises(Interrupted):
            topics.pass_over(rows, 1_000_000)
        assert np.isfinite(topics.topic_words(0, 200)).all()
