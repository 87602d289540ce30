"""Models of more than two classes whose weights lie in a store while they are trained."""

# ruff: noqa: E501, SQL is read better on one line

import json

import duckdb
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from stored_fits import SPARSE, at_epoch, put, train, working

import tuskml
from tuskml.kvstore import StoreRoot
from tuskml.learners.linear.stored import run as stored_run

pytestmark = pytest.mark.native

N, D, K = 1500, 120, 5
IN_STORE = {"algorithm": "hogbatch", "epsilon": 0}


def rows():
    """Sparse rows, feature 0 everywhere, and labels 0 to 8 by steps of 2."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.08)
    x[:, 0] = 1 + rng.random(N)
    margins = x @ rng.standard_normal((D, K)) + rng.gumbel(size=(N, K))
    return x, 2.0 * margins.argmax(axis=1)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def con(root):
    with tuskml.connect(store_root=root, threads=2) as connection:
        put(connection, *rows())
        yield connection


def objective(weights, intercepts, l1=0.0, l2=0.0, share=None):
    """The penalised mean loss of weights (d, K)."""
    x, y = rows()
    margins = x @ weights + intercepts
    own = margins[np.arange(N), (y / 2).astype(int)]
    losses = np.logaddexp.reduce(margins, axis=1) - own
    mean = np.mean(losses if share is None else losses * share[(y / 2).astype(int)])
    return mean + l2 / 2 * np.sum(weights**2) + l1 * np.sum(np.abs(weights))


def sealed(root, model):
    """Weights (d, K) and intercepts (K,) of the sealed file."""
    with StoreRoot(root).open(model.store) as found:
        assert found.dimension == (D + 1) * K
        both = found.weights(np.arange((D + 1) * K)).astype(float).reshape(D + 1, K)
    return both[1:], both[0]


@pytest.mark.parametrize("partition", [0, 40])
@pytest.mark.parametrize("threads", [1, 2])
def test_it_is_scikit_learn_s_optimum(con, root, partition, threads) -> None:
    given = {"l2": 0.01, "max_iter": 150, "partition": partition, "threads": threads}
    model = train(con, **IN_STORE, **given)
    assert model.plan.startswith("hogbatch"), model.plan
    assert ("KV-VP" in model.plan) == bool(partition)
    x, y = rows()
    peer = LogisticRegression(C=1 / (0.01 * N), tol=1e-8, max_iter=2000).fit(x, y)
    least = objective(peer.coef_.T, peer.intercept_, l2=0.01)
    assert least <= model.loss < least * 1.003
    weights, intercepts = sealed(root, model)
    assert objective(weights, intercepts, l2=0.01) == pytest.approx(model.loss, rel=1e-5)
    assert np.sum(intercepts) == pytest.approx(0, abs=1e-6)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "options",
    [{}, {"l1": 0.002}, {"l1": 0.001, "l2": 0.01}, {"l2": 0.01, "class_weight": "balanced"},
     {"l2": 0.01, "class_weight": [1, 2, 3, 1, 1]}, {"l2": 0.01, "fit_intercept": False}],
    ids=json.dumps,
)  # fmt: skip
@pytest.mark.parametrize("algorithm", ["hogbatch", "hogwild"])
def test_the_loss_is_that_of_memory(con, root, algorithm, options) -> None:
    plain = train(con, algorithm="lbfgs", **options)
    kept = train(con, **IN_STORE | {"algorithm": algorithm}, max_iter=300, **options)
    assert plain.loss * (1 - 1e-6) <= kept.loss < plain.loss * (1.01 if options else 1.06)
    weights, intercepts = sealed(root, kept)
    if not options:
        assert not weights[:, 0].any(), "the first class is the reference"
        assert intercepts[0] == 0


def test_the_value_is_that_of_memory_but_for_the_coefficients(con) -> None:
    plain = train(con, algorithm="lbfgs", l2=0.01)
    kept = train(con, **IN_STORE, max_iter=5, l2=0.01)
    for name in ("task", "classes", "n_rows", "n_features", "coef", "std_err", "intercept"):
        assert getattr(kept, name) == getattr(plain, name), name
    assert kept.plan.endswith(f"{K} classes")


def test_predictions_are_those_of_the_weights(con, root) -> None:
    x, _ = rows()
    call = json.dumps({"store": "asked", "l2": 0.01, "max_iter": 20} | IN_STORE)
    query = f"SELECT predict(m, {SPARSE}), predict_class(m, {SPARSE}), predict_proba(m, {SPARSE}, 4), m.store FROM t, (SELECT train_model('logistic', y, {SPARSE}, $1) AS m FROM t) ORDER BY i"
    found = con.execute(query, [call]).fetchall()
    model = type("Model", (), {"store": found[0][3]})
    weights, intercepts = sealed(root, model)
    margins = x @ weights + intercepts
    shares = np.exp(margins - np.logaddexp.reduce(margins, axis=1)[:, None])
    np.testing.assert_allclose([row[2] for row in found], shares[:, 2], atol=1e-6)
    assert [row[0] for row in found] == (2.0 * margins.argmax(axis=1)).tolist()
    assert [float(row[1]) for row in found] == [row[0] for row in found]


@pytest.mark.nightly
def test_a_cache_that_holds_few_of_the_weights(con) -> None:
    """Payloads leave memory and come back: the same loss as where all fit, and as in memory."""
    con.execute(
        "CREATE OR REPLACE TABLE wide AS SELECT (hash(i) % 400)::DOUBLE AS y, [(hash(i * 30 + j) % 50000)::INTEGER FOR j IN range(30)] AS ids, [1.0 FOR j IN range(30)] AS vals FROM range(1000) r(i)"
    )
    given = {"max_iter": 2, "step": 0.5, "partition": 0} | IN_STORE
    small = train(con, table="wide", cache="16MB", **given)
    large = train(con, table="wide", cache="1GB", **given)
    counters = small.options["counters"]
    assert counters["bytes_written"] > 2 * 16e6, "the weights are several times the cache"
    assert counters["found"] > 0
    assert large.options["counters"]["found"] == 0
    assert small.loss == pytest.approx(large.loss, rel=0.02)


@pytest.mark.nightly
def test_rows_wider_than_the_cache(con) -> None:
    """Partial dot products per class, part after part of a row's keys."""
    con.execute(
        "CREATE OR REPLACE TABLE long AS SELECT (i % 3)::DOUBLE AS y, [(hash(i * 9973 + j) % 700000)::INTEGER FOR j IN range(300 + 120000 * (i = 7)::INTEGER)] AS ids, [0.01 FOR j IN ids] AS vals FROM range(40) r(i)"
    )
    given = {"max_iter": 3, "step": 0.5, "threads": 1} | IN_STORE
    small = train(con, table="long", cache="16MB", partition=0, **given)
    large = train(con, table="long", cache="1GB", partition=0, **given)
    assert small.loss == pytest.approx(large.loss, rel=0.02)


