"""Any linear model can be stored: dense rows, early stopping, the user's own losses, any algorithm."""

# ruff: noqa: E501, SQL is read better on one line

import json

import duckdb
import numpy as np
import pytest
import statsmodels.api as sm
from fitting import fit
from fitting import put as put_dense
from own import HUBER, LOGIT, POISSON, own_things
from sklearn.linear_model import LogisticRegression
from stored_fits import SPARSE, put, rows_of, train, with_weights, working

import tuskml
from tuskml.kvstore import StoreRoot
from tuskml.learners.linear.stored import run as stored_run
from tuskml.learners.linear.tasks import LINEAR

pytestmark = pytest.mark.native

D = 150
OWN = {"own_huber": HUBER, "own_poisson": POISSON, "logit": LOGIT}
LABELS = {"own_huber": "linear", "own_poisson": "counts", "logit": "logistic"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("stores")


def few():
    """Rows of four features, so that an optimum without a penalty exists."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 4))
    return x, rng.poisson(np.exp(0.3 + x @ [0.4, -0.3, 0.2, 0.0])) * 1.0


@pytest.fixture(scope="module")
def con(root):
    """Tables of sparse and of dense rows."""
    with tuskml.connect(store_root=root, threads=2) as connection:
        for task in ("linear", "logistic", "svm"):
            put(connection, *rows_of(task), task)
            put_dense(connection, *rows_of(task), f"{task}_dense")
        x, margins = rows_of("linear")
        counts = np.random.default_rng(1).poisson(np.exp(np.clip(margins, -5, 5) / 4)) * 1.0
        put(connection, x, counts, "counts")
        put(connection, *few(), "few")
        yield connection


@pytest.fixture
def own():
    with own_things():
        for name, parts in OWN.items():
            tuskml.register_task(name, **parts)
        yield


# --- dense rows ---


@pytest.mark.parametrize("storage", ["FLOAT", "DOUBLE"])
def test_dense_rows_are_the_peers_optimum(con, root, storage) -> None:
    x, y = rows_of("logistic")
    put_dense(con, x, y, "narrow", storage)
    con.execute(
        'CREATE OR REPLACE TABLE m AS SELECT train_model(\'logistic\', y, x, \'{"store": "dense", "l2": 0.01}\') AS m FROM narrow'
    )
    peer = LogisticRegression(C=1 / (0.01 * len(y)), tol=1e-8, max_iter=1000).fit(x, y)
    found = con.execute("SELECT predict_proba(m, x), predict(m, x) FROM narrow, m").fetchall()
    np.testing.assert_allclose(np.array(found)[:, 0], peer.predict_proba(x)[:, 1], atol=1e-4)
    np.testing.assert_array_equal(np.array(found)[:, 1], peer.predict(x))
    value = con.execute("SELECT m FROM m").fetchall()[0][0]
    assert (value["coef"], value["std_err"], value["n_features"]) == (None, None, D)
    assert "trained in memory" in value["plan"]
    assert json.loads(value["options"])["store"] == value["store"]
    with StoreRoot(root).open(value["store"]) as sealed:
        np.testing.assert_allclose(sealed.weights(np.arange(D)), peer.coef_[0], atol=1e-3)
        assert sealed.metadata["loss"] == value["loss"]


@pytest.mark.sample(4)
@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("options", [{}, {"l1": 0.01}, {"validation": 0.2}, {"algorithm": "mgd"}])
def test_dense_rows_train_as_without_a_store(con, root, task, options) -> None:
    given = {"deterministic": True} | options
    plain = fit(con, task, f"{task}_dense", **given)
    kept = fit(con, task, f"{task}_dense", store="same", **given)
    assert (kept.loss, kept.iterations, kept.status) == (
        plain.loss,
        plain.iterations,
        plain.status,
    )
    np.testing.assert_array_equal(with_weights(root, kept, D).coef, plain.coef)


def test_dense_rows_start_at_a_stored_model(con, root) -> None:
    first = fit(con, "logistic", "logistic_dense", store="warm", l2=0.01)
    again = fit(
        con, "logistic", "logistic_dense", store="warm", l2=0.01, warm_start={"store": "warm"}
    )
    assert again.iterations < first.iterations
    assert again.loss == pytest.approx(first.loss, rel=1e-6)
    assert StoreRoot(root).version("warm@2").origin.lineage == 1


def test_an_explanation_of_dense_rows_is_that_of_memory(con) -> None:
    query = "SELECT explain_training('logistic', y, x, $1) FROM logistic_dense"
    text = con.execute(query, ['{"store": "ads"}']).fetchall()[0][0]
    assert "  newton  " in text


# --- algorithms that are not for stores ---


@pytest.mark.parametrize("algorithm", ["lbfgs", "newton", "svrg"])
def test_any_algorithm(con, root, algorithm) -> None:
    given = {"algorithm": algorithm, "l2": 0.01, "deterministic": True}
    plain = fit(con, "logistic", "logistic", SPARSE, **given)
    kept = train(con, "logistic", "logistic", "any", **given)
    assert kept.plan.startswith(algorithm)
    assert kept.loss == plain.loss
    np.testing.assert_array_equal(with_weights(root, kept, D).coef, plain.coef)


def test_ids_of_which_few_occur(con, root) -> None:
    """Numbered anew in memory, stored by their own ids, without a list up to the largest."""
    con.execute(
        "CREATE OR REPLACE TABLE far AS SELECT y, [i * 10000019 FOR i IN ids]::INTEGER[] AS ids, vals FROM logistic"
    )
    near = train(con, "logistic", "logistic", "near", algorithm="lbfgs", l2=0.01)
    far = train(con, "logistic", "far", "far", algorithm="lbfgs", l2=0.01)
    assert far.n_features == (D - 1) * 10000019 + 1
    assert far.loss == pytest.approx(near.loss, rel=1e-6)
    stores = StoreRoot(root)
    with stores.open(near.store) as one, stores.open(far.store) as other:
        expected = one.weights(np.arange(D))
        np.testing.assert_allclose(other.weights(np.arange(D) * 10000019), expected, atol=1e-4)


def test_a_training_in_memory_has_nothing_to_resume(con) -> None:
    with pytest.raises(
        duckdb.Error, match="option 'resume' is for sparse features, and these features are lists"
    ):
        fit(con, "logistic", "logistic_dense", store="ads", resume=True)


# --- early stopping ---


@pytest.mark.sample(3)
@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("penalty", [{}, {"l2": 0.01}, {"l1": 0.005}])
def test_an_early_stop_is_as_good_as_in_memory(con, task, penalty) -> None:
    given = penalty | {"validation": 0.25, "algorithm": "hogbatch"}
    plain = fit(con, task, task, SPARSE, max_iter=100, epsilon=0, deterministic=True, **given)
    kept = train(con, task, task, "early", max_iter=100, epsilon=0, threads=1, **given)
    assert kept.status == "early stop"
    assert kept.n_rows == 1200
    assert kept.loss < 1.15 * plain.loss, "both stop after other epochs of noisy steps"


@pytest.mark.parametrize("penalty", [{}, {"l2": 0.01}])
def test_it_goes_back_to_the_best_weights(con, root, penalty) -> None:
    """The five epochs without a gain leave no trace: weights are those of a training so long."""
    given = penalty | {"validation": 0.25, "threads": 1, "epsilon": 0, "seed": 3}
    stopped = train(con, "logistic", "logistic", "back", max_iter=200, **given)
    assert stopped.status == "early stop"
    best = stopped.iterations - 5
    so_long = train(con, "logistic", "logistic", "back", max_iter=best, **given)
    assert so_long.status != "early stop"
    assert with_weights(root, stopped, D).coef == pytest.approx(
        with_weights(root, so_long, D).coef
    )
    assert stopped.loss == pytest.approx(so_long.loss)
    assert stopped.history[:best] == pytest.approx(so_long.history)
    assert working(root, "back") == []


def test_its_counters_add_up(con) -> None:
    counters = train(con, "logistic", "logistic", "counted", validation=0.25).options["counters"]
    names = (
        "saved_by_partitioning",
        "read_together",
        "saved_by_pushing",
        "cache_hits",
        "requests",
    )
    assert sum(counters[name] for name in names) == counters["features"]


# --- losses of the user's own ---


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("penalty", [{"l2": 0.01}, {"l1": 0.005}])
def test_own_losses_are_the_optimum_in_memory(con, own, name, penalty) -> None:
    plain = fit(con, name, LABELS[name], SPARSE, **penalty)
    kept = train(con, name, LABELS[name], name, max_iter=300, epsilon=0, **penalty)
    assert kept.plan.startswith("hogbatch, batches of 128")
    assert kept.loss == pytest.approx(plain.loss, rel=0.01)


def test_poisson_rows_are_statsmodels(con, own) -> None:
    x, y = few()
    con.execute(
        'CREATE OR REPLACE TABLE m AS SELECT train_model(\'own_poisson\', y, sparse(ids, vals), \'{"store": "few", "max_iter": 200, "epsilon": 0}\') AS m FROM few'
    )
    peer = sm.GLM(y, sm.add_constant(x), family=sm.families.Poisson()).fit()
    found = con.execute("SELECT predict(m, sparse(ids, vals)) FROM few, m ORDER BY i").fetchall()
    np.testing.assert_allclose(np.array(found)[:, 0], peer.fittedvalues, rtol=0.1)


def test_own_losses_of_dense_rows(con, own) -> None:
    plain = fit(con, "own_huber", "linear_dense", deterministic=True)
    assert (
        fit(con, "own_huber", "linear_dense", store="own", deterministic=True).loss == plain.loss
    )


def test_own_losses_stop_early(con, own) -> None:
    kept = train(con, "logit", "logistic", "logit", validation=0.25, epsilon=0, max_iter=200)
    assert kept.status == "early stop"


def test_a_loss_that_fails_says_why(con, own) -> None:
    def loss(m, y):
        if len(m) == 128:
            raise ValueError("no such margin")
        return (m - y) ** 2 / 2

    tuskml.register_task("fails", loss=loss, derivative=lambda m, y: m - y)
    with pytest.raises(duckdb.Error, match="task 'fails': loss raised ValueError: no such margin"):
        train(con, "fails", "linear", "fails")


GENERAL = [name for name, task in LINEAR.items() if task.general]


@pytest.mark.parametrize("features", ["sparse(ids, vals)", "vals"])
@pytest.mark.parametrize("task", GENERAL)
def test_every_loss_trains_as_without_a_store(con, task, features) -> None:
    """Its predictions are those of the model without a store, to the rounding of sums."""
    rows = "(SELECT ids, vals, {y} AS y FROM few)".format(
        y={"gamma": "y + 0.5", "inverse_gaussian": "y + 0.5", "squared_hinge": "y > 1"}.get(
            task, "y"
        )
    )
    call = "train_model('{task}', y, {x}, '{options}')"
    both = [
        call.format(task=task, x=features, options=json.dumps({"l2": 0.01} | more))
        for more in ({}, {"store": "any"})
    ]
    query = f"WITH t AS {rows}, m AS (SELECT {both[0]} AS a, {both[1]} AS b FROM t) SELECT predict(a, {features}), predict(b, {features}), a.loss, b.loss, b.coef, b.store FROM t, m"
    plain, kept, loss, again, coef, store = map(
        np.array, zip(*con.execute(query).fetchall(), strict=True)
    )
    assert set(coef.tolist()) == {None}
    assert store[0].startswith("any@")
    np.testing.assert_allclose(kept, plain, rtol=1e-9)
    np.testing.assert_allclose(again, loss, rtol=1e-12)


def test_own_losses_on_weights_that_travel(con, own, monkeypatch) -> None:
    given = {"table": "logistic", "max_iter": 40, "epsilon": 0, "step": 0.5, "l2": 0.01}
    kept = train(con, "logit", **given)
    monkeypatch.setattr(stored_run, "all_fit", lambda *_: False)
    travelled = train(con, "logit", **given)
    assert "weights travel" in travelled.plan
    assert travelled.loss == pytest.approx(kept.loss, rel=0.02)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("label", "more", "expected"),
    [
        ("(hash(i) % 3)::VARCHAR", {"algorithm": "lbfgs"}, "algorithm 'lbfgs' trains in memory.*leave 'algorithm' out"),
        ("hash(i) % 2 = 0", {"algorithm": "newton_cg"}, "algorithm 'newton_cg' trains in memory.*leave 'algorithm' out"),
    ],
    ids=["classes", "algorithm"],
)  # fmt: skip
def test_a_model_that_memory_cannot_train_says_what_the_store_can(tmp_path, label, more, expected):
    """And not that option 'store', which is given, would help."""
    entries = "[(hash(i * 60 + j) % 1000000)::INTEGER FOR j IN range(60)]"
    with tuskml.connect(store_root=tmp_path, threads=2) as con:
        con.execute(
            f"CREATE TABLE t AS SELECT {entries} AS ids, [1.0::FLOAT FOR j IN range(60)] AS vals, "
            f"{label} AS y FROM range(20000) r(i)"
        )
        con.execute("SET memory_limit = '40MB'")
        options = json.dumps({"store": "s"} | more)
        with pytest.raises(duckdb.Error, match=f"no memory for the training: {expected}"):
            con.execute(
                f"SELECT train_model('logistic', y, sparse(ids, vals), '{options}') FROM t"
            )
