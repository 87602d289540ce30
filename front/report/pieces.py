"""Pieces of HTML that the report's sections share, and how features are named and ranked."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

from tuskml.report.groups import SYMBOLS, Group

FEATURES = 15


def section(anchor: str, title: str, *parts: str) -> str:
    """A part of the page with its heading."""
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-h"><h2 id="{anchor}-h">'
        f"{escape(title)}</h2>{''.join(parts)}</section>"
    )


def note(text: str) -> str:
    """A paragraph that explains."""
    return f'<p class="note">{escape(text)}</p>'


def figure(drawing: str, caption: str) -> str:
    """A drawing and its caption."""
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def pill(group: Group) -> str:
    """A status: a sign, a colour and the words."""
    return (
        f'<span class="pill {group.grade}"><span aria-hidden="true">{SYMBOLS[group.grade]}</span> '
        f"{escape(group.status)}</span>"
    )


def number(value: float | None) -> str:
    """Five digits, or a dash."""
    return "–" if value is None else f"{value:.5g}"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], caption: str, raw: bool = False
) -> str:
    """A small table; its first column names the row. raw: cells are HTML."""
    safe: Callable[[str], str] = str if raw else escape
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = "".join(
        f'<tr><th scope="row">{safe(row[0])}</th>'
        + "".join(f"<td>{safe(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="group" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
    )


def feature(place: int, names: Sequence[str]) -> str:
    """A feature's name; x1, x2, ... as in model_summary where none is known."""
    return names[place] if place < len(names) else f"x{place + 1}"


def largest(coef: Any, most: int = FEATURES) -> list[int]:
    """Indices of the largest coefficients by size, without zeros."""
    order = np.argsort(-np.abs(coef), kind="stable")[:most]
    found = [int(k) for k in order if coef[k] != 0]
    return found or [int(k) for k in order[:1]]
