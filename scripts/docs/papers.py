"""Writes the tables of docs/papers.md and research/README.md from the results of `research/`.

    python scripts/docs/papers.py            writes the pages
    python scripts/docs/papers.py --check    fails if a page is stale

The manual has a line for each figure, and research/README.md what its command found. A file of
`research/results` has the figures of one paper; `--record` of a command of `research/` adds a run
to it.
"""

import json
import sys
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from benchmarks import table

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "research" / "results"
MANUAL, PAGE = ROOT / "docs" / "papers.md", ROOT / "research" / "README.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
SHORT = ["figure", "command", "reached", "why not"]
HEAD = ["figure", "command", "what", "paper", "here", "reached", "run"]
Row = dict[str, Any]


def papers() -> list[Row]:
    """The papers in the order of the page."""
    read = [json.loads(file.read_text()) for file in RESULTS.glob("*.json")]
    return sorted(read, key=lambda paper: paper["order"])


def key_of(run: Row) -> tuple[str, str]:
    """The day and the machine of a run."""
    return run["date"], run["machine"]


def command_of(row: Row) -> str:
    """The command of a figure and the size of its run; empty where nothing can run."""
    if "run" not in row:
        return ""
    size = row["run"]["size"]
    return f"`{row['command']}{'' if size == 'small' else f' --{size}'}`"


def short(row: Row) -> list[str]:
    """The line of a figure in the manual."""
    each = {line["reached"] for line in row["run"]["lines"]} - {""} if "run" in row else {"no"}
    reached = "in part" if each == {"yes", "no"} else "".join(each)
    return [row["figure"], command_of(row), reached, row.get("why", "")]


def lines_of(row: Row, letters: dict[tuple[str, str], str]) -> list[list[str]]:
    """The lines of a figure in full: the reason where nothing can run, else what was found."""
    if "run" not in row:
        return [[row["figure"], "", row["shows"], row["paper"], "", f"no: {row['why']}", ""]]
    run = row["run"]
    found = [[one[key] for key in ("what", "paper", "here", "reached")] for one in run["lines"]]
    first = [row["figure"], command_of(row), *found[0], letters[key_of(run)]]
    return [first, *(["", "", *line, ""] for line in found[1:])]


def summary() -> str:
    """The tables of the manual."""
    parts = []
    for paper in papers():
        parts.append(f"### {paper['title']}\n\n`python -m {paper['module']}.COMMAND`\n")
        parts.append(table(SHORT, [short(row) for row in paper["rows"]]))
    return "\n".join(parts)


def figures() -> str:
    """All tables, and the runs that their letters stand for."""
    found = papers()
    runs = sorted({key_of(row["run"]) for paper in found for row in paper["rows"] if "run" in row})
    letters = dict(zip(runs, ascii_uppercase, strict=False))
    parts = [table(["run", "date", "machine"], [[letters[one], *one] for one in runs])]
    for paper in found:
        rows = [line for row in paper["rows"] for line in lines_of(row, letters)]
        parts.append(f"## {paper['title']}\n\n`python -m {paper['module']}.COMMAND`\n")
        parts.append(table(HEAD, rows))
    return "\n".join(parts)


def pages() -> dict[Path, str]:
    """Each page with its tables."""
    found = {}
    for page, tables in ((MANUAL, summary()), (PAGE, figures())):
        before, _, rest = page.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        found[page] = f"{before}{BEGIN}\n\n{tables}\n{END}{after}"
    return found


def main() -> None:
    """Writes the pages, or checks them."""
    for page, text in pages().items():
        if "--check" not in sys.argv[1:]:
            page.write_text(text)
        elif text != page.read_text():
            sys.exit(f"{page.relative_to(ROOT)} is stale: run scripts/docs/papers.py")


if __name__ == "__main__":
    main()
