"""Spans of trainings, as OpenTelemetry's own exporter in memory gets them."""

import json
import subprocess
import sys
from itertools import pairwise

import duckdb
import pytest

pytest.importorskip("opentelemetry.sdk")
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import tuskml
from tuskml.errors import OptionError
from tuskml.groups import records

THREE = """
SELECT g, train_model('linear', y, x)
FROM (SELECT i % 3 AS g, sin(i) AS y, [cos(i), cos(7 * i)] AS x FROM range(300) t(i)) GROUP BY g
"""


@pytest.fixture(scope="module")
def exporter():
    """Of the only provider that a process may have."""
    made = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def on(exporter, monkeypatch):
    monkeypatch.setenv(records.TRACES_VARIABLE, "on")
    records.follow_environment()
    exporter.clear()
    yield exporter
    monkeypatch.delenv(records.TRACES_VARIABLE)
    records.follow_environment()


def spans(exporter):
    """The span of the only training, and those of its phases as they began."""
    made = exporter.get_finished_spans()
    (whole,) = [one for one in made if one.name == "tuskml.training"]
    parts = sorted((one for one in made if one is not whole), key=lambda one: one.start_time)
    return whole, parts


def test_a_training_is_a_span_with_its_phases_within(on):
    tuskml.connect().execute(THREE).fetchall()
    whole, parts = spans(on)
    said = dict(whole.attributes)
    assert [said[f"tuskml.{name}"] for name in ("task", "groups", "rows", "database")] == [
        "linear",
        3,
        300,
        "duckdb",
    ]
    assert said["tuskml.status"] == ("ok",)
    assert "newton" in said["tuskml.algorithm"][0]
    names = [one.name for one in parts]
    assert names[0] == "tuskml.pack"
    assert set(names) == {"tuskml.pack", "tuskml.plan", "tuskml.train", "tuskml.emit"}
    assert all(one.parent.span_id == whole.context.span_id for one in parts)
    assert parts[0].start_time == whole.start_time
    assert parts[-1].end_time == whole.end_time
    for before, after in pairwise(parts):  # one after the other, without gaps
        assert abs(after.start_time - before.end_time) <= 1
    assert whole.status.is_ok or whole.status.is_unset


def test_nothing_of_the_rows_is_in_them(on):
    query = "SELECT train_model('logistic', l, {'secret': x}, '{\"step\": -7}') FROM "
    with pytest.raises(duckdb.Error, match="-7"):
        tuskml.connect().execute(query + "(VALUES ('top', 1.0), ('low', 2.0)) t(l, x)").fetchall()
    whole, _ = spans(on)
    assert whole.status.status_code is trace.StatusCode.ERROR
    members = json.loads(whole.to_json())
    del members["resource"]  # which has a number by chance, with any digits
    said = json.dumps(members)
    assert not any(word in said for word in ("secret", "top", "low", "-7"))


@pytest.mark.nightly
def test_there_are_none_by_default(exporter):
    exporter.clear()
    tuskml.connect().execute(THREE).fetchall()
    assert exporter.get_finished_spans() == ()


def test_many_phases_make_few_spans():
    noted = [("planning", float(i), i + 0.5) for i in range(1000)]
    made = list(records.phases_of(noted, (0.0, 1001.0)))
    assert len(made) <= records.MOST_SPANS
    assert made[0] == ("planning", 0.0, 0.5)
    assert all(before[2] == after[1] for before, after in pairwise(made))
    assert made[-1][2] == 1001.0


def test_the_package_is_imported_only_when_asked_for():
    program = (
        "import sys, tuskml; db = tuskml.connect(); db.execute('SET enable_progress_bar = false');"
        " db.execute(\"SELECT train_model('linear', i, [sin(i)])"
        " FROM range(9) t(i)\").fetchall(); print('opentelemetry' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_wrong_values_and_a_missing_package_are_refused(monkeypatch):
    monkeypatch.setenv(records.TRACES_VARIABLE, "yes")
    with pytest.raises(OptionError, match="TUSKML_TRACES is 'yes', expected on or off"):
        records.follow_environment()
    monkeypatch.setenv(records.TRACES_VARIABLE, "on")
    monkeypatch.setattr(records, "PACKAGE", "opentelemetry_that_is_not_there")
    monkeypatch.setattr(records._traces, "tracer", None)
    with pytest.raises(OptionError, match="pip install 'tuskml\\[otel\\]'"):
        records.follow_environment()
