"""Plans that read a table or files, whole or in part, with their costs, as lines of text."""

from collections.abc import Sequence

from tuskml.learners.explaining import columns
from tuskml.learners.explaining.explanation import Document
from tuskml.learners.explaining.shown import shown_bytes, shown_seconds


def table(candidates: Sequence[Document]) -> list[str]:
    """The plans: seconds, those of reading, bytes and rows that are read."""
    return columns.table(("total", "reading", "reads", "rows"), candidates, cells_of)


def cells_of(one: Document) -> list[str]:
    """The cells of a feasible plan: expected seconds, reading seconds, bytes, rows and a note."""
    return [
        shown_seconds(one["seconds"]["point"]),
        shown_seconds(one["reading_seconds"]),
        shown_bytes(one["read_bytes"]),
        f"{one['read_rows']:,}",
        "chosen" if one["chosen"] else one["never"] or "",
    ]


def lines(source: Document | None) -> list[str]:
    """The reason why all rows of a source were read, and the plans that were compared before."""
    if source is None:
        return []
    told = (
        f"  source    {source['row_groups']:,} partitions of {source['storage']}, "
        f"{shown_bytes(source['bytes'])}; all rows are read: {source['because']}"
    )
    return [told, *table(source["candidates"])]
