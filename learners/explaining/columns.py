"""Candidates as lines of text, in columns; plans that are refused for one reason share a line."""

from collections.abc import Callable, Sequence

from tuskml.learners.explaining.explanation import Document

Cells = Callable[[Document], list[str]]
"""A function to the cells that follow the name of a feasible candidate: one for each column, and a
note.
"""


def table(head: Sequence[str], candidates: Sequence[Document], cells: Cells) -> list[str]:
    """The candidates as lines, below head, the columns' names; no lines without candidates."""
    if not candidates:
        return []
    possible = [["", *head, ""]]
    possible += [[c["algorithm"], *cells(c)] for c in candidates if c["refusal"] is None]
    refused = [
        [", ".join(names), *[""] * len(head), f"not possible: {why}"]
        for why, names in by_reason(candidates).items()
    ]
    aligned = [*possible, *(row for row in refused if ", " not in row[0])]
    widths = [max(len(row[column]) for row in aligned) for column in range(1 + len(head))]
    return [line(row, widths) for row in [*possible, *refused]]


def by_reason(candidates: Sequence[Document]) -> dict[str, list[str]]:
    """The names of the refused candidates by why they are, in the order in which they come."""
    found: dict[str, list[str]] = {}
    for one in candidates:
        if one["refusal"] is not None:
            found.setdefault(one["refusal"], []).append(one["algorithm"])
    return found


def line(row: Sequence[str], widths: Sequence[int]) -> str:
    """A line of the table: the name to the left, numbers to the right, then the note."""
    name, *numbers, note = row
    if len(name) > widths[0]:  # of several plans, for which no column is wide enough
        return f"  {name}  {note}"
    told = [name.ljust(widths[0])]
    told += [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
    return "  " + "  ".join(told) + (f"  {note}" if note else "")
