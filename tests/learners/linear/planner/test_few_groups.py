"""Of a batch of many groups a few are tried; the plan that takes least on them trains all."""

import json

import numpy as np
import pandas as pd
import pytest

from tuskml.kernels.passes import Meter
from tuskml.learners.linear.algorithms import newton_cg
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner import trials as few_groups
from tuskml.learners.linear.planner.candidates import choose
from tuskml.learners.linear.planner.choice import Candidate
from tuskml.learners.linear.planner.cost import Cost, Costs, Parts
from tuskml.learners.linear.planner.curves import Interval, Question, Statistics
from tuskml.learners.linear.planner.trials import AT_LEAST, TrialResult
from tuskml.learners.linear.tasks import LINEAR
from tuskml.learners.machine import constants

pytestmark = pytest.mark.native

GROUPS, ROWS = 200, 340
CATEGORIES = (12, 7, 20, 60, 15)
NUMBERS = 5
NAMES = [f"c{j}" for j in range(len(CATEGORIES))] + [f"z{j}" for j in range(NUMBERS)]


@pytest.fixture
def trials(monkeypatch):
    """The plans that were tried on a group, by name."""
    found = []
    trial = few_groups.trial_of_groups

    def noted(part, start, one, most):
        found.append(one.plan.algorithm)
        assert (part.n_groups, part.rows.threads) == (few_groups.TRIED_GROUPS, 2)  # side by side
        return trial(part, start, one, most)

    monkeypatch.setattr(few_groups, "trial_of_groups", noted)
    return found


def put(con, seed=11):
    """Groups of categories and numbers far from 0, from which the classes follow nearly always.

    Conjugate gradients take many more products than the curvature at the start tells.
    """
    rng = np.random.default_rng(seed)
    n = GROUPS * ROWS
    levels = [rng.integers(0, k, n) for k in CATEGORIES]
    z = rng.standard_normal((NUMBERS, n))
    margin = 2 * z.sum(axis=0)
    for k, level in zip(CATEGORIES, levels, strict=True):
        margin += rng.standard_normal(k)[level]
    margin *= 20 / margin.std()
    columns = {f"c{j}": [f"v{x}" for x in level] for j, level in enumerate(levels)}
    y = (rng.logistic(size=n) < margin).astype(int)
    columns |= {f"z{j}": 10 * one + 100 for j, one in enumerate(z)}
    frame = pd.DataFrame(columns | {"y": y, "g": rng.permutation(n) % GROUPS})
    con.register("frame", frame)
    con.execute("CREATE TABLE t AS FROM frame")
    con.unregister("frame")


def trained(con, **options):
    """By algorithm: groups, their mean loss, and whether all converged."""
    row = "{" + ", ".join(f"'{name}': {name}" for name in NAMES) + "}"
    given = json.dumps({"l2": 1e-4} | options)
    query = f"""SELECT json_extract_string(m.options, '$.algorithm'), count(*), avg(m.loss),
        bool_and(m.converged) FROM
        (SELECT train_model('logistic', y, {row}, '{given}') AS m FROM t GROUP BY g) GROUP BY 1"""
    return {name: found for name, *found in con.execute(query).fetchall()}


@pytest.mark.nightly
def test_the_plan_that_takes_least_on_a_few_groups_trains_all(con, trials, monkeypatch):
    put(con)
    made, times = [], newton_cg.Curvature.times

    def counted(self, direction):
        made.append(len(direction))
        return times(self, direction)

    monkeypatch.setattr(newton_cg.Curvature, "times", counted)
    by_products = trained(con, algorithm="newton_cg")["newton_cg"]
    assert not trials
    assert sum(made) > 150 * GROUPS  # of systems with 116 unknowns, which newton solves a dozen of
    found = trained(con)
    assert list(found) == ["newton"]
    assert trials[:2] == ["newton", "newton_cg"]
    assert len(trials) == len(set(trials))  # batches that are alike ask once
    assert found["newton"] == [GROUPS, pytest.approx(by_products[1], rel=1e-5), True]


def test_what_is_reproducible_tries_nothing(con, trials):
    put(con)
    trained(con, deterministic=True)
    assert not trials


def test_passes_on_a_few_groups_count_for_all():
    """Twelve passes and 30 products at the batch's seconds."""
    cost = Cost(0.5, 1.0, 0.25, 0.0, 0.0, 10.0, 0.01, Parts(0.1, 0.02))
    task, options = LINEAR["logistic"], parse("{}")
    plan = choose(task, options, Statistics(512, 100, True), "newton_cg")
    one = Candidate(plan, cost, Interval(2, 4, 8), 0.0, False, None)
    passes = Meter(gradients=12.0, products=30.0)
    made = TrialResult(6, passes, True).of(one)
    assert made.seconds.point == pytest.approx(0.75 + 6 * 0.1 + 12 * 0.02 + 30 * 0.01)
    assert made.iterations.point == 6
    ended = TrialResult(6, passes, False).of(one)
    assert ended.iterations.point == 6 * AT_LEAST


@pytest.mark.parametrize(
    ("groups", "threads", "tried"),
    [(63, 2, False), (64, 8, True), (127, 16, False), (128, 16, True), (255, 32, False)],
)
def test_more_threads_ask_for_more_groups(groups, threads, tried):
    """Four threads try the plans at most, which has to stay a small share of all they do."""
    task, options = LINEAR["logistic"], parse("{}")
    cost = Cost(0.5, 1.0, 0.25, 0.0, 0.0, 10.0, 0.01, Parts(0.1, 0.02))
    seen = Statistics(512, 100, True, 512 * groups, 9 * 512 * groups, groups)
    rivals = [
        Candidate(choose(task, options, seen, name), cost, Interval(2, 4, 8), 0.0, False, None)
        for name in ("newton", "newton_cg")
    ]
    question = Question(task, options, seen, threads)
    assert bool(few_groups.worth_groups(question, rivals)) == tried


def test_a_group_is_one_thread_s_work_in_stochastic_epochs():
    """Two groups of equal size take half the time of one, and others as long as the larger one."""
    task, options, known = LINEAR["logistic"], parse("{}"), constants.shipped_constants()

    def epoch(groups, most_rows):
        seen = Statistics(most_rows, 20, False, 1 << 20, 20 << 20, groups)
        return Costs(Question(task, options, seen, 8), known).rows_pass("gradient", alone=True)

    one, even, uneven = epoch(1, 1 << 20), epoch(2, 1 << 19), epoch(2, 1 << 20)
    assert even < 0.7 * one
    assert uneven == pytest.approx(one)
