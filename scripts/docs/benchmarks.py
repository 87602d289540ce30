"""Writes the tables of docs/benchmarks.md from the results in scripts/bench/results.

    python scripts/docs/benchmarks.py            writes the page
    python scripts/docs/benchmarks.py --check    fails if the page is stale

A file has the runs of one family of benchmarks: comparisons with a peer, figures without one, and
the tables of all figures that were measured. `scripts/bench/run.py --results` adds a run.
"""

import json
import re
import sys
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from string import ascii_uppercase
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "scripts" / "bench" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
AMOUNT = re.compile(r"([\d,]+(?:\.\d+)?)([MG]?)(?: (ns|µs|ms|s|MB))?")
"""One number with its unit; a range or two numbers have no ratio."""


def families() -> list[dict[str, Any]]:
    """The families in the order of the page."""
    read = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))]
    return sorted(read, key=lambda family: family["order"])


def ratio(comparison: dict[str, Any]) -> str:
    """The factor by which tuskml is better; computed if the run does not state it."""
    if comparison["ratio"]:
        return str(comparison["ratio"])
    computed = quotient(comparison)
    return (
        "" if computed is None else f"{computed:,.3g}" if computed < 1000 else f"{computed:,.0f}"
    )


def shown_ratio(comparison: dict[str, Any]) -> str:
    """The ratio, or both figures where these are several numbers each."""
    found = ratio(comparison)
    return found or f"{comparison['tuskml']} against {comparison['theirs']}"


def shown_goal(goal: str) -> str:
    """The goal in brackets; one without a sign is the least ratio."""
    return f" ({goal.removeprefix('>= ')})" if goal else ""


def quotient(comparison: dict[str, Any]) -> float | None:
    """The peer's amount over tuskml's, or the inverse where more is better; None for ranges."""
    ours, theirs = (AMOUNT.fullmatch(comparison[key]) for key in ("tuskml", "theirs"))
    if ours is None or theirs is None or ours.groups()[1:] != theirs.groups()[1:]:
        return None
    a, b = (float(found[1].replace(",", "")) for found in (ours, theirs))
    return a / b if comparison.get("higher") else b / a


Run = tuple[str, str]
"""A day and a machine."""


def run_of(run: dict[str, Any]) -> Run:
    """The day and the machine of a run of the files."""
    return run["date"][:10], run["machine"]


def letters_of(found: Iterable[dict[str, Any]]) -> dict[Run, str]:
    """A letter for each day and machine of a table, in their order."""
    shown = [family for family in found if not family.get("simulated", False)]
    runs = sorted(
        {run_of(run) for family in shown for run in family["runs"] if run["comparisons"]}
    )
    return dict(zip(runs, ascii_uppercase, strict=False))


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, or nothing without rows."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    rule = "|" + "---|" * len(head)
    return "\n".join(["| " + " | ".join(head) + " |", rule, *lines]) + "\n"


def section(family: dict[str, Any], letters: dict[Run, str]) -> str:
    """A heading, sentences, and the comparisons of a family."""
    compared: list[list[str]] = []
    simulated = family.get("simulated", False)
    newest = {
        (one["what"], one["peer"]): run["date"]
        for run in sorted(family["runs"], key=lambda run: run["date"])
        for one in run["comparisons"]
    }
    for run in [] if simulated else family["runs"]:
        compared += [
            [
                one["what"],
                one["peer"],
                shown_ratio(one) + shown_goal(one["goal"]),
                letters[run_of(run)],
            ]
            for one in run["comparisons"]
            if run["date"] == newest[one["what"], one["peer"]] and one not in weaker(run)
        ]
    pictures = [f"[{name}](images/{file})" for name, file in family["pictures"]]
    for row, before in reversed(list(zip(compared[1:], compared, strict=False))):
        row[0] = "" if row[0] == before[0] else row[0]
    kinds = ("figures", "comparisons") if simulated else ("figures",)
    goals = [
        one["goal"] for run in family["runs"] for kind in kinds for one in run[kind] if one["goal"]
    ]
    parts = [
        f"## {family['title']}",
        family["about"],
        table(["what", "peer", "ratio", "run"], compared),
        reached(goals, "In all" if simulated else "Without a peer"),
        "Pictures: " + ", ".join(pictures) + "." if pictures else "",
    ]
    return "\n\n".join(wrapped(part).rstrip("\n") for part in parts if part)


def weaker(run: dict[str, Any]) -> list[dict[str, Any]]:
    """The comparisons with peers that another peer of the same run beats, without missed goals;
    tuskml itself is not such a peer.
    """
    least: dict[str, float] = {}
    ratios = []
    for one in run["comparisons"]:
        if one["peer"].startswith("tuskml"):
            continue
        found = ratio(one).replace(",", "")
        value = float(found) if re.fullmatch(r"[\d.]+", found) else None
        ratios.append((one, value))
        if value is not None:
            least[one["what"]] = min(value, least.get(one["what"], value))
    return [
        one
        for one, value in ratios
        if value is not None and value > least[one["what"]] and "missed" not in one["goal"]
    ]


def reached(goals: list[str], which: str) -> str:
    """A sentence on goals of which some were missed. which: the figures that have them."""
    n_reached = sum("missed" not in goal for goal in goals)
    if n_reached == len(goals):
        return ""
    return f"{which}: {n_reached} of {len(goals)} goals reached."


def wrapped(text: str) -> str:
    """Prose in lines of at most 100 columns, which break between words and outside links."""
    if text.startswith(("|", "#")):
        return text
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) + 1 > 100:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def tables() -> str:
    """The generated part of the page."""
    found = families()
    letters = letters_of(found)
    named = [[letter, day, machine] for (day, machine), letter in letters.items()]
    head = table(["run", "date", "machine"], named).rstrip("\n")
    return "\n\n".join(chain([head], (section(family, letters) for family in found))) + "\n"


def page() -> str:
    """The page with its tables anew."""
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


def main() -> None:
    if "--check" in sys.argv:
        sys.exit(page() != PAGE.read_text() and "docs/benchmarks.md is stale")
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
