"""Tables for terminals: results of SQL, shortened to be readable."""

import shutil
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

LIST_ITEMS = 4
NARROWEST = 6
WIDEST = 60


def terminal_width() -> int:
    """Columns of the terminal; 100 without one."""
    return shutil.get_terminal_size((100, 24)).columns


def width_of(text: str) -> int:
    """Columns that text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


CONTROLS = {
    code: ascii(chr(code))[1:-1]
    for code in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\n\t"
}
"""Characters that control a terminal: escape sequences, and the direction of text."""


def harmless(text: str) -> str:
    """The text with escapes for characters that control a terminal."""
    return text.translate(CONTROLS)


def format_value(value: Any) -> str:
    """A value as text: long lists lose their middle, structs show their names."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if type(value) is float:
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        items = [format_value(item) for item in value[:LIST_ITEMS]]
        if len(value) > LIST_ITEMS + 1:
            items += [f"… {len(value)} in all"]
        elif len(value) > LIST_ITEMS:
            items += [format_value(value[-1])]
        return "[" + ", ".join(items) + "]"
    if isinstance(value, dict):
        items = [f"{harmless(str(key))}: {format_value(item)}" for key, item in value.items()]
        return "{" + ", ".join(items) + "}"
    return harmless(str(value))


def cut_text(text: str, width: int) -> str:
    """text, or its beginning and an ellipsis."""
    if width_of(text) <= width:
        return text
    kept = ""
    for character in text:
        if width_of(kept + character) > width - 1:
            break
        kept += character
    return kept.rstrip() + "…"


def fit_widths(widths: list[int], room: int) -> list[int]:
    """Widths that fit into room where they can: the widest columns give way."""
    widths = [min(width, max(WIDEST, room)) for width in widths]
    while sum(widths) > room and max(widths) > NARROWEST:
        widest = max(widths)
        below = max([w for w in widths if w < widest], default=NARROWEST)
        wide = [place for place, w in enumerate(widths) if w == widest]
        over = sum(widths) - room
        drop = min(widest - max(below, NARROWEST), -(-over // len(wide)))
        for place in wide:
            widths[place] -= max(drop, 1)
    return widths


def align(text: str, width: int, right: bool) -> str:
    """text cut to width, and filled up to it."""
    text = cut_text(text, width)
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def lines_of(cell: str) -> list[str]:
    """The lines of a cell, at least one."""
    return cell.expandtabs(4).splitlines() or [""]


def on_the_point(cells: list[str]) -> list[str]:
    """Numbers filled up behind, so that their decimal points stand below each other."""
    if any("e" in cell for cell in cells):
        return cells
    behind = [len(cell) - cell.index(".") if "." in cell else 0 for cell in cells]
    return [cell + " " * (max(behind) - n) for cell, n in zip(cells, behind, strict=True)]


def rule_row(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """One row, as many lines as its highest cell."""
    stacks = [lines_of(cell) for cell in cells]
    height = max(len(stack) for stack in stacks)
    rows = []
    for line in range(height):
        parts = [stack[line] if line < len(stack) else "" for stack in stacks]
        joined = "  ".join(map(align, parts, widths, right))
        rows.append(("  " + joined).rstrip())
    return rows


def is_numeric(values: Sequence[Any]) -> bool:
    """Returns whether a column holds numbers, and NULLs perhaps."""
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in known
    )


def table(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None = None) -> str:
    """A table with its header; numbers stand right, all else left.

    width: columns to fit into, by default the terminal's.
    """
    names = [harmless(name) for name in names]
    columns = [[row[place] for row in rows] for place in range(len(names))]
    right = [is_numeric(values) for values in columns]
    cells = [
        on_the_point([format_value(v) for v in values])
        if number
        else [format_value(v) for v in values]
        for values, number in zip(columns, right, strict=True)
    ]
    widths = [
        max([width_of(name), *(width_of(line) for cell in column for line in lines_of(cell))])
        for name, column in zip(names, cells, strict=True)
    ]
    widths = fit_widths(widths, (width or terminal_width()) - 2 * len(names))
    out = [*rule_row(names, widths, right), "  " + "  ".join("─" * w for w in widths)]
    for row in zip(*cells, strict=True):
        out += rule_row(row, widths, right)
    return "\n".join(out)
