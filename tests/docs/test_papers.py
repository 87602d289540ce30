"""The tables of papers are what the results of research/ say; research/ is not shipped."""

from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def papers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "docs"))
    return import_module("papers")


def test_the_pages_are_what_the_results_say(papers, monkeypatch, tmp_path):
    for page, text in papers.pages().items():
        assert text == page.read_text(), "run scripts/docs/papers.py"
    for file in papers.RESULTS.glob("*.json"):
        (tmp_path / file.name).write_text(
            file.read_text().replace('"reached": "yes"', '"reached": "no"')
        )
    monkeypatch.setattr(papers, "RESULTS", tmp_path)
    for page, text in papers.pages().items():
        assert text != page.read_text()


def test_every_command_is_in_the_table_with_a_run(papers):
    listed = {
        (ROOT / paper["module"].replace(".", "/") / f"{row['command']}.py"): row
        for paper in papers.papers()
        for row in paper["rows"]
        if "command" in row
    }
    programs = (ROOT / "research").rglob("*.py")
    assert set(listed) == {one for one in programs if "    report.main(find" in one.read_text()}
    for row in listed.values():
        assert row["run"]["lines"]
        missed = any(line["reached"] == "no" for line in row["run"]["lines"])
        assert bool(row.get("why")) == missed, row["command"]


def test_figures_that_no_command_shows_have_a_reason(papers):
    rest = [row for paper in papers.papers() for row in paper["rows"] if "command" not in row]
    assert all(row["why"] and row["shows"] for row in rest)
    every = [row.get("why", "") for paper in papers.papers() for row in paper["rows"]]
    assert max(len(why.split()) for why in every) <= 10


def test_research_is_not_in_the_wheel(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    assert "research" not in {
        folder.split("/")[0] for folder in import_module("link_tree").read_folders()
    }
