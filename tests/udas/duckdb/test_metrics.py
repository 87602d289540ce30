"""The metric aggregates against scikit-learn."""

import math

import duckdb
import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import given
from hypothesis import strategies as st
from metric_rows import binary, close, metric, number, pairs, probability, relaxed, usable

N = 300_000  # rows of the tables that two threads share
CHANCES = ("log_loss", "auc", "brier", "average_precision")
METRICS = (*CHANCES, "accuracy", "rmse", "mae", "r2", "mape")


# DuckDB 1.5 makes NULL of a NaN in a list parameter.
NAN_FOR_99 = "if({0} = 99, 'nan'::DOUBLE, {0})"
Y_OR_NAN, P_OR_NAN = NAN_FOR_99.format("y"), NAN_FOR_99.format("p")


@relaxed
@given(pairs(binary, probability))
def test_log_loss(con, rows):
    y, p = usable(*rows)
    value = metric(con, "log_loss(y, p)", *rows)
    if len(y):
        assert close(value, reference.log_loss(y, p, labels=[0, 1]))
    else:
        assert value is None


@relaxed
@given(pairs(binary, st.sampled_from([-1.5, -0.0, 0.0, 0.25, 1e-310, math.inf, -math.inf])))
def test_auc_with_ties(con, rows):
    y, p = usable(*rows)
    value = metric(con, "auc(y, p)", *rows)
    if len(set(y)) == 2:
        above = (p[y == 1][:, None] > p[y == 0][None, :]).mean()
        equal = (p[y == 1][:, None] == p[y == 0][None, :]).mean()
        assert close(value, above + equal / 2)
    else:
        assert value is None


@relaxed
@given(pairs(number, number))
def test_regression(con, rows):
    y, p = usable(*rows)
    values = [metric(con, f"{name}(y, p)", *rows) for name in ("rmse", "mae", "r2", "accuracy")]
    if not len(y):
        assert values == [None] * 4
        return
    assert close(values[0], math.sqrt(reference.mean_squared_error(y, p)))
    assert close(values[1], reference.mean_absolute_error(y, p))
    assert close(values[3], np.mean(y == p))
    if len(set(y)) == 1:
        assert values[2] is None
    else:
        assert values[2] == pytest.approx(reference.r2_score(y, p), rel=1e-9, abs=1e-9)


@pytest.fixture
def table(con):
    """Many row groups, ties and NULLs, an offset that makes naive variances fail."""
    rng = np.random.default_rng(7)
    y = rng.random(N) < 0.3
    p = np.round(np.clip(0.3 + 0.2 * y + 0.2 * rng.standard_normal(N), 0, 1), 3)
    target = 1e9 + rng.standard_normal(N)
    guess = target + 0.5 * rng.standard_normal(N)
    group = rng.zipf(1.5, N).clip(max=5000)
    con.register("source", {"y": y, "p": p, "target": target, "guess": guess, "g": group})
    con.execute("CREATE OR REPLACE TEMP TABLE scored AS FROM source")
    con.execute("UPDATE scored SET p = NULL WHERE rowid % 10 = 0")
    con.unregister("source")
    keep = np.arange(N) % 10 != 0
    return {"y": y[keep], "p": p[keep], "g": group[keep], "target": target, "guess": guess}


def test_many_chunks_and_threads(con, table):
    y, p = table["y"], table["p"]
    loss, auc, accuracy, same = con.execute(
        "SELECT log_loss(y, p), auc(y, p), accuracy(y, p > 0.5), accuracy(y::INT, p::INT)"
        " FROM scored"
    ).fetchone()
    assert close(loss, reference.log_loss(y, p))
    assert close(auc, reference.roc_auc_score(y, p))
    assert close(accuracy, np.mean(y == (p > 0.5)))
    assert 0 < same < 1
    rmse, mae, r2 = con.execute(
        "SELECT rmse(target, guess), mae(target, guess), r2(target, guess) FROM scored"
    ).fetchone()
    target, guess = table["target"], table["guess"]
    assert close(rmse, math.sqrt(reference.mean_squared_error(target, guess)))
    assert close(mae, reference.mean_absolute_error(target, guess))
    centred = target - 1e9  # exact, and scikit-learn loses digits without it
    assert r2 == pytest.approx(reference.r2_score(centred, guess - 1e9), rel=1e-12)


def test_groups(con, table):
    y, p, g = table["y"], table["p"], table["g"]
    query = "SELECT g, log_loss(y, p), auc(y, p), rmse(y::INT, p) FROM scored GROUP BY g"
    rows = {key: values for key, *values in con.execute(query).fetchall()}
    assert set(rows) >= set(g.tolist())
    for key in [1, 2, 3, 50, *sorted(rows)[-20:]]:
        labels, scores = y[g == key], p[g == key]
        if not len(labels):
            assert rows[key] == [None, None, None]
            continue
        assert close(rows[key][0], reference.log_loss(labels, scores, labels=[False, True]))
        assert close(rows[key][2], math.sqrt(np.mean((labels - scores) ** 2)))
        if len(set(labels)) == 2:
            assert close(rows[key][1], reference.roc_auc_score(labels, scores))
        else:
            assert rows[key][1] is None


