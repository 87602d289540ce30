"""Tables for terminals: what SQL returned, shortened so that a person likes to read it."""

import math
import shutil
import unicodedata
from collections.abc import Sequence
from typing import Any

LIST_ITEMS = 4
NUMBERS = int | float
NARROWEST = 6
WIDEST = 60


def terminal_width() -> int:
    """Columns of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def width_of(text: str) -> int:
    """Columns that text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def shown_number(value: float) -> str:
    """Six significant digits, without trailing zeros."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e6:
        return f"{value:.1f}"
    return f"{value:.6g}"


def shown(value: Any) -> str:
    """A value as text: long lists lose their middle, structs show their names."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return shown_number(value)
    if isinstance(value, list | tuple):
        items = [shown(item) for item in value[:LIST_ITEMS]]
        if len(value) > LIST_ITEMS + 1:
            items += [f"… {len(value)} in all"]
        elif len(value) > LIST_ITEMS:
            items += [shown(value[-1])]
        return "[" + ", ".join(items) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {shown(item)}" for key, item in value.items()) + "}"
    return str(value)


def cut(text: str, width: int) -> str:
    """text, or its beginning and an ellipsis."""
    if width_of(text) <= width:
        return text
    kept = ""
    for character in text:
        if width_of(kept + character) > width - 1:
            break
        kept += character
    return kept.rstrip() + "…"


def fitted(widths: list[int], room: int) -> list[int]:
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


def aligned(text: str, width: int, right: bool) -> str:
    """text cut to width, and filled up to it."""
    text = cut(text, width)
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def lines_of(cell: str) -> list[str]:
    """The lines of a cell, at least one."""
    return cell.expandtabs(4).splitlines() or [""]


def ruled(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    """One row, as many lines as its highest cell."""
    stacks = [lines_of(cell) for cell in cells]
    height = max(len(stack) for stack in stacks)
    rows = []
    for line in range(height):
        parts = [stack[line] if line < len(stack) else "" for stack in stacks]
        joined = "  ".join(map(aligned, parts, widths, right))
        rows.append(("  " + joined).rstrip())
    return rows


def table(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None = None) -> str:
    """A table with its header; numbers stand right, all else left.

    width: columns to fit into, by default the terminal's.
    """
    right = [
        any(row[place] is not None for row in rows)
        and all(isinstance(row[place], NUMBERS | None) for row in rows)
        and not any(isinstance(row[place], bool) for row in rows)
        for place in range(len(names))
    ]
    cells = [[shown(value) for value in row] for row in rows]
    widths = [
        max([width_of(name), *(width_of(t) for row in cells for t in lines_of(row[place]))])
        for place, name in enumerate(names)
    ]
    widths = fitted(widths, (width or terminal_width()) - 2 * len(names))
    rule = "  " + "  ".join("─" * w for w in widths)
    out = [*ruled(names, widths, right), rule]
    for row in cells:
        out += ruled(row, widths, right)
    return "\n".join(out)
