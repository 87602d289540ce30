"""`tuskml.split` of PostgreSQL: its rows train in DuckDB as they do there."""

from pathlib import Path
from typing import Any

import pytest

import tuskml
from tuskml.commands.cli import main

ROWS = """
CREATE TABLE sales AS
SELECT CASE WHEN i % 4 = 3 THEN NULL ELSE 'shop ' || i % 4 END AS shop, (i * 7919) % 97 AS x,
       3 * ((i * 7919) % 97) + i % 5 AS y, DATE '2024-01-01' + i % 60 AS day
FROM generate_series(1, 400) AS t(i)
"""
GIVEN: dict[str, Any] = {"label": "y", "features": ["x"], "deterministic": True}


def test_a_table_and_its_expressions(pg: Any, tmp_path: Path) -> None:
    keys = ["shop", "extract(month FROM day)::int AS month"]
    expected = tuskml.train(pg, "linear", source="sales", group_by=keys, **GIVEN)
    manifest = tuskml.split(pg, source="sales", group_by=keys, into=tmp_path / "s")
    assert manifest.group_by == ("shop", "month")
    given = GIVEN | {"source": manifest.source, "group_by": ["shop", "month"]}
    found = tuskml.train(":memory:", "linear", executor="threads", **given)
    assert list(found) == list(expected)
    assert len(found) == 8  # four shops, two months
    for key, model in expected.items():
        assert model is not None
        assert found[key].coef == model.coef, key
        assert found[key].n_rows == model.n_rows


@pytest.mark.nightly
def test_the_command(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "s")
    given = ["--source", "SELECT * FROM sales WHERE x > 50", "--group-by", "shop"]
    assert main(["split", url, *given, "--into", folder]) == 0
    assert " rows of 4 groups in 1 shard of " in capsys.readouterr().out
    assert main(["split", url, *given[:3], "shopp", "--into", f"{folder}2"]) == 1
    assert "did you mean" in capsys.readouterr().err