@pytest.fixture
def travelling(monkeypatch):
    """A cache that could not hold the weights, so that they go from chunk to chunk of rows."""
    monkeypatch.setattr(stored_run, "all_fit", lambda *_: False)
    monkeypatch.setattr(stored_run, "FEWEST_CHUNKS", 6)


@pytest.mark.parametrize(
    "options",
    [{}, {"l2": 0.01}, {"l1": 0.001, "l2": 0.01}, {"class_weight": "balanced", "l2": 0.01}],
    ids=json.dumps,
)
def test_weights_that_travel_are_those_that_stay(con, root, monkeypatch, travelling, options):
    """To what the order of rows changes."""
    given = {"max_iter": 60, "step": 0.5, "threads": 1, **IN_STORE} | options
    model = train(con, **given)
    assert "weights travel between" in model.plan
    assert model.plan.endswith(f"{K} classes")
    monkeypatch.undo()
    plain = train(con, **given)
    assert "weights travel between" not in plain.plan
    assert model.loss == pytest.approx(plain.loss, rel=5e-3)
    weights, intercepts = sealed(root, model)
    if "class_weight" not in options:
        penalties = {name: options.get(name, 0.0) for name in ("l1", "l2")}
        assert objective(weights, intercepts, **penalties) == pytest.approx(model.loss, rel=1e-4)


