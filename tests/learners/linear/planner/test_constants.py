"""Calibration files: what is read back, what is ignored, and how files are written."""

import json
import math
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuskml.learners.linear.planner.calibration import EPOCHS, PASSES
from tuskml.learners.machine import constants
from tuskml.learners.machine.constants import (
    STORAGE,
    interpolate_table,
    of_host,
    parse,
    save,
    shipped_constants,
)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """The file of a host that has none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    of_host.cache_clear()
    yield constants.host_file()
    of_host.cache_clear()


@pytest.fixture
def measured():
    return json.loads(constants.SHIPPED.read_text())


def test_shipped_constants_are_whole():
    """A nanosecond an entry, more or less; two threads do the work of one to two."""
    known = shipped_constants()
    assert set(known.passes) == set(PASSES)
    assert set(known.penalised) == set(EPOCHS)
    for kind in PASSES:
        for storage in STORAGE:
            assert 1e-12 < known.entry(kind, storage, 100) < 1e-6
            assert known.entry(kind, storage, 100, penalised=True) < 1e-6
            assert 0 <= known.row(kind, storage, "linear") <= known.row(kind, storage, "logistic")
            for entries in (1, 1e5, 1e6, 1e9):
                assert 0.5 <= known.speedup(kind, storage, entries, 2) <= 2.0
                assert 0.25 <= known.slower(kind, storage, entries) <= 4.0
    assert known.step("newton", 500) > known.step("newton", 50)


def test_a_host_without_calibration_uses_the_shipped_one(host):
    assert not host.exists()
    assert of_host() is shipped_constants()


def test_a_calibration_is_read_back(host, measured):
    measured["steps"]["newton"] = [[10, 0.5], [100, 5.0]]
    save(measured, host)
    assert of_host().source == str(host)
    assert of_host().step("newton", 10) == pytest.approx(0.5)
    assert [path.name for path in host.parent.iterdir()] == [host.name]
    assert shipped_constants().step("newton", 10) < 0.1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value"),
        ("[]", "lacks"),
        ('"x"', "lacks"),
        ("{}", "lacks"),
        ('{"version": 1}', "version 1, expected 3"),
        ('{"version": 3, "passes": {}}', "lacks"),
        ("[" * 100_000, ""),
    ],
)
def test_a_broken_file_is_ignored_with_a_warning(host, text, why):
    host.parent.mkdir(parents=True)
    host.write_text(text)
    with pytest.warns(RuntimeWarning, match=rf"{host.name} is ignored: .*{why}"):
        assert of_host() is shipped_constants()


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [[1, 0]],
        [[1, -1]],
        [[2, 1], [1, 1]],
        [[1, math.inf]],
        [[1, "x"]],
        [[1, 2, 3]],
        [1],
        None,
    ],
)
def test_tables_that_make_no_sense_are_refused(measured, bad):
    measured["steps"]["bgd"] = bad
    with pytest.raises(ValueError, match=r".+"):
        parse(json.dumps(measured), "here")


@pytest.mark.parametrize("bad", [-1, math.nan, "x", None])
def test_seconds_that_make_no_sense_are_refused(measured, bad):
    measured["looks"]["counts"] = bad
    with pytest.raises(ValueError, match=r".+"):
        parse(json.dumps(measured), "here")


def test_nothing_is_written_of_a_calibration_that_cannot_be_read(host, measured):
    del measured["sizes"]
    with pytest.raises(ValueError, match="lacks"):
        save(measured, host)
    assert not host.exists()


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(host, measured):
    host.mkdir(parents=True)  # a folder in its place
    with pytest.raises(OSError, match=r".+"):
        save(measured, host)
    assert [path.name for path in host.parent.iterdir()] == [host.name]


def test_an_unreadable_file_is_no_file(host):
    host.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert of_host() is shipped_constants()


@given(
    st.lists(st.integers(1, 10**6), min_size=2, max_size=5, unique=True),
    st.floats(1e-12, 1e-3),
    st.floats(-1, 3),
    st.floats(0.5, 1e7),
)
def test_powers_are_interpolated_exactly(places, level, power, x):
    """Within the table and beyond."""
    table = tuple((float(place), level * place**power) for place in sorted(places))
    assert interpolate_table(table, x) == pytest.approx(level * x**power, rel=1e-6)


@given(entries=st.floats(1, 1e12), threads=st.integers(2, 64))
def test_sizes_beyond_those_measured_are_as_the_last(entries, threads):
    """And each further thread adds what the second one did."""
    known = shipped_constants()
    sizes = known.sizes["gradient"]["dense"]
    within = min(max(entries, sizes[0][0]), sizes[-1][0])
    two = known.speedup("gradient", "dense float32", entries, 2)
    assert two == pytest.approx(known.speedup("gradient", "dense float32", within, 2))
    more = known.speedup("gradient", "dense float32", entries, threads)
    assert more == pytest.approx(max(1 + (threads - 1) * (two - 1), min(two, 1)))


def test_what_was_measured_is_hit_and_only_beyond_it_are_slopes_bounded():
    steep = ((10.0, 1.0), (100.0, 1e-3), (1000.0, 1e2))
    for place, value in steep:
        assert interpolate_table(steep, place) == pytest.approx(value)
    assert interpolate_table(steep, 99.999) == pytest.approx(1e-3, rel=1e-3)
    assert interpolate_table(steep, 1.0) == pytest.approx(10.0)
    assert interpolate_table(steep, 10_000.0) == pytest.approx(1e5)


def test_a_table_of_one_size_holds_for_all():
    assert interpolate_table(((8.0, 2.0),), 1000.0) == 2.0
