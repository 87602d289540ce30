"""Plans that are not for packed rows: why, what they would take, and what to ask for instead."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuskml.learners.linear.algorithms.parts.drawn import DRAWN
from tuskml.learners.linear.estimates.question import Question, Statistics
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner.elsewhere import (
    ELSEWHERE,
    assess_elsewhere,
    distinct,
    requests_of,
)
from tuskml.learners.linear.tasks import LINEAR
from tuskml.optimizer.constants import shipped


def question(rows=100_000, features=50, each=0, **options):
    seen = Statistics(
        1 << rows.bit_length() - 1, features, each > 0, rows, rows * (each or features)
    )
    return Question(LINEAR["logistic"], parse(json.dumps(options)), seen, 2)


def refusals(asked, gpu="no driver"):
    found = assess_elsewhere(asked, shipped(), gpu)
    assert all(one.refusal for one in found)
    return {one.plan.algorithm: one.refusal for one in found}


def test_each_has_a_reason_and_says_what_to_ask_for():
    told = refusals(question())
    assert tuple(told) == ELSEWHERE
    assert "train(...)" in told["row groups"]
    assert "train(...)" in told["lazy transform"]
    assert all("option 'sampler'" in told[name] for name in DRAWN)
    assert "known only after all rows" in told["one pass"]
    assert "dense features train in memory" in told["stored"]


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
