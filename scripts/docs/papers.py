"""Writes the table of docs/papers.md from the results of `research/`.

    python scripts/docs/papers.py            writes the page
    python scripts/docs/papers.py --check    fails if the page is stale

A file of `research/results` has the figures of one paper; `--record` of a command of `research/`
adds a run to it.
"""

import json
import sys
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from benchmarks import table

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "research" / "results"
PAGE = ROOT / "docs" / "papers.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
HEAD = ["figure", "command", "what", "paper", "here", "reached", "run"]
Row = dict[str, Any]


def papers() -> list[Row]:
    """The papers in the order of the page."""
    read = [json.loads(file.read_text()) for file in RESULTS.glob("*.json")]
    return sorted(read, key=lambda paper: paper["order"])


def key_of(run: Row) -> tuple[str, str]:
    """The day and the machine of a run."""
    return run["date"], run["machine"]


def lines_of(row: Row, letters: dict[tuple[str, str], str]) -> list[list[str]]:
    """The lines of a figure: the reason where nothing can run, else what was found."""
    if "run" not in row:
        return [[row["figure"], "", row["shows"], row["paper"], "", f"no: {row['why']}", ""]]
    run, why, found = row["run"], row.get("why", ""), []
    for one in run["lines"]:
        reached = one["reached"]
        if reached == "no" and why:
            reached, why = f"no: {why}", ""  # once
        found.append([one["what"], one["paper"], one["here"], reached])
    command = row["command"] + (f" --{run['size']}" if run["size"] != "small" else "")
    first = [row["figure"], f"`{command}`", *found[0], letters[key_of(run)]]
    return [first, *(["", "", *line, ""] for line in found[1:])]


def figures() -> str:
    """All tables, and the runs that their letters stand for."""
    found = papers()
    runs = sorted({key_of(row["run"]) for paper in found for row in paper["rows"] if "run" in row})
    letters = dict(zip(runs, ascii_uppercase, strict=False))
    parts = [table(["run", "date", "machine"], [[letters[one], *one] for one in runs])]
    for paper in found:
        rows = [line for row in paper["rows"] for line in lines_of(row, letters)]
        parts.append(f"### {paper['title']}\n\n`python -m {paper['module']}.COMMAND`\n")
        parts.append(table(HEAD, rows))
    return "\n".join(parts)


def page() -> str:
    """The page with its tables."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n{figures()}\n{END}{after}"


def main() -> None:
    """Writes the page, or checks it."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
    elif text != PAGE.read_text():
        sys.exit("docs/papers.md is stale: run scripts/docs/papers.py")


if __name__ == "__main__":
    main()
