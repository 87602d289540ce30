"""The tables by spread: as given at their points, in between in between, and rising."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuskml.learners.linear.algorithms import bgd, lbfgs, newton
from tuskml.learners.linear.algorithms.newton_cg import PRODUCTS_BY_SPREAD as PRODUCTS
from tuskml.learners.linear.planner import iterations
from tuskml.learners.linear.planner.iterations import DECADES, FEWER, MORE, SPREADS

ITERATIONS = {
    (family.ALGORITHM.name, task): rows
    for family in (bgd, lbfgs, newton)
    for task, rows in family.USUAL.by_spread.items()
}


@pytest.mark.parametrize(("family", "task"), ITERATIONS)
def test_as_given_at_the_tables_points(family, task):
    for (i, decade), (j, known) in itertools.product(enumerate(DECADES), enumerate(SPREADS)):
        found = iterations.iterations_by_spread(ITERATIONS[family, task], known, decade)
        assert found.point == pytest.approx(ITERATIONS[family, task][i][j])
        assert (found.low, found.high) == pytest.approx((found.point / FEWER, MORE * found.point))


@given(
    key=st.sampled_from(sorted(ITERATIONS)),
    known=st.floats(0.01, 1e6),
    decade=st.floats(0.5, 12),
    more=st.floats(0.1, 3),
)
def test_a_tighter_tolerance_takes_no_fewer(key, known, decade, more):
    loose, tight = (
        iterations.iterations_by_spread(ITERATIONS[key], known, k).point
        for k in (decade, decade + more)
    )
    assert 0 < loose <= tight * (1 + 1e-9)


@given(task=st.sampled_from(sorted(PRODUCTS)), known=st.floats(0.01, SPREADS[-1]))
def test_below_its_ends_a_table_is_as_at_them(task, known):
    rows = PRODUCTS[task]
    for i, decade in enumerate(DECADES):
        found = iterations.by_spread(PRODUCTS[task], known, decade)
        assert min(rows[i]) * (1 - 1e-9) <= found <= max(rows[i]) * (1 + 1e-9)


@given(
    task=st.sampled_from(sorted(PRODUCTS)),
    known=st.floats(SPREADS[-1], 1e5),
    by=st.floats(1.01, 10.0),
    decade=st.sampled_from(DECADES),
)
def test_beyond_the_table_correlated_features_take_longer(task, known, by, decade):
    """Of what was measured the last step is continued, at most in proportion to the spread."""
    here, there = (iterations.by_spread(PRODUCTS[task], at, decade) for at in (known, by * known))
    assert here * (1 - 1e-9) <= there <= by * here * (1 + 1e-9)
    assert iterations.by_spread(PRODUCTS[task], 10 * known, 6.0) > iterations.by_spread(
        PRODUCTS[task], known, 6.0
    )
