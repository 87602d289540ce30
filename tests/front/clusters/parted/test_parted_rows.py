"""Rows of groups that are trained by parts: how long workers hold them."""

from pathlib import Path

import pytest
import sharded

import tuskml
from tuskml.cluster.parted import on_parts
from tuskml.groups.execution import leading
from tuskml.groups.execution.leading import Ran


def test_rows_are_freed_when_their_group_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group at a time, so no more rows than those of the largest group are ever held."""
    held: list[int] = []
    pins: set[str | None] = set()

    def hear(one: Ran) -> None:
        pins.add(one.unit.pin)
        held.append(sum(part.stack is not None for part in list(on_parts._held.values())))

    monkeypatch.setattr(leading, "heard", [hear])
    with tuskml.connect() as con:
        sharded.table(con, 2_000)
        given = sharded.GIVEN | {"source": sharded.shuffled(con, tmp_path / "s")}
        found = tuskml.train(con, "linear", executor="threads", placement="dp", **given)
    assert len(pins) == 2 * len(found)
    assert max(held) == 2
