"""Explanations as data and as text, and what trainings came to beside them."""

import json
import threading
import time

import numpy as np
import pytest
from fitting import put

import tuskml
from tuskml.groups import records
from tuskml.learners.explaining import text_of
from tuskml.learners.factorization import explanation as factorization_explanation
from tuskml.learners.linear.planner import planning
from tuskml.learners.linear.planner.curves import fit
from tuskml.learners.linear.planner.explanation import continue_curve

pytestmark = pytest.mark.native

NUMBER = (int, float)
SCHEMA = {
    "explanation": int,
    "task": str,
    "objective": str,
    "groups": int,
    "rows": int,
    "rows_merged": int,
    "rows_skipped": int,
    "features": int,
    "storage": str,
    "bytes": int,
    "model": (dict, type(None)),
    "plan": dict,
    "device": (str, type(None)),
    "reading_seconds": float,
    "cannot": (str, type(None)),
    "candidates": list,
    "actual": (dict, type(None)),
    "source": (dict, type(None)),
}
CANDIDATE = {
    "algorithm": str,
    "chosen": bool,
    "refusal": (str, type(None)),
    "iterations": (dict, type(None)),
    "seconds_per_iteration": (float, type(None)),
    "seconds": (dict, type(None)),
    "memory_bytes": (int, type(None)),
    "store_requests": (*NUMBER, type(None)),
    "store_bytes": (*NUMBER, type(None)),
    "tried": (dict, type(None)),
}


@pytest.fixture
def rows(con):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    put(con, x, x[:, 0] + rng.logistic(size=3000) > 0, k=np.arange(3000) % 3)


def answer(con, call, group_by=""):
    return con.execute(f"SELECT {call} FROM t {group_by}").fetchall()


def documents(con, options="", task="logistic", group_by=""):
    text = json.dumps({"format": "json"} | options if options else {"format": "json"})
    found = answer(con, f"explain_training('{task}', y, x, '{text}')", group_by)
    return [json.loads(one) for (one,) in found]


def fits(value, schema):
    assert list(value) == list(schema)
    for name, kind in schema.items():
        assert isinstance(value[name], kind), name


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("options", [{}, {"threads": 1}, {"algorithm": "sgd"}, {"l1": 0.1}])
def test_the_schema(con, rows, task, options):
    (found,) = documents(con, options, task)
    fits(found, SCHEMA)
    assert (found["explanation"], found["rows"], found["features"]) == (1, 3000, 4)
    assert found["bytes"] == 3000 * (8 + 4 * 8)
    assert bool(found["candidates"]) == ("algorithm" not in options)
    for one in found["candidates"]:
        fits(one, CANDIDATE)
        if one["refusal"] is None:
            for ends in (one["iterations"], one["seconds"]):
                assert 0 <= ends["low"] <= ends["point"] <= ends["high"]
    assert [one["chosen"] for one in found["candidates"]].count(True) == bool(found["candidates"])
    assert found["actual"] is None


def test_json_says_what_the_text_says(con, rows):
    options = {"threads": 1, "time": "1s", "l2": 0.1}
    (found,) = documents(con, options)
    ((text,),) = answer(con, f"explain_training('logistic', y, x, '{json.dumps(options)}')")
    assert text_of(found) == text


def test_plans_that_are_refused_for_one_reason_share_a_line(con, rows):
    """Every plan is named once, and no reason twice."""
    (found,) = documents(con)
    lines = text_of(found).splitlines()
    told = [line.strip().split("  not possible: ") for line in lines if "not possible" in line]
    refused = {
        one["algorithm"]: one["refusal"]
        for one in found["candidates"]
        if one["refusal"] is not None
    }
    assert len({why for _, why in told}) == len(told) == len(set(refused.values())) < len(refused)
    assert {name: why for names, why in told for name in names.strip().split(", ")} == refused


def test_an_explanation_a_group(con, rows):
    assert [one["rows"] for one in documents(con, group_by="GROUP BY k")] == [1000] * 3


def test_a_factorization_has_the_same_schema(con):
    con.execute("CREATE TABLE t AS SELECT i % 3 AS y, [i % 5, i % 7] AS x FROM range(99) r(i)")
    (found,) = documents(con, task="matrix_factorization")
    fits(found, SCHEMA)
    assert (found["rows"], found["candidates"]) == (99, [])
    assert found["plan"]["because"].startswith("steps come near")
    model = {"users": 5, "items": 7, "width": 11, "numbers": 12 * 11}  # rank 10 and a bias
    assert found["model"] == model | {"store": None, "layout": None}
    ((text,),) = answer(con, "explain_training('matrix_factorization', y, x)")
    assert factorization_explanation.text_of(found) == text


