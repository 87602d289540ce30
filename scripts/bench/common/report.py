"""The results as a table for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from contender import TUSKML, Benchmark, Goal, Results, Settings, Summary


def as_dict(
    benchmark: Benchmark,
    settings: Settings,
    results: Results,
    machine: dict[str, object],
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything that a later reader needs, ready for JSON."""
    return {
        "name": benchmark.name,
        "title": benchmark.title,
        "notes": [*benchmark.notes, *notes],
        "machine": machine,
        "settings": {
            "scale": settings.scale,
            "threads": settings.threads,
            "layout": settings.layout,
        },
        "contenders": [
            asdict(summary) | {"ratio": _ratio(summary, results)} for summary in results.values()
        ],
        "goals": [_goal_dict(goal, results) for goal in benchmark.goals],
    }


def plain(record: dict[str, Any]) -> str:
    """The table for the terminal."""
    lines = [f"{record['title']}  (scale {record['settings']['scale']:g})"]
    lines += [*_aligned(contender_rows(record)), "", *_aligned(goal_rows(record))]
    return "\n".join(lines + [f"  note: {note}" for note in record["notes"]])


def _goal_dict(goal: Goal, results: Results) -> dict[str, Any]:
    reached = goal.value(results)
    met = None if reached is None else goal.met(reached)
    return {
        "text": goal.text,
        "asked": goal.asked,
        "at_least": goal.at_least,
        "reached": reached,
        "met": met,
    }


def _ratio(summary: Summary, results: Results) -> float | None:
    ours = results[TUSKML].seconds if TUSKML in results else None
    return summary.seconds / ours if ours and summary.seconds else None


def contender_rows(record: dict[str, Any]) -> list[list[str]]:
    """A head and a row per contender."""
    keys = list(dict.fromkeys(key for one in record["contenders"] for key in one["quality"]))
    rows = [["contender", "median s", "train s", "min..max", "x tuskml", "peak MB", *keys]]
    for one in record["contenders"]:
        if one["problem"]:
            rows.append([one["name"], one["problem"]] + [""] * (4 + len(keys)))
            continue
        spread = "recorded, not run"
        if not one["recorded"]:
            spread = f"{_short(min(one['runs']))}..{_short(max(one['runs']))}"
        peak = "" if one["peak_bytes"] is None else f"{one['peak_bytes'] / 1e6:.0f}"
        quality = [_short(one["quality"].get(key), 7) for key in keys]
        rows.append(
            [
                one["name"],
                _short(one["seconds"]),
                _short(one["train"]),
                spread,
                _short(one["ratio"], 3),
                peak,
                *quality,
            ]
        )
    return rows


def goal_rows(record: dict[str, Any]) -> list[list[str]]:
    """A head and a row per goal."""
    rows = [["what", "goal", "reached", "met"]]
    for goal in record["goals"]:
        sign = ">=" if goal["at_least"] else "<="
        met = {True: "yes", False: "NO", None: "unknown"}[goal["met"]]
        rows.append([goal["text"], f"{sign} {goal['asked']:g}", _short(goal["reached"], 3), met])
    return rows


def _short(value: Any, digits: int = 4) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}g}" if isinstance(value, float) else str(value)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    sized = [row for row in rows if len([cell for cell in row if cell]) > 2] or rows
    widths = [max(len(row[column]) for row in sized) for column in range(len(rows[0]))]
    widths[0] = max(len(row[0]) for row in rows)
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip()
        for row in rows
    ]
