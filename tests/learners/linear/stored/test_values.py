"""What trainings of stored models refuse, begin with, and answer for odd groups."""

# ruff: noqa: E501, SQL is read better on one line

import json
import subprocess
import sys

import duckdb
import numpy as np
import pytest
from stored_fits import SPARSE, STEADY, put, rows_of, train, with_weights, working

from tuskml.kvstore import StoreRoot

pytestmark = pytest.mark.native

D = 150
CALL = f"train_model('logistic', y, {SPARSE}, '{{\"store\": \"ads\"}}')"


@pytest.fixture
def con(rooted):
    put(rooted, *rows_of("logistic"))
    return rooted


# --- groups ---


def test_a_name_for_each_group(con, tmp_path) -> None:
    con.execute(f"""
        CREATE TABLE m AS
        SELECT i % 3 AS g, train_model('logistic', y, {SPARSE}, '{{"store": "m_' || i % 3 || '", "l2": 0.01}}') AS m
        FROM t GROUP BY 1""")
    assert StoreRoot(tmp_path).names() == ["m_0", "m_1", "m_2"]
    alone = con.execute(f"""
        SELECT train_model('logistic', y, {SPARSE}, '{{"store": "alone", "l2": 0.01, "threads": 1, "max_iter": 50, "epsilon": 0}}') FROM t WHERE i % 3 = 1
        """).fetchone()[0]
    found = con.execute("SELECT m FROM m ORDER BY g").fetchall()
    for number, (model,) in enumerate(found):
        assert model["store"].startswith(f"m_{number}@1:")
        assert model["n_rows"] == 400
    assert found[1][0]["loss"] == pytest.approx(alone["loss"], rel=0.03)
    right = con.execute(
        f"SELECT g, auc(y, predict_proba(m, {SPARSE})) FROM t JOIN m ON g = i % 3 GROUP BY g"
    ).fetchall()
    assert all(score > 0.85 for _, score in right)


def test_groups_of_one_name_are_its_versions(con, tmp_path) -> None:
    """Each model value names its own, and predicts with it."""
    con.execute(f"CREATE TABLE m AS SELECT i % 3 AS g, {CALL} AS m FROM t GROUP BY 1")
    found = con.execute("SELECT g, m.store, m.loss FROM m ORDER BY g").fetchall()
    assert StoreRoot(tmp_path).versions("ads") == [1, 2, 3]
    assert len({store for _, store, _ in found}) == 3
    told = con.execute(
        f"SELECT g, log_loss(y, predict_proba(m, {SPARSE})) FROM t JOIN m ON g = i % 3 GROUP BY g ORDER BY g"
    ).fetchall()
    for (_, _, loss), (_, seen) in zip(found, told, strict=True):
        assert loss == pytest.approx(seen, rel=1e-5)


def test_one_class(con, tmp_path) -> None:
    model = con.execute(f"SELECT {CALL} FROM t WHERE y = 1").fetchone()[0]
    assert (model["status"], model["store"], model["classes"]) == ("one class", None, [1])
    assert (model["intercept"], model["loss"]) == (None, 0)
    assert model["n_features"] == D
    assert len(model["coef"]) == 1, "not one for each of what may be billions of features"
    con.execute(f"CREATE TABLE m AS SELECT {CALL} AS m FROM t WHERE y = 1")
    assert con.execute(f"SELECT DISTINCT predict(m, {SPARSE}) FROM t, m").fetchall() == [(1,)]
    assert StoreRoot(tmp_path).names() == []


def test_no_rows(con) -> None:
    nothing = f"SELECT {CALL} FROM (SELECT NULL::DOUBLE AS y, ids, vals FROM t)"
    assert con.execute(nothing).fetchall() == [(None,)]
    assert con.execute(f"SELECT {CALL} FROM t WHERE false").fetchall() == [(None,)]


def test_skipped_rows(con) -> None:
    con.execute(
        "UPDATE t SET y = NULL WHERE i < 10; UPDATE t SET vals = [NULL] || vals[2:] WHERE i = 20"
    )
    model = train(con, **STEADY, max_iter=2)
    assert (model.n_rows, model.n_skipped) == (1189, 11)