def test_a_model_in_a_store_has_the_plan_that_trains_it(con, rows):
    options = '{"store": "a", "format": "json"}'
    call = f"explain_training('svm', y, sparse([0, 1], x[:2]), '{options}')"
    ((text,),) = answer(con, call)
    found = json.loads(text)
    fits(found, SCHEMA)
    assert found["plan"]["algorithm"] == "hogbatch"
    assert found["plan"]["converge"] == "loss"
    with pytest.raises(Exception, match="option 'converge' is 'weights', expected 'loss'"):
        answer(con, call.replace('"a"', '"a", "converge": "weights"'))


def test_explain_trains_and_keeps_the_explanation(con, rows):
    ((plain,),) = answer(con, "train_model('logistic', y, x)")
    ((model,),) = answer(con, "train_model('logistic', y, x, '{\"explain\": true}')")
    assert model["coef"] == pytest.approx(plain["coef"])
    assert "\n  actual    " in model["plan"]
    assert "newton" in model["plan"]
    both = '{"explain": true, "format": "json"}'
    for _, model in answer(con, f"k, train_model('logistic', y, x, '{both}')", "GROUP BY k"):
        found = json.loads(model["plan"])
        fits(found, SCHEMA)
        assert (found["groups"], found["rows"]) == (3, 3000)
        actual = found["actual"]
        assert actual["groups_converged"] == 3
        assert actual["iterations"]["least"] <= model["iterations"] <= actual["iterations"]["most"]
        assert 0 < actual["seconds_per_iteration"] <= actual["seconds"]
        assert found["candidates"]


def test_what_was_tried_is_in_the_explanation(con, rows, monkeypatch):
    """Curves and errors of the candidates that ran on a sample."""
    monkeypatch.setattr(planning.choice, "WORTH_TRYING", 0.0)
    monkeypatch.setattr(planning.choice, "INSTANT", 0.0)
    monkeypatch.setattr(planning, "trivial", lambda question: False)
    monkeypatch.setattr(planning, "worth_trying", lambda all_of_them: all_of_them[:3])
    monkeypatch.setattr(planning, "budget", lambda seconds: 30.0)
    (found,) = documents(con, {"epsilon": 1e-9})
    tried = {one["algorithm"]: one["tried"] for one in found["candidates"] if one["tried"]}
    assert tried
    for name, one in tried.items():
        assert 0 < one["share"] <= 1
        assert one["shape"] in ("linear", "sublinear", "superlinear")
        assert min(one["errors"]) < one["errors"][0], name
        places = [place for place, _ in one["curve"]]
        assert places == sorted(places)
        assert [error for _, error in one["curve"]] == sorted(
            (error for _, error in one["curve"]), reverse=True
        )
    assert "tried on a sample" in text_of(found)


@pytest.mark.parametrize(
    ("errors", "epsilon"),
    [
        ([0.5**i for i in range(12)], 1e-13),
        ([1.0 / (i + 1) for i in range(40)], 1e-4),
        ([1.0, 0.5, 0.1, 4e-3, 6e-6, 1e-11], 1e-13),
    ],
)
def test_a_fitted_curve_passes_by_its_errors(errors, epsilon):
    curve = fit(errors)
    points = continue_curve(curve, epsilon)
    assert points[-1][1] <= 1.01 * epsilon
    assert points[-1][0] == pytest.approx(curve.iterations(epsilon).point, rel=0.05, abs=1.5)
    if curve.shape == "superlinear":
        assert points[0] == (len(errors) - 1, pytest.approx(errors[-1]))
    else:
        at = {"linear": lambda i: 0.5**i, "sublinear": lambda i: 1.0 / (i + 1)}[curve.shape]
        assert points[5][1] == pytest.approx(at(points[5][0]), rel=0.5)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            "train_model('linear', y, x, '{\"format\": \"json\"}')",
            "'format' is only for explain_train",
        ),
        ("explain_training('linear', y, x, '{\"format\": \"xml\"}')", "expected 'text' or 'json'"),
        ("train_model('linear', y, x, '{\"explain\": 1}')", "expected true or false"),
        (
            'train_model(\'linear\', y, sparse([1], [x[1]]), \'{"explain": true, "store": "a"}\')',
            "'explain' is not available with option 'store'",
        ),
        (
            "train_model('matrix_factorization', y, [k, k], '{\"explain\": true}')",
            "'explain' is not available with task 'matrix_factorization'",
        ),
    ],
)
def test_what_cannot_be_explained(con, rows, call, sentence):
    with pytest.raises(Exception, match=sentence):
        answer(con, call)


# --- the last training ---


