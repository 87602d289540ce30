"""The task `lda` as a learner: options, statuses, words, limits, and tomotopy's likelihood."""

import json

import numpy as np
import pytest
from documents import documents, planted, text_of
from rows import account, block, together
from topic_blob import read

from tuskml.errors import DataError, Interrupted, OptionError
from tuskml.kernels.library import cancel, charge_memory
from tuskml.learners import events
from tuskml.learners.learner import Request
from tuskml.learners.registry import learner_of, options_of, task_named
from tuskml.learners.topics.training import together as groups_together

pytestmark = pytest.mark.native

TASK = task_named("lda")
FAST = {"topics": 5, "alpha": 0.2, "beta": 0.05, "max_iter": 30, "threads": 2}


def trained(groups, words=None, memory=0, **options):
    """The models of groups, all in one."""
    given = {k: v for k, v in (FAST | options).items() if v is not None}
    request = Request(TASK, options_of(TASK, json.dumps(given)), words=words)
    groups["place"] = np.arange(len(groups))
    (models,) = learner_of(TASK).train(groups, request, memory)
    return models


def blob_of(models, place=0):
    """The topics of a model."""
    values, ends = models.coef.values, models.coef.offsets
    return read(np.ascontiguousarray(values[ends[place] : ends[place + 1]]).view(np.uint8))


def status(models):
    """Of each model."""
    return [models.status.pool[code] for code in models.status.code]


def test_a_model_has_its_topics_its_history_and_its_options():
    tokens, _, _ = planted(150)
    models = trained(documents(tokens, 200), max_iter=25, seed=3)
    model = blob_of(models)
    assert model.n_kw.sum() == sum(map(len, tokens))
    assert status(models) == ["ok"]
    assert models.iterations.tolist() == [25]
    assert len(models.history.values) == 3
    assert models.history.values[-1] == models.loss[0] < models.history.values[0]
    options = json.loads(models.options.pool[0])
    assert {k: options[k] for k in FAST} | {"seed": 3} == FAST | {"max_iter": 25, "seed": 3}
    assert np.isnan(models.intercept).all()


def test_each_group_has_a_model_and_its_own_words():
    docs = [planted(40, words=20, seed=s)[0] for s in range(2)]
    names = [[f"{'ab'[g]}{i:02d}" for i in range(20)] for g in range(2)]
    texts = [text_of(names[0]), None]
    models = trained(together([documents(one, 20) for one in docs]), words=texts.__getitem__)
    assert blob_of(models, 0).words == tuple(names[0])
    assert blob_of(models, 1).words is None
    assert [blob_of(models, g).head["tokens"] for g in range(2)] == [
        sum(map(len, one)) for one in docs
    ]


def test_many_groups_train_in_parts():
    blocks = [documents(planted(3, words=20, seed=s)[0], 20) for s in range(50)]
    models = trained(together(blocks), max_iter=3)
    assert [blob_of(models, g).head["documents"] for g in (0, 49)] == [3, 3]
    alone = trained(blocks[49], max_iter=3)
    assert blob_of(alone).counts.tolist() == blob_of(models, 49).counts.tolist()


def test_groups_with_many_ids_train_apart():
    """Each has tables by id."""
    groups = together([documents([[1_999_999]], 2_000_000) for _ in range(5)])
    assert [len(places) for places in groups_together(groups)] == [3, 2]


def test_documents_without_words_have_a_status():
    models = trained(together([documents([[], []], 3), documents([[1, 1], []], 3)]))
    assert status(models) == ["no words", "ok"]
    assert models.converged.tolist() == [0, 1]
    assert np.isnan(models.loss[0])
    assert blob_of(models, 0).n_kw.sum() == 0
    assert models.n_rows.tolist() == [2, 2]


@pytest.mark.nightly
def test_a_time_limit_keeps_the_topics_so_far():
    tokens, _, _ = planted(400)
    models = trained(documents(tokens, 200), max_iter=2_000_000_000, time="0.3s")
    assert status(models) == ["time limit"]
    assert blob_of(models).n_kw.sum() == sum(map(len, tokens))
    assert 0 < models.iterations[0] < 2_000_000_000