def test_weights_that_travel_go_on_after_an_interruption(con, root, monkeypatch, travelling):
    given = {"l2": 0.01, "max_iter": 12, "step": 0.5, "threads": 1} | IN_STORE
    whole = train(con, store="whole_route", **given)
    monkeypatch.setattr("tuskml.learners.linear.stored.routed.PATIENCE", 0)
    monkeypatch.setattr(stored_run, "CHECKPOINT_SECONDS", 0.0)

    def stop():
        raise KeyboardInterrupt

    with at_epoch(6, stop), pytest.raises((duckdb.Error, KeyboardInterrupt)):
        train(con, store="route", **given)
    assert len(working(root, "route")) == 1
    resumed = train(con, store="route", resume=True, **given)
    assert "weights travel between" in resumed.plan
    assert resumed.iterations == whole.iterations
    assert resumed.loss == pytest.approx(whole.loss, rel=1e-3)


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("penalty", [{}, {"l2": 0.01}])
def test_weights_that_travel_are_estimated(con, penalty) -> None:
    """Weights of many times the cache: what an explanation foresees, and what was asked."""
    con.execute(
        "CREATE OR REPLACE TABLE much AS SELECT (hash(i) % 100)::DOUBLE AS y, [(hash(i * 30 + j) % 300000)::INTEGER FOR j IN range(30)] AS ids, [1.0 FOR j IN range(30)] AS vals FROM range(2500) r(i)"
    )
    given = {"max_iter": 2, "step": 0.5, "cache": "16MB"} | IN_STORE | penalty
    small = train(con, table="much", **given)
    assert "weights travel between" in small.plan
    told, counted = small.options["store_estimate"], small.options["counters"]
    assert counted["bytes_written"] > 4 * 16e6
    for mine, theirs in (
        ("store_requests", "requests"),
        ("store_bytes_read", "bytes_read"),
        ("store_bytes_written", "bytes_written"),
    ):
        assert counted[theirs] / 1.5 <= told[mine] <= 1.5 * counted[theirs], mine
    call = json.dumps({"store": "ads", "format": "json"} | given)
    query = f"SELECT explain_training('logistic', y, {SPARSE}, $1) FROM much"
    (one,) = json.loads(con.execute(query, [call]).fetchall()[0][0])["candidates"]
    moved = told["store_bytes_read"] + told["store_bytes_written"]
    assert one["store_bytes"] == pytest.approx(moved, rel=0.3)
    large = train(con, table="much", **given | {"cache": "1GB"})
    assert "weights travel" not in large.plan
    assert small.loss == pytest.approx(large.loss, rel=0.02)


@pytest.mark.nightly
@pytest.mark.parametrize("penalty", [{}, {"l2": 0.01}])
def test_held_out_rows_stop_it_early(con, root, penalty) -> None:
    given = penalty | {"validation": 0.25, "threads": 1, "seed": 3} | IN_STORE
    stopped = train(con, max_iter=200, **given)
    assert stopped.status == "early stop"
    best = stopped.iterations - 5
    so_long = train(con, max_iter=best, **given)
    np.testing.assert_allclose(sealed(root, stopped)[0], sealed(root, so_long)[0], rtol=1e-6)
    assert stopped.loss == pytest.approx(so_long.loss)
    assert working(root) == []


@pytest.mark.nightly
def test_an_explanation_foresees_requests_and_bytes(con) -> None:
    """Each time, test_weights_that_travel_are_estimated explains weights that travel."""
    given = {"partition": 0, "max_iter": 2, "step": 0.5, "cache": "16MB"} | IN_STORE
    con.execute(
        "CREATE OR REPLACE TABLE asked AS SELECT (hash(i) % 200)::DOUBLE AS y, [(hash(i * 30 + j) % 40000)::INTEGER FOR j IN range(30)] AS ids, [1.0 FOR j IN range(30)] AS vals FROM range(1500) r(i)"
    )
    call = json.dumps({"store": "ads", "format": "json"} | given)
    ((text,),) = con.execute(
        f"SELECT explain_training('logistic', y, {SPARSE}, $1) FROM asked", [call]
    ).fetchall()
    (one,) = json.loads(text)["candidates"]
    options = train(con, table="asked", **given).options
    told, counted = options["store_estimate"], options["counters"]
    assert one["store_requests"] == pytest.approx(told["store_requests"], rel=0.2)
    moved = told["store_bytes_read"] + told["store_bytes_written"]
    assert one["store_bytes"] == pytest.approx(moved, rel=0.2)
    for mine, theirs in (
        ("store_requests", "requests"),
        ("store_bytes_read", "bytes_read"),
        ("store_bytes_written", "bytes_written"),
    ):
        assert counted[theirs] / 2 <= told[mine] <= 2 * counted[theirs], mine


