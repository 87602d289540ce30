"""How far a training is while its only model trains, and its number in its process."""

import json
import threading
import time

import numpy as np
import pytest
from sharing_work import Work, of_activity, until

import tuskml
from tuskml.schedule import pool, shares

pytestmark = pytest.mark.native

STORED = {"store": "a", "algorithm": "hogbatch", "max_iter": 1_000_000, "epsilon": 0, "l2": 1e-6}
ENDLESS = {
    "gbdt": ("gbdt", {"trees": 100_000, "num_leaves": 15}),
    "small groups": ("gbdt", {"trees": 100_000, "num_leaves": 15}),
    "random_forest": ("random_forest", {"trees": 10_000, "max_depth": 6}),
    "mlp": ("mlp", {"max_iter": 1_000_000}),
    "path": ("sparse_logistic", {"path": {"length": 1000, "ratio": 1e-6}, "tol": 1e-14}),
    "stored": ("logistic", STORED),
    "topics": ("lda", {"topics": 5, "max_iter": 1_000_000}),
    "factorization": ("matrix_factorization", {"max_iter": 1_000_000, "epsilon": 0}),
}
PLANS = {
    "gbdt": "histogram boosting",
    "small groups": "histogram boosting",
    "random_forest": "random forest",
    "mlp": "adam",
    "path": "coordinate descent on working sets",
    "stored": "hogbatch",
    "topics": "collapsed Gibbs sampling",
    "factorization": "als",
}
FEATURES = {
    "lda": "sparse([(v * 1000)::BIGINT % 50 FOR v IN x], [1.0 FOR v IN x])",
    "matrix_factorization": "[(x[1] * 1000)::BIGINT % 200, (x[2] * 1000)::BIGINT % 200]",
}
"""Where they are not the list of numbers."""


@pytest.fixture(autouse=True)
def of_eight_cores(own_table):
    """All tests have a table of their own."""


class Endless:
    """A training in DuckDB that goes on until it is cancelled."""

    def __init__(self, con, statement):
        self.con, self.statement, self.failed = con, statement, []
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            self.con.execute(self.statement).fetchall()
        except Exception as error:
            self.failed.append(error)

    def __enter__(self):
        self.thread.start()
        return self.failed

    def __exit__(self, *_):
        while self.thread.is_alive():
            tuskml.cancel()
            self.thread.join(0.1)


def made(con, n, groups):
    """A table of so many rows in so many groups."""
    con.execute("SET enable_progress_bar = false")
    con.execute(
        f"CREATE TABLE t AS SELECT i % {groups} AS g, hash(i, 99) % 2 AS y, "
        f"[hash(i, j) % 1000 / 1000 FOR j IN range(30)]::FLOAT[] AS x FROM range({n}) r(i)"
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ENDLESS)
def test_progress_within_a_model(name, tmp_path):
    task, options = ENDLESS[name]
    n, groups = (400, 3) if name == "small groups" else (20_000, 1)
    label = "NULL" if task == "lda" else "y"
    asked = f"'{task}', {label}, {FEATURES.get(task, 'x')}, '{json.dumps(options)}'"
    with tuskml.connect(store_root=tmp_path) as con:
        made(con, n, groups)
        with Endless(con, f"SELECT g, train_model({asked}) FROM t GROUP BY g") as failed:
            until(lambda: failed or any(0 < (p or 0) < 1 for p in of_activity("progress")), 120)
            assert not failed
            first = shares.activity()[0]
            assert first.done == 0
            assert first.left > 0
            assert first.rho == pytest.approx(1, abs=0.1), "it is alone"
            assert first.plan == PLANS[name]
            assert name == "path" or first.rows_per_second > 0
            until(lambda: of_activity("progress")[0] > first.progress, 120)
    assert failed, "it would have taken for ever"


@pytest.mark.parametrize("algorithm", ["bgd", "lbfgs", "newton", "sgd", "svrg"])
def test_a_long_training_of_few_rows_is_listed(algorithm):
    """Its passes are too short to ask the pool for a thread."""
    options = {"algorithm": algorithm, "epsilon": 0, "max_iter": 1_000_000_000, "l2": 0.1}
    with tuskml.connect() as con:
        made(con, 9, 1)
        asked = f"'logistic', y, x, '{json.dumps(options)}'"
        with Endless(con, f"SELECT train_model({asked}) FROM t") as failed:
            until(lambda: failed or of_activity("plan") == [algorithm], 120)
            assert not failed
            until(lambda: of_activity("rows_per_second")[0] is not None, 120)
    assert failed
    assert shares.activity() == []


@pytest.mark.parametrize("tell", [lambda: shares.step(0.5, 1, 9), lambda: shares.progress(1)])
def test_who_says_how_far_it_is_has_an_entry(tell):
    with shares.training(b"linear", 2):
        time.sleep(0.03)
        assert shares.activity() == [], "it has asked for nothing yet"
        tell()
        assert of_activity("wanted") == [1]


def test_what_is_left_comes_from_the_plan_until_there_is_progress():
    with shares.training(b"linear", 2):
        enter(pool.library())
        assert (of_activity("left"), of_activity("rho")) == ([None], [None]), "nothing tells it"
        shares.note_plan("newton, 2 threads", 50.0)
        assert of_activity("plan") == ["newton"]
        assert of_activity("left") == pytest.approx([50], abs=5)
        assert of_activity("rho") == pytest.approx([1], abs=0.05)
        shares.progress(1)
        assert of_activity("left")[0] < 5, "as long as until now"


def test_work_counts_units_of_all_threads():
    functions = pool.library()
    begin, done, end = progress_functions()
    with shares.training(b"gbdt", 4):
        enter(functions)
        work = begin(100, 2)
        threads = [threading.Thread(target=done, args=(work, 10, 5)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        time.sleep(0.05)
        done(work, 0, 0)  # told at most fifty times a second
        assert of_activity("progress") == [0.5 * 2 / 4]
        end(work)
        assert of_activity("rows_per_second")[0] > 0
        shares.progress(2)
        assert of_activity("progress") == [2 / 4]
    assert begin(1, 1) is None, "this thread does not train"


def progress_functions():
    """`tusk_progress`."""
    import ctypes

    pointer, whole = ctypes.c_void_p, ctypes.c_int64
    at = ctypes.cast(pool.progress(), ctypes.POINTER(pointer * 3)).contents
    return (
        ctypes.CFUNCTYPE(pointer, whole, whole)(at[0]),
        ctypes.CFUNCTYPE(None, pointer, whole, whole)(at[1]),
        ctypes.CFUNCTYPE(None, pointer)(at[2]),
    )


def enter(library):
    """Gives the calling thread's training its place in the table."""
    time.sleep(0.03)
    library.ts_training_share(1)
    assert len(shares.activity()) == 1


def test_trainings_of_a_process_have_numbers():
    with Work(), Work(), Work():
        until(lambda: len(shares.activity()) == 3)
        numbers = of_activity("number")
        assert len(set(numbers)) == 3
        assert len(set(of_activity("pid"))) == 1
        assert np.ptp(numbers) == 2