def test_a_statement_is_one_training(con, rows):
    models = answer(con, "k, train_model('logistic', y, x)", "GROUP BY k")
    found = tuskml.last_training()
    assert (found["groups"], found["rows"]) == (3, 3000)
    assert found["bytes"] == 3000 * (8 + 4 * 8)
    (plan,) = found["plans"]
    assert (plan["task"], plan["algorithm"]) == ("logistic", "newton")
    assert plan["statuses"] == {"ok": 3}
    iterations = [model["iterations"] for _, model in models]
    assert plan["actual"]["iterations"] == {
        "least": min(iterations),
        "mean": sum(iterations) / 3,
        "most": max(iterations),
    }
    assert plan["actual"]["seconds"] == pytest.approx(sum(m["seconds"] for _, m in models))
    assert found["counters"] is None


def test_batches_of_a_statement_are_added_up(con):
    con.execute(
        "CREATE TABLE t AS SELECT i % 9000 AS k, sin(i) AS y, [cos(i)] AS x FROM range(90000) r(i)"
    )
    answer(con, "k, train_model('linear', y, x)", "GROUP BY k")
    found = tuskml.last_training()
    assert (found["groups"], found["rows"]) == (9000, 90000)
    (plan,) = found["plans"]
    assert plan["batches"] > 1
    answer(con, "train_model('linear', y, x)", "WHERE k = 1")
    assert tuskml.last_training()["groups"] == 1


def test_plans_are_told_apart(con, rows):
    answer(
        con,
        "train_model('logistic', y, x), train_model('linear', y, x, '{\"algorithm\": \"bgd\"}')",
    )
    found = tuskml.last_training()["plans"]
    assert sorted((plan["task"], plan["algorithm"]) for plan in found) == [
        ("linear", "bgd"),
        ("logistic", "newton"),
    ]


def test_estimates_stand_beside_what_was(con, rows, monkeypatch):
    monkeypatch.setattr(planning.choice, "WORTH_TRYING", 0.0)
    monkeypatch.setattr(planning.choice, "INSTANT", 0.0)
    monkeypatch.setattr(planning, "trivial", lambda question: False)
    ((model,),) = answer(con, "train_model('logistic', y, x)")
    (plan,) = tuskml.last_training()["plans"]
    told = json.loads(model["options"])["estimated"]
    assert plan["estimated"]["iterations"] == told["iterations"]
    assert plan["estimated"]["seconds"] == told["seconds"]
    assert "estimated" not in plan["plan"]
    assert "estimated" in model["plan"]


@pytest.mark.nightly
def test_what_is_kept_is_bounded(con, rows):
    text = 'train_model(\'linear\', y, x, \'{"algorithm": "mgd", "max_iter": 1, "batch_size": \''
    answer(con, f"i, {text} || (i + 1) || '}}')", ", range(90) r(i) GROUP BY i")
    found = tuskml.last_training()
    assert found["groups"] == 90
    assert len(found["plans"]) == records.MOST_PLANS + 1
    assert found["plans"][-1]["plan"] == records.OTHERS
    for _ in range(3 * records.MOST_STATEMENTS):
        answer(con, "train_model('linear', y, x)", "WHERE k = 0 LIMIT 1")
    assert len(records._statements) <= records.MOST_STATEMENTS


def test_trainings_in_many_threads(con, rows):
    def train():
        with con.cursor() as cursor:
            for _ in range(5):
                query = "SELECT k, train_model('linear', y, x) FROM t GROUP BY k"
                cursor.execute(query).fetchall()
                assert tuskml.last_training()["groups"] > 0

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    kept = [one.document()["groups"] for one in records._statements.values()]
    assert len(kept) <= records.MOST_STATEMENTS
    assert {groups % 3 for groups in kept[-4:]} == {0}


def test_reading_rows_is_a_part_of_what_a_training_takes(con):
    """Rows that take long to come: the estimate of the training alone would be far too little."""
    con.execute("CREATE TABLE few AS SELECT i % 2 AS y, [sin(i)] AS x FROM range(50) t(i)")
    sql = "SELECT explain_training('logistic', y, x, '{{\"format\": \"json\"}}') FROM {}"
    quick = json.loads(con.execute(sql.format("few")).fetchone()[0])
    assert quick["reading_seconds"] >= 0
    text = text_of(quick | {"reading_seconds": 30.0})
    (line,) = (line for line in text.splitlines() if line.startswith("  reading"))
    assert "reading the rows took 30 s" in line
    assert "expected to take 30 s in all" in line
    assert "reading" not in text_of(quick | {"reading_seconds": 0.01})


def test_seconds_of_reading_are_those_that_went_by(con):
    """Rows of several chunks, between which a function sleeps."""
    con.create_function(
        "dawdle", lambda i: time.sleep(0.02) or i, ["BIGINT"], "BIGINT", type="native"
    )
    con.execute("SET threads = 1")
    sql = """SELECT explain_training('linear', i, [sin(i)], '{"format": "json"}')
             FROM (SELECT dawdle(i) AS i FROM range(25) t(i))"""
    began = time.monotonic()
    found = json.loads(con.execute(sql).fetchone()[0])
    assert found["reading_seconds"] <= time.monotonic() - began
