"""Ranked metrics of weighted rows, and curves of precision by recall, against scikit-learn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

relaxed = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
RANDOM = np.random.default_rng(11)
N = 80
Y = (RANDOM.random(N) < 0.4).astype(float)
P = np.round(np.clip(0.3 * Y + RANDOM.random(N) * 0.7, 0, 1), 2)  # with ties
W = RANDOM.gamma(1.0, size=N) * (RANDOM.random(N) > 0.1)
ROWS = list(zip(Y, P, W, strict=True))
ONE_DECIMAL = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.5, 0.9, 1.0])


def test_numbers_are_scikit_learn_s(asked: Any) -> None:
    for name, truth in (
        ("auc", reference.roc_auc_score),
        ("average_precision", reference.average_precision_score),
    ):
        found = asked.one(f"{name}(y, p, w)", ROWS, "y, p, w")
        assert found == pytest.approx(truth(Y, P, sample_weight=W), rel=1e-12)


def psi(y: Any, p: Any, w: Any) -> float:
    """Siddiqi, Credit risk scorecards, 2006: in bins that the lower label's deciles cut."""
    low, high = y == 0, y == 1
    cuts = np.unique(
        np.quantile(p[low], np.arange(1, 10) / 10, weights=w[low], method="inverted_cdf")
    )
    bins = np.searchsorted(cuts, p)
    shares = [np.bincount(bins[at], w[at], len(cuts) + 1) / w[at].sum() for at in (high, low)]
    a, b = np.maximum(shares, 1e-4)
    return float(((a - b) * np.log(a / b)).sum())


@pytest.mark.parametrize("decimals", [0, 1, 2, 8])
def test_distances_of_distributions(asked: Any, decimals: int) -> None:
    """ks as scipy has it, psi by its definition."""
    p, weights = np.round(P * 3 + W / 9, decimals), np.floor(3 * W)
    rows = list(zip(Y, p, weights, strict=True))
    known = ks_2samp(p[Y == 0], p[Y == 1]).statistic
    assert asked.one("ks(y, p)", rows, "y, p, w") == pytest.approx(known, rel=1e-12)
    known = psi(Y, p, np.ones(N))
    assert asked.one("psi(y, p)", rows, "y, p, w") == pytest.approx(known, rel=1e-12)
    twice = np.repeat(np.arange(N), weights.astype(int))
    known = ks_2samp(p[twice][Y[twice] == 0], p[twice][Y[twice] == 1]).statistic
    assert asked.one("ks(y, p, w)", rows, "y, p, w") == pytest.approx(known, rel=1e-12)
    known = psi(Y[twice], p[twice], np.ones(len(twice)))
    assert asked.one("psi(y, p, w)", rows, "y, p, w") == pytest.approx(known, rel=1e-12)
    for name in ("ks", "psi"):
        assert asked.one(f"{name}(y, p)", [(1, 0.5, 1)], "y, p, w") is None
        assert asked.one(f"{name}(y, p)", [(0, 1, 1), (1, 1, 1)], "y, p, w") == 0


def test_curves_are_scikit_learn_s(asked: Any) -> None:
    source, used = asked.rows(ROWS, "y, p, w"), W > 0
    y, p = Y[used], P[used]
    for call, weight in (("y, p", None), ("y, p, w", W[used])):
        if weight is None:
            source = asked.rows(list(zip(y, p, W[used], strict=True)), "y, p, w")
        found = asked.table(f"roc_curve({call})", "threshold, tpr, fpr", source)
        fpr, tpr, at = reference.roc_curve(y, p, sample_weight=weight, drop_intermediate=False)
        assert np.array(found) == pytest.approx(np.c_[at, tpr, fpr])
        found = asked.table(
            f"precision_recall_curve({call})", "threshold, precision, recall", source
        )
        precision, recall, at = reference.precision_recall_curve(y, p, sample_weight=weight)
        expected = np.c_[[*at, np.inf], precision, recall][::-1]
        assert np.array(found) == pytest.approx(expected)


def test_bins_and_deciles_by_hand(asked: Any) -> None:
    rows = [(1, 0.9, 3), (0, 0.8, 1), (1, 0.35, 2), (0, 0.31, 6), (0, 0.05, 8)]
    source = asked.rows(rows, "y, p, w")
    columns = "bin, mean_p, rate, n"
    found = asked.table("calibration(y, p, 10, w)", columns, source)
    expected = [(1, 0.05, 0, 1), (4, (0.7 + 1.86) / 8, 0.25, 2), (8, 0.8, 0, 1), (9, 0.9, 1, 1)]
    assert [pytest.approx(row) for row in expected] == found
    found = asked.table(
        "lift(y, p, w)", "decile, n, positives, rate, lift, cumulative_gain", source
    )
    # Of 20 in all, 3, 4, 6 and 12 are above: in tenths 1.5, 2, 3 and 6.
    expected = [
        (1, 1, 1, 1, 4, 0.6), (2, 1, 0, 0, 0, 0.6), (3, 1, 1, 1, 4, 1), (4, 1, 0, 0, 0, 1),
        (7, 1, 0, 0, 0, 1),
    ]  # fmt: skip
    assert [pytest.approx(row) for row in expected] == found