@pytest.mark.parametrize("partition", [0, 1000])
def test_rows_without_entries(con, tmp_path, partition) -> None:
    con.execute("UPDATE t SET ids = [], vals = []")
    model = train(con, partition=partition)
    share = con.execute("SELECT avg(y) FROM t").fetchone()[0]
    assert model.intercept == pytest.approx(np.log(share / (1 - share)), abs=0.05)
    assert working(tmp_path) == []


def test_the_largest_id(con, tmp_path) -> None:
    con.execute("UPDATE t SET ids = [2147483646, 0], vals = [y, 1.0]")
    model = train(con, **STEADY, max_iter=3)
    assert model.n_features == 2**31 - 1
    with StoreRoot(tmp_path).open(model.store) as sealed:
        assert sealed.dimension == 2**31 - 1
        assert sealed.weights([2**31 - 2])[0] > 0


# --- what is refused ---


@pytest.mark.parametrize(("task", "features", "options", "told"), [
    ("logistic", SPARSE, {"converge": "gradient"}, "option 'converge' is 'gradient', expected 'loss'"),
    ("logistic", SPARSE, {"schedule": "linear"}, "option 'schedule' is \"linear\", expected 'constant'"),
    ("logistic", SPARSE, {"rank": 3}, "option 'rank' is not available with task 'logistic', which has algorithm, max_iter,"),
    ("logistic", SPARSE, {"store": "../x"}, "option 'store' is \"../x\", expected a name of at most 63"),
    ("logistic", SPARSE, {"store": ""}, "option 'store' is \"\", expected a name"),
    ("logistic", SPARSE, {"store": "a" * 64}, "expected a name of at most 63 letters"),
    ("logistic", SPARSE, {"store": ".a"}, "expected a name of at most 63 letters"),
    ("logistic", SPARSE, {"store": 3}, "option 'store' is 3, expected a name"),
    ("logistic", SPARSE, {"cache": "15MB"}, "option 'cache' is \"15MB\", expected a size of at least '16MB'"),
    ("logistic", SPARSE, {"cache": 16}, "expected a size of at least '16MB'"),
    ("logistic", SPARSE, {"partition": -1}, "option 'partition' is -1, expected a whole number"),
    ("logistic", SPARSE, {"resume": 1}, "option 'resume' is 1, expected true or false"),
    ("logistic", SPARSE, {"warm_start": {"store": "nix"}}, "there is no store named 'nix'"),
    ("logistic", SPARSE, {"warm_start": {"store": "a/b"}}, "a store's name has 1 to 63"),
    ("logistic", SPARSE, {"warm_start": "nix"}, "there is no store named 'nix'"),
    ("logistic", SPARSE, {"warm_start": "a/b"}, "or with option 'store' the name of a stored model, such as 'ads' or 'ads@3'"),
    ("gbdt", "[1.0]", {}, "option 'store' is not available with task 'gbdt', which has"),
])  # fmt: skip
def test_refusals(con, tmp_path, task, features, options, told) -> None:
    text = json.dumps({"store": "ads"} | options).replace("'", "''")
    with pytest.raises(duckdb.Error) as raised:
        con.execute(f"SELECT train_model('{task}', y, {features}, '{text}') FROM t")
    assert told in str(raised.value)
    assert list(tmp_path.rglob("work/*")) == []


def test_three_classes(con) -> None:
    """They train in memory, whatever algorithm a store would take."""
    call = CALL.replace(", y,", ", i % 3,")
    plan, store = con.execute(
        f"SELECT m.plan, m.store FROM (SELECT {call} AS m FROM t)"
    ).fetchall()[0]
    assert plan.endswith("3 classes, trained in memory")
    assert store.startswith("ads@")


def test_predictions_without_the_store(con, tmp_path) -> None:
    con.execute(f"CREATE TABLE m AS SELECT {CALL} AS m FROM t")
    (tmp_path / "ads").rename(tmp_path / "other")
    with pytest.raises(duckdb.Error, match="there is no store named 'ads'"):
        con.execute(f"SELECT predict(m, {SPARSE}) FROM t, m")


# --- warm starts ---


