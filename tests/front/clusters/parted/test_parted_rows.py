"""Rows of groups that are trained by parts: how long workers hold them."""

from pathlib import Path

import duckdb
import pytest
import sharded

import tuskml
from tuskml.cluster.parts import part_rows
from tuskml.groups.execution import leading
from tuskml.groups.execution.leading import Ran


def few_groups(con: duckdb.DuckDBPyConnection, n: int) -> None:
    """A table of a few groups with as many rows as they have among n."""
    sharded.table(con, n)
    con.execute("DELETE FROM rows WHERE g NOT IN ('g0', 'g1', 'g3') OR g IS NULL")


def test_rows_are_freed_when_their_group_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group at a time, so no more rows than those of the largest group are ever held."""
    held: list[int] = []
    pins: set[str | None] = set()

    def hear(one: Ran) -> None:
        pins.add(one.unit.pin)
        held.append(sum(part.stack is not None for part in list(part_rows._held.values())))

    monkeypatch.setattr(leading, "heard", [hear])
    with tuskml.connect() as con:
        few_groups(con, 2_000)
        given = sharded.GIVEN | {"source": sharded.shuffled(con, tmp_path / "s")}
        found = tuskml.train(con, "linear", executor="threads", placement="dp", **given)
    assert len(pins) == 4 * len(found)
    assert max(held) == 4


@pytest.mark.sample(1)
@pytest.mark.parametrize("placement", ["gap", "dp"])
def test_a_label_among_its_features_has_a_status(tmp_path: Path, placement: str) -> None:
    """Where all parts of a group say so."""
    with tuskml.connect() as con:
        few_groups(con, 8_000)
        source = sharded.shuffled(con, tmp_path / "s")
        given = {"label": "x", "group_by": "g", "source": source, "executor": "threads"}
        for feature, leaks in (("2 * asin(sin(x))", True), ("sin(x)", False)):
            features = ["z", feature]
            found = tuskml.train(con, "linear", features=features, placement=placement, **given)
            large = [one for one in found.values() if one is not None and one.n_rows > 200]
            assert large
            assert {one.status == "label among features" for one in large} == {leaks}


BAD = {
    "NaN": ("linear", ["x", "z"], "x = 'NaN'", "feature 1 is NaN in row"),
    "NaN by name": ("linear", "{'x': x, 'z': z}", "x = 'NaN'", "column 'x' is NaN in row"),
    "count": ("poisson", ["x", "z"], "y = -1", "label is -1 in row"),
    "count of trees": ("gbdt", ["x", "z"], "y = -1", "label is -1 in row"),
    "decimal": ("logistic", ["x", "z"], "y = y", "labels are numbers of more digits"),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_told_with_their_group_and_file(tmp_path: Path, name: str) -> None:
    """As a status of the group, and with option `invalid` as an error that names it."""
    task, features, change, sentence = BAD[name]
    with tuskml.connect() as con:
        few_groups(con, 2_000)
        con.execute("ALTER TABLE rows ALTER y TYPE DOUBLE")
        con.execute(f"UPDATE rows SET {change} WHERE rowid = (SELECT max(rowid) FROM rows)")
        bad = con.execute("SELECT g FROM rows WHERE rowid = (SELECT max(rowid) FROM rows)")
        key = bad.fetchall()[0][0]
        label = "y"
        if name == "decimal":
            many = f"CASE WHEN g = '{key}' THEN 0.1234567890123456789 ELSE 0 END"
            label = f"CAST(y + {many} AS DECIMAL(38, 19))"
            con.execute("ALTER TABLE rows ALTER y TYPE DECIMAL(38, 19)")
        given = sharded.GIVEN | {"label": label, "features": features}
        if task == "gbdt":
            del given["deterministic"]
            given |= {"objective": "poisson", "trees": 2}
        given |= {"source": sharded.shuffled(con, tmp_path / "s")}
        given |= {"executor": "threads", "placement": "dp"}
        found = tuskml.train(con, task, **given)
        status = {one: model.status for one, model in found.items()}
        assert [one for one, text in status.items() if text == "invalid rows"] == [key]
        assert sentence in found[key].plan
        with pytest.raises(tuskml.ClusterError, match=rf"\(group '{key}'\)") as caught:
            tuskml.train(con, task, **given, invalid="error")
        assert sentence in str(caught.value)
        if "in row" in sentence:
            assert "of the group in '/" in found[key].plan
            assert "of the group in '/" in str(caught.value)
