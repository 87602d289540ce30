"""Option `method`: where weights lie while they train, seen in the plan and in the counters."""

import json

import numpy as np
import pyarrow as pa
import pytest
from planted import cliques
from stored_fits import STEADY, put, rows_of, train, with_weights

from tuskml.learners.linear.stored import run as stored_run
from tuskml.learners.validation import PATIENCE

pytestmark = pytest.mark.native

D = 400
STARTS = {"plain": {}, "warm": {"warm_start": "start"}, "held": {"validation": 0.2}}
PENALTIES = [{}, {"l2": 0.01}, {"l1": 0.001}, {"l1": 0.001, "l2": 0.01}]


@pytest.fixture
def con(rooted):
    """Rows, and a model of others, of which some features are in none of these rows."""
    x, y = rows_of("logistic", n=1600, d=D)
    x[:, 350:] = 0
    put(rooted, x[:800], y[:800])
    x, y = rows_of("logistic", n=500, d=D, seed=1)
    put(rooted, x, y, "others")
    train(rooted, **STEADY, table="others", store="start", max_iter=3)
    return rooted


@pytest.fixture
def tight(monkeypatch) -> None:
    """As if the cache did not hold the model."""
    monkeypatch.setattr(stored_run, "all_fit", lambda *_: False)
    monkeypatch.setattr(stored_run, "FEWEST_CHUNKS", 6)


@pytest.mark.parametrize("start", STARTS)
def test_each_method_is_what_it_says(con, tight, start) -> None:
    """And the same model; neither a warm start nor held-out rows change the method."""
    given = STEADY | {"max_iter": 3, "l2": 0.01} | STARTS[start]
    losses = []
    for method, told in (
        ("routes", "routes: weights travel"),
        ("kv-vp", "KV-VP: features in blocks"),
        ("kv", "KV: features in a key each"),
    ):
        model = train(con, **given, method=method)
        counters = model.options["counters"]
        assert told in model.plan
        assert (counters["read_together"] > 0) == (method == "routes")
        assert (counters["saved_by_partitioning"] > 0) == (method == "kv-vp")
        losses.append(model.loss)
    assert losses[1:] == pytest.approx([losses[0]] * 2, rel=1e-3)


def test_defaults_that_are_given_change_nothing(con, tight) -> None:
    plain = train(con, **STEADY, max_iter=2)
    given = {"method": "routes", "layout": "affinity", "sharing": "cache"}
    model = train(con, **STEADY, max_iter=2, **given)
    assert model.store.split(":")[1] == plain.store.split(":")[1]
    assert model.plan == plain.plan


@pytest.mark.parametrize(
    "given", [{"partition": 10}, {"layout": "id"}, {"layout": "frequency"}, {"sharing": "push"}]
)
def test_options_of_keys_choose_keys(con, given) -> None:
    model = train(con, **STEADY, max_iter=1, **given)
    assert "KV-VP: " in model.plan
    assert model.options["method"] == "kv-vp"
    ((name, value),) = given.items()
    for other in ("routes", "kv"):
        told = f"option '{name}' is not available with method '{other}', expected 'kv-vp'"
        with pytest.raises(Exception, match=told):
            train(con, **STEADY, method=other, **{name: value})