@pytest.mark.parametrize("penalty", [{}, {"l2": 0.01}])
@pytest.mark.parametrize("partition", [0, 40])
def test_warm_starts(con, tmp_path, penalty, partition) -> None:
    """Of a value and of a stored model, of the same index map and another."""
    options = {
        "max_iter": 3,
        "step": 1e-6,
        "threads": 1,
        "partition": partition,
        "epsilon": 0,
    } | penalty
    value = con.execute(
        "SELECT train_model('logistic', y, sparse(ids, vals), '{\"l2\": 0.01}') FROM t"
    ).fetchone()[0]
    first = train(
        con, **options, warm_start={"coef": value["coef"], "intercept": value["intercept"]}
    )
    found = with_weights(tmp_path, first, D)
    assert found.coef == pytest.approx(np.array(value["coef"]), rel=1e-3, abs=1e-4)
    assert first.intercept == pytest.approx(value["intercept"], abs=1e-4)
    for other in (partition, 40 - partition):
        second = train(
            con, **options | {"partition": other, "store": "second"},
            warm_start={"store": first.store, "intercept": first.intercept},
        )  # fmt: skip
        again = with_weights(tmp_path, second, D)
        assert again.coef == pytest.approx(found.coef, rel=1e-3, abs=1e-4)
        assert second.loss == pytest.approx(first.loss, rel=1e-3)


def test_a_warm_start_by_name_and_to_the_same_name(con) -> None:
    first = train(con, **STEADY, max_iter=5)
    second = train(
        con, **STEADY, max_iter=5, warm_start={"store": "ads", "intercept": first.intercept}
    )
    assert (first.store[:6], second.store[:6]) == ("ads@1:", "ads@2:")
    assert second.history[0] < first.history[0]
    assert second.loss < first.loss


@pytest.mark.parametrize("start", ["ads@1", {"store": "ads@1"}])
def test_a_stored_model_has_its_intercept(con, start) -> None:
    """Its name alone begins where its value does."""
    first = train(con, **STEADY, max_iter=5)
    train(con, **STEADY, max_iter=1)  # the current one is another
    value = {"store": first.store, "intercept": first.intercept}
    again = {"max_iter": 3, "step": 0.25, "deterministic": True}
    found, expected = (train(con, **STEADY | again, warm_start=one) for one in (start, value))
    assert first.intercept != 0
    assert found.history == expected.history
    assert found.intercept == expected.intercept


def test_a_stored_model_of_vectors_is_no_start(con) -> None:
    con.execute("""
        SELECT train_model('matrix_factorization', y, [i % 7, i % 5], '{"store": "films", "rank": 2}') FROM t
        """)
    with pytest.raises(
        duckdb.Error, match="'films' of task 'matrix_factorization', expected one of"
    ):
        train(con, **STEADY, warm_start="films")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"partition": "kept"},
            "option 'partition' needs option 'store' beside it",
        ),
        ({"resume": True}, "option 'resume' needs option 'store' beside it"),
        ({"warm_start": "ads"}, "is the stored model 'ads', expected a model with coefficients"),
    ],
)
def test_what_needs_a_store(con, options, told) -> None:
    text = json.dumps(options)
    with pytest.raises(duckdb.Error, match=told):
        con.execute(f"SELECT train_model('logistic', y, {SPARSE}, '{text}') FROM t")


def test_a_warm_start_of_a_whole_model_value(con) -> None:
    """As JSON, the way a model in a table is handed over."""
    con.execute(f"CREATE TABLE m AS SELECT {CALL} AS m FROM t")
    second = con.execute(f"""
        SELECT train_model('logistic', y, {SPARSE}, '{{"store": "ads", "warm_start": ' || (SELECT to_json(m) FROM m) || '}}') FROM t
        """).fetchone()[0]
    assert second["store"].startswith("ads@2:")
    assert second["history"][0] < con.execute("SELECT m.history[1] FROM m").fetchone()[0]