def test_ids_beyond_31_bits(con, root) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE huge AS SELECT y, [k::BIGINT * 70000000000000 FOR k IN ids] AS ids, vals FROM t"
    )
    given = {"l2": 0.01, "max_iter": 30, "step": 0.5, "threads": 1} | IN_STORE
    near, far = train(con, **given), train(con, table="huge", **given)
    assert far.loss == pytest.approx(near.loss, rel=0.01)
    with StoreRoot(root).open(far.store) as found:
        ids = (np.arange(D) * 70000000000000 + 1)[:, None] * K + np.arange(K)
        weights = found.weights(ids.ravel()).astype(float).reshape(D, K)
        intercepts = found.weights(np.arange(K)).astype(float)
    assert objective(weights, intercepts, l2=0.01) == pytest.approx(far.loss, rel=1e-4)


@pytest.mark.nightly
def test_memory_that_the_weights_outgrow_sends_them_to_the_store(tmp_path) -> None:
    """By `auto`; with room for them it trains in memory, which is exact.

    An earlier call of `cancel` ends nothing.
    """
    tuskml.cancel()
    entries = "[(hash(i * 60 + j) % 100000)::INTEGER FOR j IN range(30)]"
    with tuskml.connect(store_root=tmp_path, threads=2) as con:
        con.execute(
            f"CREATE TABLE t AS SELECT {entries} AS ids, [1.0::FLOAT FOR j IN range(30)] AS vals, "
            "'c' || (hash(i) % 10) AS y FROM range(4000) r(i)"
        )
        plans = []
        for limit in ("4GB", "60MB"):
            con.execute(f"SET memory_limit = '{limit}'")
            query = f'SELECT m.plan, m.class_names FROM (SELECT train_model(\'logistic\', y, {SPARSE}, \'{{"store": "s", "max_iter": 2, "l2": 0.1}}\') AS m FROM t)'
            ((plan, names),) = con.execute(query).fetchall()
            assert names == [f"c{k}" for k in range(10)]
            plans.append(plan)
    assert "trained in memory" in plans[0]
    assert plans[1].startswith("hogbatch")


def test_an_interrupted_training_goes_on(con, root, monkeypatch) -> None:
    given = {"l2": 0.01, "max_iter": 12, "step": 0.5, "threads": 1} | IN_STORE
    monkeypatch.setattr(stored_run, "CHECKPOINT_SECONDS", 0.0)
    whole = train(con, store="whole", **given)

    def stop():
        raise KeyboardInterrupt

    with at_epoch(6, stop), pytest.raises((duckdb.Error, KeyboardInterrupt)):
        train(con, store="again", **given)
    assert len(working(root, "again")) == 1
    resumed = train(con, store="again", resume=True, **given)
    assert resumed.iterations == whole.iterations
    assert resumed.loss == pytest.approx(whole.loss, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"warm_start": {"store": "first"}}, "warm_start is the stored model 'first' of 5"),
        ({"class_weight": [1, 2]}, "option 'class_weight' has 2 weights and a group 5 classes"),
        ({"converge": "gradient"}, "option 'converge' is 'gradient', expected 'loss'"),
    ],
)
def test_what_cannot_be_is_refused(con, options, why) -> None:
    train(con, store="first", max_iter=1, **IN_STORE)
    with pytest.raises(duckdb.Error, match=why):
        train(con, **IN_STORE, **options)
