"""Tables whose row groups differ: a few of them do not tell, and `auto` notices."""

from pathlib import Path

import duckdb
import pytest

from tuskml import Model, train
from tuskml.learners.linear.streamed import skipping
from tuskml.learners.linear.streamed import training as streaming

ROWS, GROUP = 400_000, 4096
MADE = """
SELECT *, noise < 1 / (1 + exp(-(2 * (x0 - 1) + x1 / 5 + 2 * sin(i // {group})))) AS late
FROM (SELECT i, (hash(i) % 10000) / 5000 AS x0, (hash(-i) % 10000) / 500 - 10 AS x1,
             (hash(i * 3 + 2) % 10000) / 10000 AS noise
      FROM range({rows}) t(i))
"""


def test_auto_reads_more_where_row_groups_are_not_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events are rarer or more frequent from one row group to the next, as in a table by time."""
    monkeypatch.setattr(skipping, "USUAL_ROWS", 40_000)
    monkeypatch.setattr(streaming, "CHUNK_ROWS", 8192)
    made = MADE.format(rows=ROWS, group=GROUP)
    source = tmp_path / "drifting.parquet"
    with duckdb.connect() as con:
        con.execute(f"COPY ({made}) TO '{source}' (FORMAT parquet, ROW_GROUP_SIZE {GROUP})")

    def auto() -> Model:
        given = {"label": "late", "features": ["x0", "x1"], "epsilon": 0.05, "l2": 0.001}
        return train(":memory:", "logistic", source=source, **given)

    model = auto()
    groups = model.options.get("counters", {"row_groups_read": ROWS // GROUP})["row_groups_read"]
    assert groups >= skipping.FIRST_ROW_GROUPS
    monkeypatch.setattr(skipping, "CONFIRMED", float("inf"))
    believed = auto()
    assert believed.options["counters"]["row_groups_read"] < skipping.FIRST_ROW_GROUPS


@pytest.mark.parametrize("there", [1, 40, 319, 320, 5000])
def test_first_row_groups_are_few_of_all(there: int) -> None:
    """A twentieth at most, with the one that confirms, where there are sixty or more."""
    found = skipping.first_row_groups(there)
    more = found == skipping.FEW_ROW_GROUPS
    assert there < 60 or found + more <= there / 20
