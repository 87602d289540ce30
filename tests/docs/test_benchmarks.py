"""The page of benchmarks is what the files of results say, and their figures fit together."""

import json
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "scripts" / "bench" / "results").glob("*.json"))
RUNS = [run for file in FILES for run in json.loads(file.read_text())["runs"]]
COMPARISONS = [one for run in RUNS for one in run["comparisons"]]
NUMBER = re.compile(r"[\d,]+(?:\.\d+)?")
FACTS = {
    "cpu": "a processor",
    "cores": 2,
    "memory_gib": 8,
    "date": "2026-12-01 10:00 UTC",
    "versions": {"duckdb": "2.0.0", "torch": "not installed"},
}


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module of the scripts by its name."""
    for folder in ("docs", "bench/common"):
        monkeypatch.syspath_prepend(str(ROOT / "scripts" / folder))
    return import_module


@pytest.fixture
def page(imported: Any) -> ModuleType:
    return imported("benchmarks")


def test_the_page_is_what_the_files_say(page: ModuleType) -> None:
    assert page.page() == page.PAGE.read_text(), "run scripts/docs/benchmarks.py"


def test_a_changed_figure_is_noticed(
    page: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in FILES:
        (tmp_path / file.name).write_text(file.read_text().replace('"3.38"', '"3.39"'))
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    assert page.page() != page.PAGE.read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_are_as_the_benchmarks_write_them(file: Path, imported: Any) -> None:
    text = imported("result_files").text_of
    assert file.read_text() == text(json.loads(file.read_text())) + "\n"


def test_ratios_are_those_of_the_figures(page: ModuleType) -> None:
    checked = 0
    for one in COMPARISONS:
        computed = page.quotient(one)
        if computed is not None and NUMBER.fullmatch(one["ratio"]):
            assert float(one["ratio"].replace(",", "")) == pytest.approx(computed, rel=0.06), one
            checked += 1
    assert checked > 80


def test_missed_goals_are_marked(page: ModuleType) -> None:
    checked = 0
    for one in COMPARISONS:
        goal = re.fullmatch(r">= ([\d.]+)(, missed)?", one["goal"])
        reached = page.ratio(one)
        if goal and NUMBER.fullmatch(reached):
            assert (float(reached.replace(",", "")) < float(goal[1])) == bool(goal[2]), one
            checked += 1
    assert checked > 80


def test_programs_and_pictures_exist(page: ModuleType) -> None:
    for run in RUNS:
        program = run["program"]
        module = ROOT / (program.replace(".", "/") + ".py")
        assert (
            program.startswith("gpu")
            or module.exists()
            or [
                *(ROOT / "scripts" / "bench").glob(f"*/{program}.py"),
                *(ROOT / "research").rglob(f"{program}.py"),
            ]
        ), program
    pictures = [file for family in page.families() for _, file in family["pictures"]]
    assert [name for name in pictures if not (ROOT / "docs" / "images" / name).exists()] == []


def test_the_strongest_peer_and_missed_goals_are_shown(page: ModuleType) -> None:
    comparisons = [
        {"what": what, "peer": peer, "tuskml": "1 s", "theirs": theirs, "ratio": "", "goal": goal}
        for what, peer, theirs, goal in (
            ("one", "strong", "2 s", ">= 1"),
            ("one", "weak", "3 s", ">= 1"),
            ("one", "missed", "4 s", ">= 5, missed"),
            ("one", "a range", "2 to 9 s", ""),
            ("another", "alone", "9 s", ""),
        )
    ]
    left_out = [one["peer"] for one in page.weaker({"comparisons": comparisons})]
    assert left_out == ["weak"]


def test_a_new_run_is_on_the_page(
    page: ModuleType, imported: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contender, report = imported("contender"), imported("report")
    result_files = imported("result_files")
    ours, peer = (
        contender.Summary(name, [seconds], seconds=seconds)
        for name, seconds in (("tuskml", 0.5), ("a peer", 2.0))
    )
    goal = contender.Goal(
        "tuskml against a peer", 5, lambda r: r["a peer"].seconds / r["tuskml"].seconds
    )
    alone = contender.Goal("seconds", 1, lambda r: r["tuskml"].seconds, at_least=False)
    late = contender.Goal("turn", 0.1, lambda r: r["tuskml"].seconds, at_least=False)
    benchmark = contender.Benchmark("dense_sgd", "A title", (), (goal, alone, late))
    record = report.as_dict(
        benchmark, contender.Settings(tmp_path), {"tuskml": ours, "a peer": peer}, FACTS
    )
    for _ in range(2):  # the second one takes the place of the first
        file = result_files.add(result_files.run_of(record), tmp_path)
    (run,) = json.loads(file.read_text())["runs"]
    assert (file.name, run["versions"]) == ("linear.json", "duckdb 2.0.0")
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    shown = page.tables()
    assert "Without a peer: 1 of 2 goals reached." in shown
    assert "| A | 2026-12-01 | a processor, 2 cores, 8 GiB |" in shown
    assert "| A title | a peer | 4 (5, missed) | A |" in shown