@pytest.mark.parametrize("metric_name", METRICS)
def test_window(con, metric_name):
    """A window combines one state into many: none may be lost or counted twice."""
    rng = np.random.default_rng(3)
    n = 6000
    con.register("source", {"i": np.arange(n), "y": rng.integers(0, 2, n), "p": rng.random(n)})
    con.execute("CREATE OR REPLACE TEMP TABLE w AS FROM source")
    con.unregister("source")
    frame = "OVER (ORDER BY i ROWS BETWEEN 1500 PRECEDING AND CURRENT ROW)"
    query = f"SELECT i, {metric_name}(y::DOUBLE, p) {frame} FROM w QUALIFY i % 500 = 7 ORDER BY i"
    for i, value in con.execute(query).fetchall():
        plain = f"SELECT {metric_name}(y::DOUBLE, p) FROM w WHERE i BETWEEN ? - 1500 AND ?"
        assert value == pytest.approx(con.execute(plain, [i, i]).fetchone()[0], rel=1e-11)


@pytest.mark.parametrize("name", METRICS)
def test_a_growing_frame_without_an_order(con, name):
    """DuckDB may stream such a window, row by row: each row counts, not the first again."""
    con.execute(
        "CREATE TABLE few AS SELECT i % 2 = 0 AS y, (i % 7 + 1) / 9.0 AS p FROM range(40) t(i)"
    )
    call = f"{name}(y{'' if name in CHANCES else '::INT'}, p)"
    found = con.execute(f"SELECT {call} OVER (ROWS UNBOUNDED PRECEDING) FROM few").fetchall()
    rows = "SELECT * FROM few LIMIT"
    expected = [con.execute(f"SELECT {call} FROM ({rows} {n})").fetchone() for n in range(1, 41)]
    assert [value for (value,) in found] == [
        value if value is None else pytest.approx(value, rel=1e-12) for (value,) in expected
    ]


def test_labels(con):
    p = [0.1, 0.8, 0.4, 0.9]
    loss = reference.log_loss([0, 1, 1, 0], p)
    assert close(metric(con, "log_loss(y, p)", [0, 1, 1, 0], p), loss)
    assert close(metric(con, "log_loss(y, p)", [-1, 1, 1, -1], p), loss)
    assert close(metric(con, "log_loss(y > 0, p)", [-1, 1, 1, -1], p), loss)
    assert metric(con, "auc(y, p)", [-7, 12, 12, -7], p) == 0.5
    assert metric(con, "auc(y > 0, p)", [-7, 12, 12, -7], p) == 0.5
    assert metric(con, "accuracy(y > 0, p)", [0, 1, 1, 0], [0, 1, 0, 0]) == 0.75
    assert metric(con, "accuracy(y, p > 0)", [0, 1, 1, 0], [0, 1, 0, 0]) == 0.75


def test_certain_and_wrong_costs_36(con):
    assert close(metric(con, "log_loss(y, p)", [1, 0], [0, 1]), -math.log(np.finfo(float).eps))


def test_filter_and_distinct(con):
    y, p = [0, 1, 1, 0, 1], [0.1, 0.8, 0.4, 0.9, 0.4]
    assert metric(con, "mae(y, p) FILTER (y = 1)", y, p) == pytest.approx(1.4 / 3)
    assert metric(con, "mae(DISTINCT y, p)", y, p) == pytest.approx(1.8 / 4)


@pytest.mark.parametrize(
    ("expression", "y", "p", "sentence"),
    [
        ("log_loss(y, p)", [0, 3], [0.5, 0.5], "log_loss: label is 3, expected a boolean"),
        ("log_loss(y, p)", [0, -1], [0.5, 0.5], "log_loss: label holds both 0 and -1"),
        ("log_loss(y, p)", [0, 1], [0.5, 1.25], "log_loss: p is 1.25, expected a probability"),
        (f"log_loss(y, {P_OR_NAN})", [0, 1], [0.5, 99], "log_loss: p is nan"),
        ("auc(y, p)", [0, 1, 2], [1, 2, 3], "auc: label takes a third value 2 after 0 and 1"),
        (f"auc(y, {P_OR_NAN})", [0, 1], [1, 99], "auc: score is NaN"),
        (f"auc({Y_OR_NAN}, p)", [0, 99], [1, 1], "auc: label is NaN"),
    ],
)
def test_bad_input(con, expression, y, p, sentence):
    with pytest.raises(duckdb.Error, match=sentence):
        metric(con, expression, y, p)
    assert con.execute("SELECT 1").fetchone() == (1,)