TABLES = {
    "roc_curve(y, p, w)": "threshold, tpr, fpr",
    "precision_recall_curve(y, p, w)": "threshold, precision, recall",
    "calibration(y, p, 4, w)": "bin, lower, upper, mean_p, rate",
    "lift(y, p, w)": "decile, rate, lift, cumulative_gain",
}


@relaxed
@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0]), ONE_DECIMAL, st.integers(0, 3)), min_size=1)
)
def test_a_weight_of_2_is_the_row_twice(
    asked: Any, rows: Sequence[tuple[float, float, int]]
) -> None:
    twice = [row for row in rows for _ in range(row[2])] or [(None, None, 1)]
    for call, columns in TABLES.items():
        plain = call.replace(", w)", ")")
        expected = asked.table(plain, columns, asked.rows(twice, "y, p, w"))
        found = asked.table(call, columns, asked.rows(rows, "y, p, w"))
        assert np.array(found, float) == pytest.approx(
            np.array(expected, float), abs=1e-12, nan_ok=True
        )
    for name in ("auc", "average_precision", "ks", "psi"):
        expected = asked.one(f"{name}(y, p)", twice, "y, p, w")
        found = asked.one(f"{name}(y, p, w)", rows, "y, p, w")
        assert found == (None if expected is None else pytest.approx(expected, abs=1e-12))


def test_what_does_not_determine_a_curve(asked: Any) -> None:
    for rows, known in (
        ([(1, 0.5, 1)], True), ([(0, 0.5, 1)], False), ([(None, 0.5, 1)], False),
        ([(1, 0.5, None)], True), ([(1, 0.5, 0)], True), ([(1, None, 1)], False),
    ):  # fmt: skip
        found = asked.one("precision_recall_curve(y, p) IS NOT NULL", rows, "y, p, w")
        assert found is known
    for rows in ([(0, 0.5, 1)], [(1, 0.5, None)], [(1, 0.5, 0)]):
        assert asked.one("precision_recall_curve(y, p, w) IS NULL", rows, "y, p, w")
        assert asked.one("average_precision(y, p, w) IS NULL", rows, "y, p, w")


@pytest.mark.parametrize(
    "call", [*TABLES, *(f"{name}(y, p, w)" for name in ("auc", "average_precision", "ks", "psi"))]
)
def test_weights_that_are_refused(asked: Any, call: str) -> None:
    for weight, shown in ((-1, "-1"), (np.inf, "inf")):
        query = f"SELECT {call} FROM {asked.rows([(1, 0.5, weight)], 'y, p, w')}"
        name = call.partition("(")[0]
        sentence = f"{name}: weight is {shown}, expected a finite number of at least 0"
        assert sentence in asked.sentence(query)


def test_labels_of_two_codings(asked: Any) -> None:
    source = asked.rows([(3, 0.5)], "y, p")
    sentence = "precision_recall_curve: label is 3, expected a boolean, 0 or 1, or -1 or +1"
    assert sentence in asked.sentence(f"SELECT precision_recall_curve(y, p) FROM {source}")


def test_many_rows_of_groups_and_workers(asked: Any) -> None:
    """States of several threads or workers are combined, and the curve is thinned."""
    made = (
        "SELECT i, i % 2 AS g, (i::bigint * 7919) % 10007 % 3 = 0 AS y, "
        "(i::bigint * 104729) % 99991 / 99991.0 AS p, "
        "(i % 5)::float8 AS w FROM generate_series(1, 50000) AS s(i)"
    )
    asked.connection.execute("DROP TABLE IF EXISTS ranked")
    asked.connection.execute(f"CREATE TABLE ranked AS {made}")
    if asked.postgres:
        for name, value in (("parallel_setup_cost", 0), ("parallel_tuple_cost", 0),
                            ("min_parallel_table_scan_size", 0)):  # fmt: skip
            asked.connection.execute(f"SET {name} = {value}")
    query = "SELECT g, auc(y, p::float8, w), count(*) FROM ranked GROUP BY g ORDER BY g"
    for g, auc, _ in asked.all(query):
        given = asked.all(f"SELECT y, p::float8, w FROM ranked WHERE g = {g}")
        y, p, w = (np.array(column) for column in zip(*given, strict=True))
        assert auc == pytest.approx(reference.roc_auc_score(y, p, sample_weight=w), rel=1e-10)
    points = asked.table(
        "precision_recall_curve(y, p::float8, w)", "threshold, precision, recall", "ranked"
    )
    assert 500 < len(points) <= 1000
    assert points[0][1:] == (1.0, 0.0)
    assert points[-1][2] == pytest.approx(1.0)
    asked.connection.execute("DROP TABLE ranked")
