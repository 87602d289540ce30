"""Rows of PostgreSQL on workers: the models are those of the same rows in DuckDB."""

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.cluster.shards import temporary
from tuskml.commands.cli import main

ROWS = """
CREATE TYPE size AS ENUM ('small', 'large');
CREATE TABLE sales AS
SELECT CASE WHEN i % 4 = 3 THEN NULL ELSE 'shop, "' || i % 4 END AS shop, (i * 7919) % 97 AS x,
       (i * 31 % 17)::numeric(9, 2) / 4 AS price, 'k' || i % 3 AS kind, i % 5 = 0 AS sunny,
       3 * ((i * 7919) % 97) + i % 5 AS y, DATE '2024-01-01' + i / 601 AS day,
       ARRAY[(i * 7919) % 97, sin(i)]::float8[] AS both, i % 7 > 2 AS late,
       (ARRAY['small', 'large'])[1 + i % 2]::size AS size
FROM generate_series(1, 1200) AS t(i)
"""
GIVEN: dict[str, Any] = {"source": "sales", "label": "y", "deterministic": True}


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(units, "BATCH_ROWS", 500)
    monkeypatch.setenv(temporary.FOLDER, str(tmp_path))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("linear", {"features": ["x", "price"]}),
        ("linear", {"features": "both", "weight": "1 + x % 2"}),
        ("linear", {"features": "ARRAY[x, price]::real[]", "label": "x"}),
        ("linear", {"features": ["x", "kind", "sunny", "day", "size"]}),
        ("logistic", {"features": ["x"], "label": "CASE WHEN late THEN 'yes' ELSE 'no' END"}),
        ("poisson", {"features": ["x"], "label": "x % 4", "offset": "ln(1 + x)"}),
        ("linear", {"features": ["x"], "label": "CASE WHEN shop IS NOT NULL THEN y END"}),
    ],
    ids=["columns", "array", "reals", "names", "text", "offset", "nothing usable"],
)
def test_the_models_are_those_of_the_server(
    pg: Any, tmp_path: Path, task: str, more: dict[str, Any]
) -> None:
    """Keys, features, labels and numbers; nothing stays of the rows."""
    keys = ["shop", "size AS how_large", "day", "price::numeric(5, 1) > 2 AS dear"]
    given = GIVEN | {"group_by": keys} | more
    expected = tuskml.train(pg, task, **given)
    found = tuskml.train(pg, task, cluster="threads", **given)
    assert list(found) == list(expected)
    assert len(found) == 16
    assert {type(key[2]) for key in found} == {datetime.date}
    for key, model in expected.items():
        other = found[key]
        assert (other is None) == (model is None)
        if model is not None:
            assert other.features == model.features
            assert (other.n_rows, other.classes) == (model.n_rows, model.classes)
            assert other.coef == pytest.approx(model.coef, rel=1e-6, abs=1e-8)
    assert list(tmp_path.glob(f"{temporary.PREFIX}*")) == []


@pytest.mark.nightly
def test_keys_are_the_servers_values(pg: Any) -> None:
    given = GIVEN | {"features": ["x"], "group_by": "price"}
    expected = tuskml.train(pg, "linear", **given)
    found = tuskml.train(pg, "linear", cluster="threads", **given)
    assert list(found) == list(expected)
    assert {type(key) for key in found} == {Decimal}


@pytest.mark.nightly
def test_the_rows_are_those_of_the_transaction(pg: Any) -> None:
    given = GIVEN | {"features": ["x"], "group_by": "shop", "cluster": "threads"}
    with pg.transaction(force_rollback=True):
        pg.execute("DELETE FROM sales WHERE shop IS NOT NULL")
        assert list(tuskml.train(pg, "linear", **given)) == [None]
        pg.execute("DELETE FROM sales")
        assert tuskml.train(pg, "linear", **given) == {}
    assert len(tuskml.train(pg, "linear", **given)) == 4


