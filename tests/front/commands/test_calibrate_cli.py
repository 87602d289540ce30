"""`tuskml calibrate`: the file and what is printed. The measuring is tested where it lives."""

import json

import pytest

from tuskml.api import reading_seconds
from tuskml.commands import cli
from tuskml.learners.linear.planner import calibration
from tuskml.learners.machine import constants, reading


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A measurement that takes no time, on a host without a calibration."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    value = json.loads(constants.SHIPPED.read_text()) | {"processor": "abacus"}
    taken = {name: {"table": 0.5} for name in reading.TABLES}
    monkeypatch.setattr(calibration, "measure", lambda tell: value)
    monkeypatch.setattr(reading_seconds, "measure", lambda tell, url: taken)
    constants.of_host.cache_clear()
    reading.of_host.cache_clear()
    yield value | {"reading": taken}
    reading.of_host.cache_clear()
    constants.of_host.cache_clear()


def test_it_is_kept_for_this_host(measured, capsys):
    assert cli.main(["calibrate"]) == 0
    path = constants.host_file()
    assert json.loads(path.read_text()) == measured
    assert constants.of_host().source == str(path)
    printed = capsys.readouterr().out
    assert printed.startswith(f"{path}: abacus, ")
    assert "ns per value of 512 features" in printed


def test_what_reading_takes_is_kept_too_and_the_rest_as_shipped(measured):
    assert cli.main(["calibrate"]) == 0
    found = reading.of_host()
    assert found.decode["table"] == 0.5
    assert found.decode["blocks"] == reading.shipped_reading().decode["blocks"]


def test_it_is_written_elsewhere_and_printed_as_json(measured, capsys, tmp_path):
    file = tmp_path / "here.json"
    assert cli.main(["calibrate", "--output", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == measured | {"file": str(file)}
    assert json.loads(file.read_text()) == measured
    assert not constants.host_file().exists()


def test_reports_of_trainings_are_wanted_where_they_are_asked_for(measured, capsys):
    assert cli.main(["calibrate", "--refine"]) == 0
    assert constants.of_host().refine
    assert cli.main(["calibrate"]) == 0
    constants.of_host.cache_clear()
    assert not constants.of_host().refine


def test_where_nothing_can_be_written_it_says_so(measured, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert cli.main(["calibrate", "--output", str(tmp_path / "file" / "x.json")]) == 1
    assert "file" in capsys.readouterr().err
