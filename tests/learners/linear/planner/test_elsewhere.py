"""Plans that are not for packed rows: why, what they would take, and what to ask for instead."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts.epochs import DRAWN
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner.choice import (
    ELSEWHERE,
    SHUFFLED,
    WAYS,
    assess_elsewhere,
    distinct,
    requests_of,
    seconds,
)
from tuskml.learners.linear.planner.cost import Cost
from tuskml.learners.linear.planner.curves import Question, Statistics
from tuskml.learners.linear.tasks import LINEAR
from tuskml.learners.machine.constants import shipped_constants
from tuskml.learners.machine.reading import scan_seconds

SAMPLERS = (SHUFFLED, *DRAWN)


def question(rows=100_000, features=50, each=0, **options):
    seen = Statistics(
        1 << rows.bit_length() - 1, features, each > 0, rows, rows * (each or features)
    )
    return Question(LINEAR["logistic"], parse(json.dumps(options)), seen, 2)


def refusals(asked, gpu="no driver"):
    found = assess_elsewhere(asked, shipped_constants(), gpu)
    assert all(one.refusal for one in found)
    return {one.plan.algorithm: one.refusal for one in found}


def test_each_has_a_reason_and_says_what_to_ask_for():
    told = refusals(question(epsilon=0.01))
    assert tuple(told) == ELSEWHERE
    assert all("train(...)" in told[one.name] for one in WAYS if one.lazy)
    assert all("option 'sampler'" in told[one.name] for one in WAYS if not one.lazy)
    assert "known only after all rows" in told["one pass"]
    assert "dense features train in memory" in told["stored"]


def test_the_papers_eleven_plans_are_there():
    """BGD, and MGD and SGD by two transforms and three samplers, but not lazily by Bernoulli's."""
    packed = {"bgd", "mgd", "sgd"}
    assert packed <= set(ALGORITHMS)
    told = refusals(question(epsilon=0.01))
    names = {f"{a} {t} {s}" for a in ("mgd", "sgd") for t in ("eager", "lazy") for s in SAMPLERS}
    mine = {f"{a} eager shuffled-partition" for a in ("mgd", "sgd")}  # are mgd and sgd themselves
    never = {f"{a} lazy bernoulli" for a in ("mgd", "sgd")}
    assert {one.name for one in WAYS} == names - mine - never
    assert len(packed) + len(WAYS) == 11
    assert all(re.match(r"about [\d.]+ (us|ms|s|min|h)", told[one.name]) for one in WAYS)


def test_what_ends_too_late_for_its_epochs_says_so():
    assert all("max_iter is 20" in refusals(question())[one.name] for one in WAYS)


def way(name, rows=200_000, on_disk=0.0):
    """Seconds of one of the eleven plans and its share of the rows, at one epoch of 0.1 s."""
    asked = question(rows=rows, epsilon=0.01)
    asked = replace(asked, seen=replace(asked.seen, on_disk=on_disk))
    one = next(one for one in WAYS if one.name == name)
    return seconds(one, asked, Cost(0.0, 0.1, 0.0, 0.0, 0.0), 0.25)


def test_eager_plans_pay_for_all_rows_and_lazy_ones_for_those_they_read():
    took, share = way("mgd lazy shuffled-partition")
    assert share == 0.25
    assert took == pytest.approx(0.025, rel=0.02)
    assert way("mgd eager bernoulli") == (pytest.approx(0.025 + 0.25 * 0.086), 1.0)
    assert way("mgd lazy random-partition")[0] > took  # more seeks


def test_drawing_rows_that_were_spilled_costs_a_seek_for_each():
    """Equation 3 of the paper: 110 us a seek and 4096 / 1.27e9 s a page, for each row."""
    size = 200_000 * 400.0
    seeks = 200_000 * (110e-6 + 4096 / 1.27e9) - scan_seconds(size)
    took, _ = way("sgd eager random-partition", on_disk=size)
    assert took == pytest.approx(0.025 + 0.25 * seeks, rel=1e-6)


def test_what_knows_devices_says_why_not_or_nothing():
    assert refusals(question(), gpu="no driver")["gpu"] == "no driver"
    assert "gpu" not in refusals(question(), gpu=None)


def test_weights_beyond_memory_are_told_of_the_store():
    fits = refusals(question(features=1_000_000, each=100))["stored"]
    assert "fit in memory" in fits
    large = refusals(question(features=100_000_000, each=100))["stored"]
    assert re.search(
        r"22\.4 GiB in memory; option 'store' would take about [\d,]+ requests", large
    )


@pytest.mark.parametrize(("features", "each"), [(120, 14), (20_000, 60), (1_000_000, 100)])
def test_requests_are_about_those_of_zipf(features, each):
    """Against ids that are drawn: different ids by chunk, added up."""
    rows = 60_000
    asked = question(rows=rows, features=features, each=each)
    rng = np.random.default_rng(0)
    chunks = max(4, rows * each // (1 << 20))
    entries = rows * each // chunks
    ids = np.minimum(features ** rng.random(entries), features).astype(np.int64)
    truth = chunks * len(np.unique(ids))
    assert requests_of(asked.seen) == pytest.approx(truth, rel=0.5)


@given(entries=st.floats(1, 1e9), features=st.integers(1, 10**9), more=st.floats(1, 100))
def test_different_features_are_no_more_than_there_are(entries, features, more):
    few = distinct(entries, features)
    assert 0 < few <= min(entries, features) * (1 + 1e-9)
    assert distinct(entries * more, features) >= few * (1 - 1e-9)
