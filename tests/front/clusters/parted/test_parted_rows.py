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


@pytest.mark.parametrize("placement", ["gap", "dp"])
def test_a_label_among_its_features_has_a_status(tmp_path: Path, placement: str) -> None:
    """Where all parts of a group say so."""
    with tuskml.connect() as con:
        sharded.table(con, 8_000)
        source = sharded.shuffled(con, tmp_path / "s")
        given = {"label": "x", "group_by": "g", "source": source, "executor": "threads"}
        for feature, leaks in (("2 * asin(sin(x))", True), ("sin(x)", False)):
            features = ["z", feature]
            found = tuskml.train(con, "linear", features=features, placement=placement, **given)
            large = [one for one in found.values() if one is not None and one.n_rows > 200]
            assert large
            assert {one.status == "label among features" for one in large} == {leaks}
