"""Each command of research/ prints the paper's figure and ours, and its mechanism matters."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = [
    f"{paper['module']}.{row['command']}"
    for file in sorted((ROOT / "research" / "results").glob("*.json"))
    for paper in [json.loads(file.read_text())]
    for row in paper["rows"]
    if "command" in row
]
SWITCHED = {
    "research.syndicate.figure_4_11": ("A1, LIFO over the plan", "falls"),
    "research.qoop.figure_2_6": ("high, queries that gain", "falls"),
    "research.qoop.theorem_2_2": ("largest ratio, any plans", "rises"),
    "research.hogwild.figure_4": ("4d: skewed, requests, KV over KV-VP", "falls"),
    "research.smpframe.figure_8": ("micro over macro synchronisation", "falls"),
    "research.smpframe.figure_9": ("makespan of words in order over heaviest first", "falls"),
    "research.smpframe.figure_10": ("10a, 10b: passes at random over these", "falls"),
}
"""A figure of a command, and what it does where the paper's mechanism is switched off."""


def printed(command, tmp_path, *options):
    """The cells of each line by what it measures: paper, here, reached, date, machine."""
    done = subprocess.run(
        [sys.executable, "-m", command, "--tiny", *options],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    head, _, *lines = (line.strip("| ").split(" | ") for line in done.stdout.splitlines())
    assert head == ["what", "paper", "here", "reached", "date", "machine"]
    return {what: cells for what, *cells in lines}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_prints_the_papers_figure_and_ours(command, tmp_path):
    found = printed(command, tmp_path)
    assert any(paper and reached for paper, _, reached, _, _ in found.values())
    for paper, here, reached, date, machine in found.values():
        float(here.split()[0].rstrip("%"))
        assert reached in ("yes", "no", "")
        assert not reached or paper
        assert all((date, machine))


@pytest.mark.parametrize("command", SWITCHED)
def test_the_mechanism_makes_the_figure(command, tmp_path):
    what, change = SWITCHED[command]
    usual, off = (
        float(printed(command, tmp_path, *more)[what][1].split()[0]) for more in ((), ("--off",))
    )
    assert off < 0.97 * usual if change == "falls" else off > 1.03 * usual
