"""The files of `scripts/bench/results`, from which docs/benchmarks.md is generated.

A file has one family of benchmarks, with the runs of its programs. A run has comparisons with a
peer, figures without one, and the tables of all that was measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import machine as machine_facts
import report
from contender import TUSKML

BENCH = Path(__file__).resolve().parents[1]
FOLDER = BENCH / "results"
WIDTH = 100
"""Columns up to which a value of a file is written in one line."""


def run_of(record: dict[str, Any]) -> dict[str, Any]:
    """The run of a record of `report.as_dict`."""
    seconds = {one["name"]: one["seconds"] for one in record["contenders"]}
    against = [goal for goal in record["goals"] if goal["text"].startswith(f"{TUSKML} against")]
    comparisons = [
        {
            "what": record["title"],
            "tuskml": f"{seconds[TUSKML]:.4g} s",
            "peer": one["name"] + (", recorded" if one["recorded"] else ""),
            "theirs": f"{one['seconds']:.4g} s",
            "ratio": f"{one['ratio']:.3g}",
            "goal": next((goal_text(goal) for goal in against if one["name"] in goal["text"]), ""),
        }
        for one in record["contenders"]
        if one["ratio"] is not None and one["name"] != TUSKML
    ]
    figures = [
        {
            "what": f"{record['title']}: {goal['text']}",
            "figure": f"{goal['reached']:.3g}",
            "goal": goal_text(goal),
        }
        for goal in record["goals"]
        if goal["reached"] is not None and goal not in against
    ]
    return described(record["name"], record["title"], record["machine"]) | {
        "comparisons": comparisons,
        "figures": figures,
        "tables": [
            {"columns": rows[0], "rows": rows[1:]}
            for rows in (report.contender_rows(record), report.goal_rows(record))
        ],
    }


def described(program: str, title: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The head of a run: its program and title, the date, the machine and the versions."""
    return {
        "program": program,
        "title": title,
        "date": facts["date"],
        "machine": machine_facts.hardware(facts),
        "versions": machine_facts.versions(facts),
    }


def goal_text(goal: dict[str, Any]) -> str:
    """`>= 3`, and whether it was missed."""
    text = f"{'>=' if goal['at_least'] else '<='} {goal['asked']:g}"
    return text if goal["met"] is not False else f"{text}, missed"


def add(run: dict[str, Any], folder: Path = FOLDER) -> Path:
    """Writes a run into the file of its family, and replaces one with its program and title."""
    file = file_of(run["program"], folder)
    if file.exists():
        family = json.loads(file.read_text())
    else:
        last = len(list(folder.glob("*.json")))
        family = {"order": last, "title": file.stem, "about": "", "pictures": [], "runs": []}
    key = run["program"], run["title"]
    runs = [one for one in family["runs"] if (one["program"], one["title"]) != key]
    file.write_text(text_of(family | {"runs": [*runs, run]}) + "\n")
    return file


def file_of(program: str, folder: Path = FOLDER) -> Path:
    """The file that has the program's runs, or else one with the name of the program's folder."""
    for file in sorted(folder.glob("*.json")):
        if any(run["program"] == program for run in json.loads(file.read_text())["runs"]):
            return file
    (source,) = BENCH.glob(f"*/{program}.py")
    return folder / f"{source.parent.name}.json"


def text_of(value: Any, level: int = 0) -> str:
    """JSON with a line for each row of a table."""
    flat = json.dumps(value, ensure_ascii=False)
    inner = list(value.values() if isinstance(value, dict) else value) if nested(value) else []
    if len(flat) + level <= WIDTH or not any(nested(one) for one in inner):
        return flat
    parts = [text_of(one, level + 1) for one in inner]
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {part}" for key, part in zip(value, parts, strict=True)]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    pad = " " * level
    return f"{begin}\n" + ",\n".join(f"{pad} {part}" for part in parts) + f"\n{pad}{end}"


def nested(value: Any) -> bool:
    """Returns whether a value is an object or a list."""
    return isinstance(value, dict | list)
