"""Explanation of a partitioning as text for `tuskml partition explain` and SQL."""

from collections.abc import Sequence

from tuskml.partitioner.explanation import Explanation
from tuskml.partitioner.native import Ids

PARTITIONS_SHOWN = 20
FEATURES_SHOWN = 6


def as_text(one: Explanation) -> str:
    """Text of the input, the requests per row before and after, and the partitions used most."""
    facts = [
        ("rows", f"{one.rows_seen:,}, of which {one.rows_sampled:,} are counted"),
        ("ids", f"{one.entries:,}; a feature's frequency errs by {one.frequency_error:,} at most"),
        ("cost", f"{one.cost.t_seek * 1e6:g} us per key, {one.cost.t_unit * 1e9:g} ns a feature"),
        ("frequent", f"{one.top:,} features in {one.n_partitions:,} partitions"),
        ("rare", str(one.blocks)),
    ]
    if one.batch_rows > 1:
        facts.append(("requests", f"shared by {one.batch_rows:,} rows"))
    text = "\n".join(f"{name:<10}{value}" for name, value in facts)
    return "\n\n".join([text, _requests(one), *_partitions(one)])


def _requests(one: Explanation) -> str:
    steps = [
        ("each feature its key", one.by_feature, 0.0),
        ("frequent ones merged", one.after_merging, one.saved_by_merging),
        ("rare ones in blocks", one.after_blocks, one.saved_by_blocks),
    ]
    rows = [
        [name, *(f"{x:,.2f}" for x in (r.requests, saved, r.features_read, r.seconds * 1e6))]
        for name, r, saved in steps
    ]
    names = ["expected of a row", "requests", "saved", "features read", "microseconds"]
    return _aligned(names, rows, left=0)


def _partitions(one: Explanation) -> list[str]:
    if not one.partitions:
        return []
    rows = [
        [f"{part.key:,}", f"{part.size:,}", f"{part.share:.4f}", _some(part.features)]
        for part in one.partitions[:PARTITIONS_SHOWN]
    ]
    text = _aligned(["key", "features", "share of rows", "which"], rows, left=3)
    if len(one.partitions) > PARTITIONS_SHOWN:
        text += f"\n  ({PARTITIONS_SHOWN} of {len(one.partitions):,} shared keys)"
    return [text]


def _some(features: Ids) -> str:
    names = ", ".join(map(str, features[:FEATURES_SHOWN].tolist()))
    return names + (", …" if len(features) > FEATURES_SHOWN else "")


def _aligned(names: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """A table with a header; column `left` is left-aligned, the others are right-aligned."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        placed = (
            cell.ljust(width) if place == left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return ("  " + "  ".join(placed)).rstrip()

    return "\n".join([line(names), line(["─" * width for width in widths]), *map(line, rows)])
