"""Curves and average precision against scikit-learn, and against their definitions."""

import math

import duckdb
import numpy as np
import pytest
import sklearn.calibration
import sklearn.metrics as reference
from hypothesis import given
from hypothesis import strategies as st
from metric_rows import binary, close, metric, pairs, probability, relaxed, usable

extreme = st.sampled_from([-1.5, -0.0, 0.0, 0.25, 1e-310, math.inf, -math.inf, 1e308])


def columns(table):
    """The columns of a table as arrays."""
    return {name: np.array([row[name] for row in table]) for name in table[0]}


@relaxed
@given(pairs(binary, extreme | probability))
def test_average_precision(con, rows):
    y, p = usable(*rows)
    found = metric(con, "average_precision(y, p)", *rows)
    if y.any():
        ranks = np.unique(p + 0.0, return_inverse=True)[1]  # scikit-learn refuses infinity
        assert close(found, reference.average_precision_score(y, ranks))
    else:
        assert found is None


@relaxed
@given(pairs(binary, extreme | probability))
def test_roc_curve(con, rows):
    y, p = usable(*rows)
    found = metric(con, "roc_curve(y, p)", *rows)
    if len(set(y)) < 2:
        assert found is None
        return
    curve = columns(found)
    values, ranks = np.unique(p + 0.0, return_inverse=True)
    fpr, tpr, thresholds = reference.roc_curve(y, ranks, drop_intermediate=False)
    assert curve["fpr"] == pytest.approx(fpr, abs=1e-15)
    assert curve["tpr"] == pytest.approx(tpr, abs=1e-15)
    assert curve["threshold"].tolist() == [math.inf, *values[thresholds[1:].astype(int)]]


def area(curve):
    return float(np.sum(np.diff(curve["fpr"]) * (curve["tpr"][1:] + curve["tpr"][:-1]) / 2))


