"""Reports of trainings: what becomes of them, and when they change plans."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner.candidates import PlanCosts, candidate
from tuskml.learners.linear.planner.curves import Question, Statistics
from tuskml.learners.linear.tasks import LINEAR
from tuskml.learners.machine import constants
from tuskml.learners.machine.constants import (
    LEAST_REPORTS,
    MOST_FACTOR,
    MOST_KEYS,
    MOST_REPORTS,
    factors,
    key_of,
    read,
    report,
    with_report,
)

RATIOS = st.floats(1e-3, 1e3)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """The calibration's file of a host that refines."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    constants.of_host.cache_clear()
    path = constants.host_file()
    constants.save(json.loads(constants.SHIPPED.read_text()) | {"refine": True}, path)
    yield path
    constants.of_host.cache_clear()


def question(rows=100_000, features=50):
    seen = Statistics(1 << rows.bit_length() - 1, features, False, rows, rows * features)
    return Question(LINEAR["logistic"], parse("{}"), seen, 2)


@given(st.lists(RATIOS, min_size=LEAST_REPORTS, max_size=40))
def test_a_factor_is_bounded_and_near_the_middle(ratios):
    found = {}
    for ratio in ratios:
        found = with_report(found, "k", ratio)
    last = sorted(ratios[-MOST_REPORTS:])
    assert found["k"] == tuple(ratios[-MOST_REPORTS:])
    (by,) = factors(found).values()
    assert 1 / MOST_FACTOR <= by <= MOST_FACTOR
    if last[0] >= 1 / MOST_FACTOR and last[-1] <= MOST_FACTOR:
        assert last[0] <= by <= last[-1]


@given(wild=st.lists(st.floats(1e3, 1e9), max_size=7))
def test_less_than_half_wild_reports_change_nothing_much(wild):
    assert factors({"k": (1.2,) * 8 + tuple(wild)}) == {"k": 1.2}


def test_few_reports_are_no_reason():
    assert factors({"k": (1.9,) * (LEAST_REPORTS - 1)}) == {}


def test_what_waited_longest_makes_room():
    found = {}
    for number in range(MOST_KEYS + 3):
        found = with_report(found, f"k{number}", 1.0)
        found = with_report(found, "often", 1.0)
    assert len(found) == MOST_KEYS
    assert "k0" not in found
    assert "often" in found


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 9}', '{"version": 1, "ratios": {"k": 3}}', "[" * 100_000]
)
def test_a_broken_file_is_no_file(tmp_path, text):
    path = tmp_path / "reports"
    path.write_text(text)
    assert read(path) == {}
    report(path, "k", 1.5)
    assert read(path) == {"k": (1.5,)}


def test_what_is_no_ratio_is_left_out(tmp_path):
    path = tmp_path / "reports"
    path.write_text('{"version": 1, "ratios": {"k": [1.5, -1, 0, NaN, Infinity]}}')
    assert read(path) == {"k": (1.5,)}
    for bad in (math.nan, math.inf, 0.0, -1.0):
        report(path, "k", bad)
    assert read(path) == {"k": (1.5,)}


def test_a_folder_that_is_not_there_fails_nothing(tmp_path):
    report(tmp_path / "nowhere" / "reports", "k", 1.5)
    assert list(tmp_path.iterdir()) == []


def test_reports_of_this_host_change_costs_of_their_kind_alone(host):
    key = key_of("lbfgs", "dense", 5_000_000)
    path = constants.reports_file(host)
    for _ in range(LEAST_REPORTS):
        report(path, key, 1.5)
    assert [file.name for file in sorted(host.parent.iterdir())] == [host.name, path.name]
    known, plain = constants.of_host(), constants.shipped_constants()
    assert known.factors == {key: 1.5}
    for asked, by in ((question(), 1.5), (question(rows=10_000), 1.0)):
        refined, bare = (PlanCosts(asked, c).of(candidate(asked, "lbfgs")) for c in (known, plain))
        assert refined.iteration == pytest.approx(by * bare.iteration)
        assert refined.setup == bare.setup
        newton = candidate(asked, "newton")
        assert PlanCosts(asked, known).of(newton) == PlanCosts(asked, plain).of(newton)


def test_hosts_that_do_not_refine_do_not_look(host):
    key = key_of("lbfgs", "dense", 5_000_000)
    for _ in range(LEAST_REPORTS):
        report(constants.reports_file(host), key, 1.5)
    constants.save(json.loads(constants.SHIPPED.read_text()), host)
    assert constants.of_host().factors == {}
    assert constants.shipped_constants().factors == {}


def test_a_process_reads_reports_once(host):
    """So that within it the same statistics give the same plan."""
    before = constants.of_host()
    for _ in range(LEAST_REPORTS):
        report(constants.reports_file(host), "lbfgs dense 22", 1.5)
    assert constants.of_host() is before