def test_a_number_of_frequent_features_has_no_layout(con) -> None:
    with pytest.raises(Exception, match="leave one of them out"):
        train(con, **STEADY, partition=10, layout="id")


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("start", ["warm", "held"])
def test_routes_are_the_training_in_the_cache(con, tmp_path, monkeypatch, penalty, start) -> None:
    """With the weights of a warm start, those that no row has too."""
    given = STEADY | {"max_iter": 4} | penalty | STARTS[start]
    plain = train(con, **given, store="plain")
    assert "the cache holds all weights" in plain.plan
    monkeypatch.setattr(stored_run, "all_fit", lambda *_: False)
    monkeypatch.setattr(stored_run, "FEWEST_CHUNKS", 6)
    model = train(con, **given)
    assert "weights travel" in model.plan
    assert model.loss == pytest.approx(plain.loss, rel=1e-2)
    coef, expected = (with_weights(tmp_path, one, D).coef for one in (model, plain))
    assert coef[350:] == pytest.approx(expected[350:], rel=1e-2, abs=1e-3)
    assert np.corrcoef(coef, expected)[0, 1] > 0.999


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("start", STARTS)
def test_routes_go_back_to_the_best_weights(con, tight, tmp_path, penalty, start) -> None:
    """Those of a training that ends at the epoch that did best on the held-out rows."""
    given = STEADY | {"step": 2.0, "validation": 0.3} | penalty | STARTS[start]
    model = train(con, **given, max_iter=60)
    assert model.status == "early stop"
    best = train(con, **given, max_iter=model.iterations - PATIENCE)
    coef, expected = (with_weights(tmp_path, one, D).coef for one in (model, best))
    assert coef == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert (model.intercept, model.loss) == pytest.approx((best.intercept, best.loss), rel=1e-6)
    assert len(model.history) > len(best.history)


# --- keys ---


def planted(con, n, times, per_row=5):
    """A table of rows of cliques of 8 features."""
    rows, _ = cliques(n, 8, per_row, times)
    lists = [rows.ids.astype(np.int32), np.ones(len(rows.ids), np.float32)]
    starts = rows.starts.astype(np.int32)
    columns = [pa.ListArray.from_arrays(starts, one) for one in lists]
    labels = pa.array(np.arange(len(rows)) % 2.0)
    con.execute("DROP TABLE t").fetchall()
    con.register("made", pa.table([*columns, labels], ["ids", "vals", "y"]))
    con.execute("CREATE TABLE t AS SELECT * FROM made")


def test_more_frequent_features_save_more_requests(con) -> None:
    """Figure 5 of Qin, Torres, Rusu (VLDB 2017): none without partitioning, the more the larger K
    is, and all but one of a clique's eight where K has all features.
    """
    planted(con, n=100, times=40, per_row=2)
    given = STEADY | {"max_iter": 1, "method": "kv-vp"}
    found = [train(con, **given, partition=k).options["counters"] for k in (0, 80, 400, 800)]
    saved = [one["saved_by_partitioning"] / one["features"] for one in found]
    requests = [one["requests"] for one in found]
    assert saved[0] == 0
    assert saved == sorted(set(saved))
    assert saved[-1] >= 7 / 8
    assert requests == sorted(set(requests), reverse=True)
    by_affinity = train(con, **given).options["counters"]
    assert by_affinity["requests"] <= requests[-1], "which all features share by default"


def test_pushed_keys_are_counted(con, monkeypatch) -> None:
    """What a worker read is handed to the other, which then does not ask for it: nothing would be
    if pushing did nothing. The keys of all chunks are more than the cache holds; some trainings
    are over before both workers have had the processors.
    """
    begun = stored_run.Run.__init__

    def init(self, *given) -> None:
        begun(self, *given)
        self.cache, self.share = 1100 << 10, (1100 << 10) // self.plan.threads

    monkeypatch.setattr(stored_run.Run, "__init__", init)
    planted(con, n=2000, times=10)
    given = STEADY | {"threads": 2, "max_iter": 3, "partition": 0}
    for _ in range(8):
        counters = train(con, **given, sharing="push").options["counters"]
        if counters["saved_by_pushing"]:
            break
    assert counters["saved_by_pushing"] > 0
    names = ("saved_by_pushing", "cache_hits", "requests")
    assert sum(counters[name] for name in names) == counters["features"]
    assert train(con, **given).options["counters"]["saved_by_pushing"] == 0


def test_a_factorization_has_keys_alone(con) -> None:
    call = "SELECT train_model('matrix_factorization', y, [i % 7, i % 5], '{}') FROM others"
    options = json.dumps({"store": "films", "rank": 2, "method": "routes"})
    with pytest.raises(Exception, match="option 'method' is \"routes\", expected 'kv-vp' or 'kv'"):
        con.execute(call.format(options))