@pytest.mark.parametrize("n", [999, 1000, 30_000, 300_000])
@pytest.mark.parametrize("skill", [0.0, 1.0, 6.0])
def test_a_long_curve_is_thinned(con, n, skill):
    """Up to 1,000 points are exact; of more points the area stays within 0.001."""
    rng = np.random.default_rng(n)
    y = rng.random(n) < 0.3
    score = rng.permutation(n) / n + skill * y * rng.random(n)
    con.register("source", {"y": y, "p": score})
    ((found, auc),) = con.execute("SELECT roc_curve(y, p), auc(y, p) FROM source").fetchall()
    con.unregister("source")
    curve = columns(found)
    assert len(found) == 1000 if n == 999 else len(found) <= 1000
    assert len(found) > 250 / (1 + skill)
    assert (np.diff(curve["threshold"]) < 0).all()
    assert (curve["tpr"][-1], curve["fpr"][-1]) == (1, 1)
    assert area(curve) == pytest.approx(auc, abs=1e-12 if n == 999 else 1e-3)
    for point in found[1 :: len(found) // 7]:
        assert point["tpr"] == pytest.approx((score[y] >= point["threshold"]).mean())
        assert point["fpr"] == pytest.approx((score[~y] >= point["threshold"]).mean())


@relaxed
@given(pairs(binary, probability), st.sampled_from([1, 2, 7, 10, 1000]))
def test_calibration(con, rows, bins):
    y, p = usable(*rows)
    found = metric(con, f"calibration(y, p, {bins})", *rows)
    if bins == 10:
        assert metric(con, "calibration(y, p)", *rows) == found
    if not len(y):
        assert found is None
        return
    table = columns(found)
    edges = np.arange(bins + 1) / bins
    place = np.maximum(np.searchsorted(edges, p, side="left"), 1)
    assert table["bin"].tolist() == sorted(set(place.tolist()))
    assert table["lower"].tolist() == edges[table["bin"] - 1].tolist()
    assert table["upper"].tolist() == edges[table["bin"]].tolist()
    for row in found:
        inside = place == row["bin"]
        assert row["n"] == inside.sum()
        assert close(row["mean_p"], p[inside].mean())
        assert close(row["rate"], y[inside].mean())


def test_calibration_as_in_scikit_learn(con):
    rng = np.random.default_rng(5)
    p = rng.random(5000) ** 3
    y = rng.random(5000) < p**1.4
    con.register("source", {"y": y, "p": p})
    ((found,),) = con.execute("SELECT calibration(y, p, 13) FROM source").fetchall()
    table = columns(found)
    con.unregister("source")
    rate, mean = sklearn.calibration.calibration_curve(y, p, n_bins=13)
    assert table["rate"] == pytest.approx(rate)
    assert table["mean_p"] == pytest.approx(mean)


@relaxed
@given(pairs(binary, extreme | probability))
def test_lift(con, rows):
    y, p = usable(*rows)
    found = metric(con, "lift(y, p)", *rows)
    if not len(y):
        assert found is None
        return
    decile = np.array([10 * (p > score).sum() // len(p) + 1 for score in p])
    assert [row["decile"] for row in found] == sorted(set(decile.tolist()))
    for row in found:
        inside = decile == row["decile"]
        assert (row["n"], row["positives"]) == (inside.sum(), y[inside].sum())
        assert close(row["rate"], y[inside].mean())
        if y.any():
            assert close(row["lift"], y[inside].mean() / y.mean())
            assert close(row["cumulative_gain"], y[decile <= row["decile"]].sum() / y.sum())
        else:
            assert (row["lift"], row["cumulative_gain"]) == (None, None)


def test_deciles_of_distinct_scores(con):
    """1,000 rows, the 200 with the highest scores positive."""
    table = con.execute("SELECT lift(i > 800, i) FROM range(1, 1001) t(i)").fetchone()[0]
    assert [row["n"] for row in table] == [100] * 10
    assert [row["lift"] for row in table] == pytest.approx([5, 5] + [0] * 8)
    assert [row["cumulative_gain"] for row in table] == pytest.approx([0.5] + [1] * 9)


CURVES = ("roc_curve(y, p)", "calibration(y, p, 4)", "lift(y, p)", "average_precision(y, p)")


@pytest.fixture
def scored(con):
    """120,000 rows in 50 groups with ties."""
    con.execute(
        "CREATE OR REPLACE TEMP TABLE scored AS SELECT i, i % 50 AS g,"
        " hash(i) % 7 < 2 AS y, (hash(i, 1) % 997) / 997.0 AS p FROM range(120000) t(i)"
    )


@pytest.mark.parametrize("call", CURVES)
def test_groups_and_orders_give_the_same_bits(con, scored, call):
    con.execute("CREATE OR REPLACE TEMP TABLE shuffled AS FROM scored ORDER BY hash(i, 3)")
    query = f"SELECT g, {call} FROM {{}} GROUP BY ROLLUP (g) ORDER BY g"
    first = con.execute(query.format("scored")).fetchall()
    assert len(first) == 51
    assert con.execute(query.format("shuffled")).fetchall() == first
    for g, found in first[3:50:20]:
        one = con.execute(f"SELECT {call} FROM scored WHERE g = {g}").fetchone()[0]
        assert found == one


@pytest.mark.parametrize("frame", ["ORDER BY i ROWS 900 PRECEDING", "ROWS UNBOUNDED PRECEDING"])
@pytest.mark.parametrize("call", CURVES)
def test_window(con, scored, call, frame):
    low = "i >= {0} - 900 AND" if "900" in frame else ""
    query = f"SELECT i, {call} OVER ({frame}) FROM (FROM scored LIMIT 3000) QUALIFY i % 700 = 9"
    for i, found in con.execute(query).fetchall():
        plain = f"SELECT {call} FROM scored WHERE {low.format(i)} i <= {i}"
        assert found == con.execute(plain).fetchone()[0]


def test_one_class(con):
    p = [0.2, 0.4, 0.9]
    for y, rate in ([0, 0, 0], 0), ([1, 1, 1], 1), ([-1, -1, -1], 0):
        assert metric(con, "roc_curve(y, p)", y, p) is None
        assert [row["rate"] for row in metric(con, "calibration(y, p)", y, p)] == [rate] * 3
        assert metric(con, "average_precision(y, p)", y, p) == (1 if rate else None)
        gains = [row["cumulative_gain"] for row in metric(con, "lift(y, p)", y, p)]
        assert gains == ([pytest.approx(k / 3) for k in (1, 2, 3)] if rate else [None] * 3)


def test_any_two_labels_of_a_roc_curve(con):
    p = [0.1, 0.8, 0.4, 0.9]
    expected = metric(con, "roc_curve(y, p)", [0, 1, 1, 0], p)
    assert metric(con, "roc_curve(y, p)", [-7, 12, 12, -7], p) == expected
    assert metric(con, "roc_curve(y > 0, p)", [-7, 12, 12, -7], p) == expected


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("average_precision(i, 1)", "average_precision: label is 2, expected a boolean"),
        ("lift(-(i % 2) + (i = 2)::INT - (i = 2)::INT, 1)", "lift: label holds both 0 and -1"),
        ("roc_curve(i, 1)", "roc_curve: label takes a third value 3 after 1 and 2, expected two"),
        ("roc_curve(1, 'nan'::DOUBLE)", "roc_curve: score is NaN, expected a number"),
        ("calibration(1, i)", "calibration: p is 2, expected a probability between 0 and 1"),
        ("calibration(1, 0.5, 0)", "calibration: bins is 0, expected 1 to 1000"),
        ("calibration(1, 0.5, 1001)", "calibration: bins is 1001, expected 1 to 1000"),
        ("calibration(1, 0.5, i)", "calibration: bins is both 1 and 2, expected one number"),
    ],
)
def test_bad_input(con, call, sentence):
    with pytest.raises(duckdb.Error, match=sentence):
        con.execute(f"SELECT {call} FROM range(1, 4) t(i)").fetchall()
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_as_rows_by_group(con, scored):
    query = """
        SELECT g, (point).threshold, (point).tpr, (point).fpr
        FROM (SELECT g, unnest(roc_curve(y, round(p * 3))) AS point FROM scored GROUP BY g) AS t
        WHERE g < 2 ORDER BY 1, 2 DESC"""
    rows = con.execute(query).fetchall()
    assert [row[:2] for row in rows] == [(g, t) for g in (0, 1) for t in (math.inf, 3, 2, 1, 0)]
    assert [row[2:] for row in rows[::5]] == [(0, 0)] * 2
    assert [row[2:] for row in rows[4::5]] == [(1, 1)] * 2