@pytest.mark.nightly
def test_models_are_kept_in_a_table_of_the_server(pg: Any, tmp_path: Path) -> None:
    given = GIVEN | {"features": ["x"], "group_by": ["shop", "late"], "cluster": "threads"}
    n = tuskml.train(pg, "linear", into="kept", **given)
    expected = tuskml.train(pg, "linear", **given)
    query = "SELECT shop, late, (model).coef, predict(model, ARRAY[2.0]) FROM kept"
    found = {row[:2]: row[2:] for row in pg.execute(query).fetchall()}
    assert n == len(found) == len(expected) == 8
    for key, model in expected.items():
        coef, predicted = found[key]
        assert coef == model.coef
        assert predicted == pytest.approx(model.intercept + 2 * model.coef[0])
    nothing = given | {"source": "SELECT * FROM sales WHERE false"}
    assert tuskml.train(pg, "linear", into="kept", replace=True, **nothing) == 0
    assert pg.execute("SELECT shop, late, model FROM kept").fetchall() == []
    with pytest.raises(tuskml.DataError, match="models of PostgreSQL are kept in a table"):
        tuskml.train(pg, "linear", into=tmp_path / "kept.parquet", **given)


@pytest.mark.nightly
def test_one_model_goes_by_parts(pg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bits of the same rows in DuckDB."""
    monkeypatch.setattr(temporary, "SHARD_BYTES", 3_000)
    given = GIVEN | {"features": ["x", "price"], "cluster": "threads"}
    found = tuskml.train(pg, "linear", **given)
    found_rows = pg.execute("SELECT x, price::float8, y FROM sales").fetchall()
    rows = pd.DataFrame(found_rows, columns=["x", "price", "y"])
    with tuskml.connect() as con:
        con.register("rows", rows)
        con.execute("CREATE TABLE sales (x DOUBLE, price DOUBLE, y INTEGER)")
        con.execute("INSERT INTO sales FROM rows")
        expected = tuskml.train(con, "linear", **given)
    assert [getattr(found, f) for f in sharded.FIELDS] == [
        getattr(expected, f) for f in sharded.FIELDS
    ]
    assert tuskml.train(pg, "linear", into="one", **given) == 1
    assert pg.execute("SELECT (model).coef FROM one").fetchall() == [(found.coef,)]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"features": "sparse(ARRAY[0], ARRAY[1.0::float8])"}, "are of type .*sparse.*split wri"),
        ({"finished": "f"}, "finished is given, and source is table sales, expected Parquet"),
        ({"store": "s"}, "a store is a folder of one machine"),
    ],
)
def test_what_cannot_travel_is_a_sentence(pg: Any, more: dict[str, Any], sentence: str) -> None:
    given = GIVEN | {"features": ["x"], "group_by": "shop", "cluster": "threads"} | more
    with pytest.raises(tuskml.TuskError, match=sentence):
        tuskml.train(pg, "linear", **given)


def test_groups_that_were_not_trained_have_the_servers_keys(
    pg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group with an infinite label fails its unit."""
    monkeypatch.setattr(units, "BATCH_ROWS", 100)
    given = GIVEN | {
        "features": ["x"],
        "group_by": "day",
        "cluster": "threads",
        "invalid": "error",
    }
    given["label"] = "CASE WHEN day > '2024-01-01' THEN 'Infinity'::float8 ELSE y END"
    with pytest.raises(tuskml.ClusterError, match="1 of 2 groups were not trained") as caught:
        tuskml.train(pg, "linear", **given)
    assert list(caught.value.models) == [datetime.date(2024, 1, 1)]


@pytest.mark.nightly
def test_the_shell(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = [url, "--task", "linear", "--source", "sales", "--label", "y", "--features", "x"]
    given += ["--group-by", "shop"]
    assert main(["train", *given, "--cluster", "threads", "--json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["explain", *given, "--executor", "threads", "--workers", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == 4
