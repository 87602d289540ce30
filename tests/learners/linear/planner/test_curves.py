"""Iterations to a tolerance, on sequences whose rates are known."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuskml.learners.linear.planner.curves import MOST_ITERATIONS, Interval, fit

SCALES = st.floats(1e-3, 1e3)


@given(a=SCALES, rho=st.floats(0.2, 0.97), seen=st.integers(8, 60), further=st.floats(2, 1e6))
def test_linear_rates(a, rho, seen, further):
    """e_i = a rho^i: reached after log(e / a) / log rho."""
    errors = [a * rho**i for i in range(seen)]
    curve = fit(errors)
    assert curve.shape == "linear"
    tolerance = errors[-1] / further
    expected = math.log(tolerance / a) / math.log(rho)
    found = curve.iterations(tolerance)
    assert found.point == pytest.approx(max(expected, seen), rel=1e-3)
    assert found.low - 1e-6 <= found.point <= found.high + 1e-6
    assert found.high <= found.point * 1.01 + 1


@given(a=SCALES, q=st.floats(0.6, 3), seen=st.integers(12, 80), further=st.floats(2, 50))
def test_sublinear_rates(a, q, seen, further):
    """e_i = a / i^q, q = 1 being the paper's a / e."""
    errors = [2 * a, *(a / i**q for i in range(1, seen))]
    curve = fit(errors)
    assert curve.shape == "sublinear"
    tolerance = errors[-1] / further
    assert curve.iterations(tolerance).point == pytest.approx((a / tolerance) ** (1 / q), rel=0.02)


@given(first=st.floats(0.3, 0.9), seen=st.integers(5, 6))
def test_superlinear_rates(first, seen):
    """e_(i+1) = e_i^2, Newton's: the digits double."""
    errors = [first ** (2**i) for i in range(seen)]
    curve = fit(errors)
    assert curve.shape == "superlinear"
    tolerance = first ** (2 ** (seen + 1.5))
    if tolerance > 1e-290:
        assert curve.iterations(tolerance).point == pytest.approx(seen + 2, abs=1)


@given(st.lists(st.floats(1e-12, 1e6), min_size=6, max_size=60), st.floats(1e-9, 1.0))
def test_any_sequence_gives_an_interval(errors, tolerance):
    """In order, finite, and what was reached is counted, not estimated."""
    curve = fit(errors)
    if curve is None:
        return
    found = curve.iterations(tolerance)
    assert 0 <= found.low <= found.point <= found.high <= MOST_ITERATIONS
    reached = [i for i, error in enumerate(errors) if error <= tolerance]
    if reached:
        assert (found.low, found.high) == (reached[0], reached[0])
    else:
        assert found.low >= len(errors)


@given(st.lists(st.floats(1e-6, 1.0), min_size=6, max_size=30), st.data())
def test_a_tighter_tolerance_takes_no_fewer_iterations(errors, data):
    curve = fit(errors)
    if curve is None:
        return
    loose, tight = sorted(data.draw(st.tuples(*[st.floats(1e-8, 1.0)] * 2)), reverse=True)
    assert curve.iterations(loose).point <= curve.iterations(tight).point


@pytest.mark.parametrize(
    "errors", [[], [1.0], [1.0, 0.5, 0.2], [1.0] * 20, [0.1, 0.2, 0.4, 0.8, 1.0, 2.0]]
)
def test_what_cannot_be_fitted(errors):
    assert fit(errors) is None


def test_noise_widens_the_interval():
    rng = np.random.default_rng(0)
    clean = 0.8 ** np.arange(30)
    noisy = clean * np.exp(0.4 * rng.standard_normal(30))
    narrow, wide = (fit(list(errors)).iterations(1e-8) for errors in (clean, noisy))
    assert wide.high / wide.low > narrow.high / narrow.low
    assert wide.low <= narrow.point <= wide.high


def test_what_is_no_number_is_left_out():
    errors = [math.inf, 1.0, math.nan, 0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625]
    assert fit(errors).errors == tuple(0.5**i for i in range(7))


def test_intervals_are_in_order():
    assert Interval.around(9, 5, 2) == Interval(5, 5, 5)
    assert Interval.around(1, 2, math.inf).high == MOST_ITERATIONS
