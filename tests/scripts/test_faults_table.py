"""The catalogue of faults counts what tests tried, and its table says so."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tried import Catalogue, Tally, add, some, times

FOUND = {"family": "cancels", "tried": 0, "lost": 0, "wrong": 0, "down": 0, "seconds": []}
COUNTS = ("tests", "skipped", "failed", "tried", "lost", "wrong", "down")
NOTHING = dict.fromkeys(COUNTS, 0) | {"seconds": []}


@pytest.mark.parametrize(
    ("found", "outcomes", "counted"),
    [
        ({}, {"passed"}, {"tests": 1, "tried": 1}),
        ({}, {"passed", "failed"}, {"tests": 1, "tried": 1, "failed": 1, "wrong": 1}),
        ({"tried": 9}, {"passed"}, {"tests": 1, "tried": 9}),
        ({"tried": 9, "lost": 2}, {"failed"}, {"tests": 1, "tried": 9, "failed": 1, "lost": 2}),
        ({"tried": 9, "down": 1}, {"failed"}, {"tests": 1, "tried": 9, "failed": 1, "down": 1}),
        ({"tried": 2, "seconds": [0.1]}, {"passed"}, {"tests": 1, "tried": 2, "seconds": [0.1]}),
        ({}, {"passed", "skipped"}, {"skipped": 1}),
    ],
)  # fmt: skip
def test_what_a_test_adds(found: dict, outcomes: set, counted: dict) -> None:
    total = dict(NOTHING)
    add(total, FOUND | found, outcomes)
    assert total == NOTHING | counted


def test_a_twentieth_of_the_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tried.WHOLE", False)
    assert some(range(100), 3) == list(range(3, 100, 20))
    assert (times(100), times(100, 25), times(3)) == (5, 4, 1)
    monkeypatch.setattr("tried.WHOLE", True)
    assert some(range(100), 3) == list(range(100))
    assert times(100) == 100


def test_a_cancel_is_a_case() -> None:
    counted = Tally("cancels")
    counted.took(0.12345)
    assert (counted.tried, counted.seconds) == (1, [0.1235])


def test_the_table_adds_up_parts(root: Path, tmp_path: Path) -> None:
    catalogue = Catalogue(None)
    catalogue.found = {
        "one": FOUND | {"tried": 2, "seconds": [0.1, 0.3]},
        "two": FOUND | {"family": "leaks", "tried": 1500},
    }
    catalogue.outcomes = {"one": {"passed"}, "two": {"passed", "failed"}}
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        file.write_text(json.dumps(catalogue.summary()))
    command = [sys.executable, str(root / "scripts" / "docs" / "faults.py"), *map(str, files)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "| cancels | 4 | 0 | 0 | 0 |" in told
    assert "| leaks | 3,000 | 0 | 2 | 0 |" in told
    assert "| all | 3,004 | 0 | 2 | 0 |" in told
    assert "4 cancels whose time was taken: half were answered within 100 ms" in told
    assert "99 % within 300 ms, all within 300 ms." in told