def test_a_warm_start_with_more_features(con, tmp_path) -> None:
    coef = [0.0] * D + [0.0, 5.0]
    model = train(con, **STEADY, max_iter=2, l2=0.5, warm_start={"coef": coef, "intercept": 0})
    assert model.n_features == D + 2
    w = with_weights(tmp_path, model, D + 2).coef
    x, y = rows_of("logistic")
    margins = (x @ w[:D] + model.intercept) * np.where(y == 1, 1, -1)
    assert 0 < w[-1] < 5
    assert model.loss == pytest.approx(np.logaddexp(0, -margins).mean() + 0.25 * w @ w, rel=1e-5)


def test_a_stored_warm_start_in_memory_is_refused(con) -> None:
    first = train(con, **STEADY, max_iter=2)
    text = json.dumps({"warm_start": {"store": first.store, "intercept": 0}})
    with pytest.raises(
        duckdb.Error, match=f"warm_start is the stored model '{first.store}', expected"
    ):
        con.execute(f"SELECT train_model('logistic', y, {SPARSE}, '{text}') FROM t")


def test_versions_count_up_and_all_serve(con, tmp_path) -> None:
    con.execute("CREATE TABLE m (n INTEGER, m JSON)")
    models = [train(con, **STEADY, max_iter=n) for n in (1, 2, 3)]
    root = StoreRoot(tmp_path)
    assert root.versions("ads") == [1, 2, 3]
    for number, model in enumerate(models, 1):
        assert model.store.startswith(f"ads@{number}:")
        root.open(model.store).verify()


# --- memory ---


LARGE = """
import sys, tuskml, tuskml.kvstore, json, numpy as np
con = tuskml.connect(store_root=sys.argv[1], threads=1)
con.execute("SET enable_progress_bar = false")
con.execute("CREATE TABLE t AS SELECT i, (i % 2)::DOUBLE AS y, [(hash(i * 40 + j) % 20000000)::INTEGER"
            " FOR j IN range(39)] || [20000000 + (i % 2)::INTEGER] AS ids,"
            " [1.0::FLOAT FOR j IN range(40)] AS vals FROM range(12000) r(i)")
small = "SELECT train_model('logistic', y, sparse([1], [y]), '{\\"store\\": \\"small\\"}') FROM t"
con.execute(small).fetchall()  # imports, measured costs
def status(name):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
open("/proc/self/clear_refs", "w").write("5")  # VmHWM begins anew
before = status("VmRSS")
options = json.dumps({"store": "big", "cache": "16MB", "threads": 2, "max_iter": 2, "epsilon": 0})
con.execute(f"CREATE TABLE m AS SELECT train_model('logistic', y, sparse(ids, vals), '{options}') AS m FROM t")
grown = status("VmHWM") - before
value = con.execute("SELECT m FROM m").fetchone()[0]
found = np.array(con.execute("SELECT y, decision(m, sparse(ids, vals)) FROM t, m ORDER BY i").fetchall())
rows = np.array(con.execute("SELECT ids FROM t ORDER BY i").fetchnumpy()["ids"].tolist())
with tuskml.kvstore.StoreRoot(sys.argv[1]).open(value["store"]) as sealed:
    margins = sealed.weights(rows).astype(float).sum(axis=1) + value["intercept"]
    print(json.dumps({
        "grown": grown, "dimension": sealed.dimension, "nonzero": sealed.nonzero, "loss": value["loss"],
        "wrong": float(np.abs(found[:, 1] - margins).max()),
        "told": float(np.logaddexp(0, -margins * np.where(found[:, 0] > 0, 1, -1)).mean()),
        "distinct": len(np.unique(rows)),
    }))
"""


@pytest.mark.nightly
@pytest.mark.memory
def test_a_model_much_larger_than_the_cache(tmp_path) -> None:
    """Payloads of 470,000 keys take about 60 MB, of which 16 MB are in memory; an array of all
    weights would take 80 MB, those that a solver needs several times that.
    """
    done = subprocess.run(
        [sys.executable, "-c", LARGE, str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["dimension"] == 20_000_002
    assert 400_000 < found["nonzero"] <= found["distinct"] < 1.05 * found["nonzero"]
    assert found["wrong"] < 1e-9
    assert found["loss"] == pytest.approx(found["told"], rel=1e-5)
    assert found["loss"] < 0.4 < np.log(2)
    assert found["grown"] < 110e6, "62 MB when this was written"