def test_alpha_is_optimised_where_asked_for():
    tokens, _, _ = planted(150)
    assert (blob_of(trained(documents(tokens, 200))).alpha == 0.2).all()
    found = blob_of(trained(documents(tokens, 200), optimize_interval=7)).alpha
    assert len(set(found.tolist())) == 5
    alone = blob_of(trained(documents(tokens, 200), optimize_interval=7, threads=1))
    assert alone.alpha.tolist() == found.tolist()


def test_lists_of_numbers_are_refused():
    with pytest.raises(DataError, match="are the words of a document, got a list of numbers"):
        trained(block(np.ones((2, 3)), np.zeros(2)))


@pytest.mark.parametrize(("options", "message"), [
    ({"topics": 0}, "option 'topics' is 0, expected a whole number from 1 to 32000"),
    ({"alpha": 0}, "option 'alpha' is 0, expected a number greater than 0 and less than"),
    ({"beta": -1}, "option 'beta' is -1, expected a number greater than 0"),
    ({"beta": 1e308}, "option 'beta' is 1e\\+308, expected a number greater than 0 and less than"),
    ({"topic": 3}, "did you mean 'topics'"),
])  # fmt: skip
def test_options_are_checked(options, message):
    with pytest.raises(OptionError, match=message):
        options_of(TASK, json.dumps(options))


def test_progress_is_told():
    seen = []
    with events.listening(seen.append):
        trained(documents(planted(50)[0], 200), max_iter=20)
    assert [(one.groups, one.iteration) for one in seen] == [(0, 10), (0, 20), (1, 20)]
    assert seen[1].objective < seen[0].objective


def test_a_cancel_ends_the_training():
    with events.listening(lambda event: cancel()), pytest.raises(Interrupted):
        trained(documents(planted(50)[0], 200), max_iter=10_000_000)


def test_an_explanation_names_the_plan():
    request = Request(TASK, options_of(TASK, json.dumps(FAST)))
    (text,) = learner_of(TASK).explain(documents([[1, 2]], 3), request, 0)
    assert "collapsed Gibbs sampling, 5 topics, 30 sweeps, 2 threads" in text


@pytest.mark.nightly
def test_memory_is_charged_and_given_back():
    memory = account()
    from tuskml.kernels.library import memory_use

    before = memory_use(memory).resident
    peak = []
    groups = documents(planted(300)[0], 200)
    with (
        charge_memory(memory),
        events.listening(lambda _: peak.append(memory_use(memory).resident)),
    ):
        trained(groups, memory=memory, max_iter=10)
    tokens = sum(map(len, planted(300)[0]))
    assert max(peak) - before >= 6 * tokens
    assert memory_use(memory).resident == before


def test_the_likelihood_is_tomotopy_s():
    tomotopy = pytest.importorskip("tomotopy")
    tokens, _, _ = planted(400, topics=8, words=300, mean=60)
    theirs = tomotopy.LDAModel(k=8, alpha=0.1, eta=0.05, seed=1)
    theirs.optim_interval = 0
    for one in tokens:
        theirs.add_doc([str(w) for w in one])
    theirs.train(200, workers=1)
    ours = trained(documents(tokens, 300), topics=8, alpha=0.1, beta=0.05, max_iter=200)
    assert -ours.loss[0] == pytest.approx(theirs.ll_per_word, rel=0.005)


@pytest.mark.nightly
def test_online_passes_go_to_the_limit_of_time():
    tokens, _, _ = planted(400)
    models = trained(
        documents(tokens, 200), max_iter=2_000_000_000, time="0.3s", algorithm="online_vb"
    )
    assert status(models) == ["time limit"]
    assert np.isfinite(models.loss).all()


def test_online_topics_have_a_status_without_words():
    groups = together([documents([[], []], 3), documents([[1, 1], []], 3)])
    models = trained(groups, algorithm="online_vb", max_iter=None)
    assert status(models) == ["no words", "ok"]
    assert models.iterations.tolist() == [10, 10]
    assert np.isnan(models.loss[0])
    assert models.loss[1] > 0
