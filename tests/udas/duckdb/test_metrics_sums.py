"""Brier, percentage, pinball and deviances against scikit-learn."""

import math

import duckdb
import pytest
import sklearn.metrics as reference
from hypothesis import given
from hypothesis import strategies as st
from metric_rows import binary, close, metric, number, pairs, probability, relaxed, usable

above = st.floats(1e-3, 1e6)


@relaxed
@given(pairs(binary, probability))
def test_brier(con, rows):
    y, p = usable(*rows)
    value = metric(con, "brier(y, p)", *rows)
    assert value == (pytest.approx(((p - y) ** 2).mean(), abs=1e-13) if len(y) else None)
    if len(set(y)) == 2:
        assert close(value, reference.brier_score_loss(y, p))


def test_brier_of_each_coding(con):
    p = [0.1, 0.8, 0.4, 0.9]
    value = metric(con, "brier(y, p)", [0, 1, 1, 0], p)
    assert close(value, (0.01 + 0.04 + 0.36 + 0.81) / 4)
    assert metric(con, "brier(y, p)", [-1, 1, 1, -1], p) == value
    assert metric(con, "brier(y > 0, p)", [-1, 1, 1, -1], p) == value


@relaxed
@given(pairs(number, number), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
def test_errors_of_numbers(con, rows, quantile):
    y, p = usable(*rows)
    mape = metric(con, "mape(y, p)", *rows)
    pinball = metric(con, f"pinball(y, p, {quantile})", *rows)
    if not len(y):
        assert (mape, pinball) == (None, None)
        return
    assert close(mape, reference.mean_absolute_percentage_error(y, p))
    assert close(pinball, reference.mean_pinball_loss(y, p, alpha=quantile))


@relaxed
@given(pairs(above, above), pairs(st.integers(0, 9).map(float), above))
def test_deviances(con, rows, counts):
    y, p = usable(*rows)
    gamma = metric(con, "gamma_deviance(y, p)", *rows)
    if len(y):
        expected = reference.mean_gamma_deviance(y, p)
        assert gamma == pytest.approx(expected, rel=1e-11, abs=1e-11)
    else:
        assert gamma is None
    y, p = usable(*counts)
    poisson = metric(con, "poisson_deviance(y, p)", *counts)
    if len(y):
        expected = reference.mean_poisson_deviance(y, p)
        assert poisson == pytest.approx(expected, rel=1e-11, abs=1e-9)
    else:
        assert poisson is None


def test_a_label_of_0_that_is_predicted_as_0(con):
    """Small means come to it, and exp() of a far margin is 0."""
    for metric_of in ("poisson_deviance(y, p)", "tweedie_deviance(y, p, 1.9)"):
        rows = [0.0, 2.0], [0.0, 1.0]
        limit = metric(con, metric_of, [0.0, 2.0], [1e-280, 1.0])
        assert metric(con, metric_of, *rows) == pytest.approx(limit, rel=1e-12)


def test_quantile_by_row(con):
    """A row without a quantile does not count; a quantile may differ by row."""
    rows = "(VALUES (1.0, 0.0, 0.5), (1.0, 0.0, 0.9), (7.0, 0.0, NULL)) AS t (y, p, q)"
    assert con.execute(f"SELECT pinball(y, p, q) FROM {rows}").fetchone()[0] == 0.7


@pytest.mark.parametrize(
    ("expression", "y", "p", "sentence"),
    [
        ("brier(y, p)", [0, 2], [0.5, 0.5], "brier: label is 2, expected a boolean"),
        ("brier(y, p)", [0, -1], [0.5, 0.5], "brier: label holds both 0 and -1"),
        ("brier(y, p)", [0, 1], [0.5, -0.5], "brier: p is -0.5, expected a probability"),
        ("mape(y, p)", [0, math.inf], [1, 1], "mape: label is inf, expected a finite number"),
        ("mape(y, p)", [0, 1], [1, -math.inf], "mape: predicted is -inf, expected a finite"),
        ("pinball(y, p, 1.5)", [0], [1], "pinball: quantile is 1.5, expected a number between 0"),
        ("poisson_deviance(y, p)", [-1], [1], "poisson_deviance: label is -1, expected a number"),
        (
            "poisson_deviance(y, p)",
            [1],
            [0],
            "poisson_deviance: predicted is 0, expected a number",
        ),
        ("gamma_deviance(y, p)", [0], [1], "gamma_deviance: label is 0, expected a number above"),
    ],
)
def test_bad_input(con, expression, y, p, sentence):
    with pytest.raises(duckdb.Error, match=sentence):
        metric(con, expression, y, p)
