"""Prints the results of a run of the catalogue of faults, as the table of docs/reliability.md.

    python scripts/docs/faults.py build/faults/*.json            prints the table
    python scripts/docs/faults.py --write build/faults/*.json    puts it into the page

The files are those of `pytest --faults-json`; several, of parts of one run, are added.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
COUNTS = ("tried", "lost", "wrong", "down")


def merged(files: Iterable[Path]) -> dict[str, Any]:
    """The parts of a run as one."""
    parts = [json.loads(file.read_text()) for file in files]
    families: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, found in part["families"].items():
            into = families.setdefault(name, dict.fromkeys((*COUNTS, "skipped"), 0))
            for count in (*COUNTS, "skipped"):
                into[count] += found[count]
            into["seconds"] = [*into.get("seconds", ()), *found["seconds"]]
    about = parts[0] if parts else {}
    return {
        "machine": about.get("machine", ""),
        "date": max((part["date"] for part in parts), default=""),
        "whole": all(part["whole"] for part in parts),
        "families": families,
    }


def table(run: dict[str, Any]) -> str:
    """A sentence on the run, a table of its families, and how soon cancels were answered."""
    how = "The whole catalogue" if run["whole"] else "A twentieth of the catalogue"
    lines = [
        f"{how} on {run['machine']}, {run['date']}:",
        "",
        "| family | tried | lost | wrong | down |",
        "|---|---|---|---|---|",
    ]
    for name, found in run["families"].items():
        lines.append(f"| {name} | " + " | ".join(f"{found[c]:,}" for c in COUNTS) + " |")
    total = [sum(found[c] for found in run["families"].values()) for c in COUNTS]
    lines.append("| all | " + " | ".join(f"{n:,}" for n in total) + " |")
    seconds = [s for found in run["families"].values() for s in found["seconds"]]
    if seconds:
        lines += ["", latencies(seconds)]
    if skipped := sum(found["skipped"] for found in run["families"].values()):
        lines += ["", f"{skipped} tests were skipped, for want of what they need."]
    return "\n".join(lines) + "\n"


def latencies(seconds: list[float]) -> str:
    """Says how soon cancels were answered."""
    half, most = share_of(seconds, 50), share_of(seconds, 99)
    return (
        f"{len(seconds)} cancels whose time was taken: half were answered within "
        f"{1000 * half:.0f} ms, 99 % within {1000 * most:.0f} ms, all within "
        f"{1000 * max(seconds):.0f} ms."
    )


def share_of(values: list[float], percent: int) -> float:
    """The smallest value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[-(-percent * len(ordered) // 100) - 1]


def main() -> None:
    files = [Path(name) for name in sys.argv[1:] if not name.startswith("-")]
    text = table(merged(files))
    if "--write" in sys.argv:
        page = PAGE.read_text()
        before, rest = page.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}{END}{rest.split(END)[1]}")
    print(text, end="")


if __name__ == "__main__":
    main()
