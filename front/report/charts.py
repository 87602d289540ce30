"""SVG as text: curves on a log scale, estimates against actuals, ranges of coefficients.

Colours come from the page's style sheet by class. Numbers are rounded to a tenth of a pixel.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEAST = 1e-12
LOGARITHMIC_FROM = 40
"""Iterations from which their axis is logarithmic: a few long trainings would press all others."""


@dataclass(frozen=True)
class Line:
    """A curve: iterations, shares of the gap, its class for colour, and its tooltip."""

    x: Floats
    y: Floats
    style: str
    title: str


@dataclass(frozen=True)
class Frame:
    """The drawing's size and the rectangle of its axes."""

    width: int = 1070
    height: int = 330
    left: int = 52
    right: int = 16
    top: int = 14
    bottom: int = 44

    @property
    def plot(self) -> tuple[int, int, int, int]:
        return self.left, self.top, self.width - self.right, self.height - self.bottom


def text(x: float, y: float, content: str, anchor: str = "middle", style: str = "tick") -> str:
    """A label."""
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
        f"{escape(content)}</text>"
    )


def power(exponent: int) -> str:
    """10⁻³; 1 and 10 as they are."""
    return {0: "1", 1: "10"}.get(exponent, "10" + str(exponent).translate(SUPERSCRIPTS))


def svg(frame: Frame, label: str, parts: Iterable[str], style: str = "chart") -> str:
    """The drawing, with a description for screen readers."""
    stretch = ' preserveAspectRatio="none"' if style == "shares" else ""
    return (
        f'<svg class="{style}" viewBox="0 0 {frame.width} {frame.height}"{stretch} role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def decades(low: float, high: float, most: int = 6) -> list[int]:
    """Exponents of ten for ticks, first and last around the numbers."""
    first = math.floor(math.log10(max(low, LEAST)) + 1e-9)
    last = math.ceil(math.log10(max(high, LEAST)) - 1e-9)
    last = max(last, first + 1)
    step = math.ceil((last - first) / most)
    return list(range(last - step * math.ceil((last - first) / step), last + 1, step))


def whole_ticks(longest: float) -> list[int]:
    """Iterations to name on their axis."""
    if longest > LOGARITHMIC_FROM:
        found = [0, *(k * 10**e for e in range(7) for k in (1, 3))]
        return [tick for tick in found if tick <= longest]
    step = max(1, next(s for s in (1, 2, 5, 10) if longest / s <= 8))
    return list(range(0, math.floor(longest) + 1, step))


def convergence(lines: Sequence[Line], label: str) -> str:
    """Draws the share of the first gap to the best objective that was left, by iteration."""
    frame = Frame()
    x0, y0, x1, y1 = frame.plot
    longest = max(1.0, *(float(line.x[-1]) for line in lines))
    ticks = decades(
        min(float(line.y.min()) for line in lines), max(float(line.y.max()) for line in lines)
    )
    warp = np.log1p if longest > LOGARITHMIC_FROM else np.asarray

    def across(x: Floats | float) -> Floats:
        return np.asarray(x0 + (x1 - x0) * warp(x) / warp(longest))

    def down(y: Floats | float) -> Floats:
        share = (ticks[-1] - np.log10(np.maximum(y, LEAST))) / (ticks[-1] - ticks[0])
        return np.asarray(y0 + (y1 - y0) * share)

    parts = []
    for exponent in ticks:
        y = float(down(10.0**exponent))
        parts.append(f'<path class="grid" d="M{x0} {y:.1f}H{x1}"/>')
        parts.append(text(x0 - 8, y + 4, power(exponent), "end"))
    for tick in whole_ticks(longest):
        parts.append(text(float(across(float(tick))), y1 + 18, f"{tick:,}"))
    parts.append(f'<path class="base" d="M{x0} {y1}H{x1}"/>')
    parts.append(text((x0 + x1) / 2, frame.height - 6, "iteration", style="axis"))
    for line in lines:
        parts.append(draw_curve(line, across(line.x), down(line.y)))
    return svg(frame, label, parts)


def draw_curve(line: Line, x: Floats, y: Floats) -> str:
    """A curve with a dot at its end; its title shows under a pointer."""
    return (
        f'<g class="curve {line.style}"><title>{escape(line.title)}</title>'
        f'<path d="{path(x, y)}"/><circle cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="2.5"/></g>'
    )


def path(x: Floats, y: Floats) -> str:
    """M and L of points."""
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


def spark(x: Floats, y: Floats) -> str:
    """A curve as small as a word; it decorates a row whose numbers say the same."""
    width, height = 84, 20
    logs = np.log10(np.maximum(y, LEAST))
    span = max(float(logs.max() - logs.min()), 1e-9)
    across = 2 + (width - 4) * (x - x[0]) / max(float(x[-1] - x[0]), 1e-9)
    down = 2 + (height - 4) * (logs.max() - logs) / span
    return (
        f'<svg class="spark" viewBox="0 0 {width} {height}" aria-hidden="true">'
        f'<path d="{path(across, down)}"/></svg>'
    )


def against(pairs: Sequence[tuple[float, float, str]], label: str, unit: str) -> str:
    """Estimates across, actuals down, both on log scales; on the diagonal they are equal."""
    frame = Frame(430, 330, 56, 14)
    x0, y0, x1, y1 = frame.plot
    numbers = [max(value, LEAST) for pair in pairs for value in pair[:2]]
    ticks = decades(min(numbers), max(numbers), 4)

    def share(value: float) -> float:
        return (math.log10(max(value, LEAST)) - ticks[0]) / (ticks[-1] - ticks[0])

    parts = []
    for exponent in ticks:
        at = share(10.0**exponent)
        y, x = y1 - (y1 - y0) * at, x0 + (x1 - x0) * at
        parts.append(f'<path class="grid" d="M{x0} {y:.1f}H{x1}M{x:.1f} {y0}V{y1}"/>')
        parts.append(text(x0 - 8, y + 4, power(exponent), "end"))
        parts.append(text(x, y1 + 18, power(exponent)))
    parts.append(f'<path class="equal" d="M{x0} {y1}L{x1} {y0}"/>')
    parts.append(text((x0 + x1) / 2, frame.height - 6, f"{unit} as estimated", style="axis"))
    parts.append(upright((y0 + y1) / 2, f"{unit} taken"))
    for estimate, actual, title in pairs:
        x, y = x0 + (x1 - x0) * share(estimate), y1 - (y1 - y0) * share(actual)
        parts.append(
            f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="4">'
            f"<title>{escape(title)}</title></circle>"
        )
    return svg(frame, label, parts)


def unit_square(lines: Sequence[Line], across: str, down: str, diagonal: bool = True) -> str:
    """Lines of shares over shares, with the diagonal; '' without lines."""
    return square(lines, across, down, (0.0, 1.0), diagonal) if lines else ""


def square(
    lines: Sequence[Line],
    across: str,
    down: str,
    ends: tuple[float, float],
    diagonal: bool = True,
) -> str:
    """Lines on axes that both have the same ends, with the diagonal, where both are equal."""
    frame = Frame(430, 400, 56, 14)
    x0, y0, x1, y1 = frame.plot
    low, room = ends[0], (ends[1] - ends[0]) or 1.0
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = x0 + (x1 - x0) * share, y1 - (y1 - y0) * share
        shown = f"{low + room * share:.3g}"
        parts.append(f'<path class="grid" d="M{x0} {y:.1f}H{x1}M{x:.1f} {y0}V{y1}"/>')
        parts.append(text(x0 - 8, y + 4, shown, "end"))
        parts.append(text(x, y1 + 18, shown))
    if diagonal:
        parts.append(f'<path class="equal" d="M{x0} {y1}L{x1} {y0}"/>')
    parts.append(text((x0 + x1) / 2, frame.height - 6, across, style="axis"))
    parts.append(upright((y0 + y1) / 2, down))
    for line in lines[::-1]:
        right, up = (line.x - low) / room, (line.y - low) / room
        parts.append(draw_curve(line, x0 + (x1 - x0) * right, y1 - (y1 - y0) * up))
    return svg(frame, f"{down} by {across} of {len(lines)} groups", parts)


def falling(lines: Sequence[Line], label: str, across: str = "epoch", form: str = ",.0f") -> str:
    """Objectives by epoch, on linear axes; the last line is in front.

    across: the name of the horizontal axis; form: of the numbers at it.
    """
    frame = Frame(1070, 280, 64)
    x0, y0, x1, y1 = frame.plot
    longest = max(float(line.x[-1]) for line in lines)
    low, high = (
        min(float(line.y.min()) for line in lines),
        max(float(line.y.max()) for line in lines),
    )
    room = (high - low) or 1.0
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = y1 - (y1 - y0) * share
        parts.append(f'<path class="grid" d="M{x0} {y:.1f}H{x1}"/>')
        parts.append(text(x0 - 8, y + 4, f"{low + share * room:.3g}", "end"))
    for tick in range(5):
        parts.append(text(x0 + (x1 - x0) * tick / 4, y1 + 18, f"{longest * tick / 4:{form}}"))
    parts.append(text((x0 + x1) / 2, frame.height - 6, across, style="axis"))
    for line in lines:
        x = x0 + (x1 - x0) * line.x / longest
        parts.append(draw_curve(line, x, y1 - (y1 - y0) * (line.y - low) / room))
    return svg(frame, label, parts)


def upright(middle: float, content: str) -> str:
    """The name of an axis that goes up."""
    return (
        f'<text class="axis" transform="translate(12 {middle:.1f}) rotate(-90)" '
        f'text-anchor="middle">{escape(content)}</text>'
    )


def legend(marks: Sequence[tuple[str, str]]) -> str:
    """Says which colour and which dashes are which curve: classes and names."""
    items = "".join(
        f'<li><svg class="mark {style}" viewBox="0 0 34 10" aria-hidden="true">'
        f'<path d="M1 5H33"/></svg>{escape(name)}</li>'
        for style, name in marks
    )
    return f'<ul class="legend">{items}</ul>'


@dataclass(frozen=True)
class Span:
    """A coefficient or metric: its value or median, its whisker's ends, and how they are read."""

    name: str
    middle: float
    low: float
    high: float
    title: str


def spans(rows: Sequence[Span], label: str, zero: bool = True) -> str:
    """A dot and a whisker per row, on one scale, including 0 if `zero` is true."""
    step = 26
    frame = Frame(1070, 40 + step * len(rows), 220, 90, 8, 32)
    x0, y0, x1, y1 = frame.plot
    marks = [0.0] if zero else []
    low = min([*marks, *(row.low for row in rows)])
    high = max([*marks, *(row.high for row in rows)])
    scale = (x1 - x0) / ((high - low) or 1.0)
    parts = []
    for mark in marks or sorted({low, high}):
        x = x0 + (mark - low) * scale
        parts.append(f'<path class="base" d="M{x:.1f} {y0}V{y1}"/>')
        parts.append(text(x, y1 + 18, f"{mark:.4g}"))
    for place, row in enumerate(rows):
        parts += span(row, y0 + step * (place + 0.5), x0, low, scale, frame.width)
    return svg(frame, label, parts)


def span(row: Span, y: float, x0: int, low: float, scale: float, width: int) -> Iterator[str]:
    """One row of `spans`."""
    a, m, b = (x0 + (value - low) * scale for value in (row.low, row.middle, row.high))
    name = row.name if len(row.name) <= 26 else row.name[:25] + "…"
    yield f"<g><title>{escape(row.title)}</title>"
    yield text(x0 - 12, y + 4, name, "end", "name")
    yield f'<path class="whisker" d="M{a:.1f} {y:.1f}H{b:.1f}"/>'
    yield f'<circle class="point" cx="{m:.1f}" cy="{y:.1f}" r="5"/>'
    yield text(width - 4, y + 4, f"{row.middle:.4g}", "end", "tick") + "</g>"


def shares(parts: Sequence[tuple[str, float, str]], label: str) -> str:
    """Parts of a whole as one bar; style by class."""
    width, total = 1070.0, sum(part for _, part, _ in parts) or 1.0
    x, drawn_parts = 0.0, []
    for style, part, title in parts:
        wide = width * part / total
        if wide > 0:
            shown = max(wide - 2, 1)
            drawn_parts.append(
                f'<rect class="{style}" x="{x:.1f}" y="0" width="{shown:.1f}" height="14" rx="3">'
                f"<title>{escape(title)}</title></rect>"
                f'<path class="stripes {style}" d="M{x:.1f} 7H{x + shown:.1f}"/>'
            )
        x += wide
    return svg(Frame(1070, 14), label, drawn_parts, "shares")
