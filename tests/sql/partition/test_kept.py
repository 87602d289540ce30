"""Partitionings that are kept under a name: written by SQL, listed, and handed to trainings."""

# ruff: noqa: E501, SQL is read better on one line

import base64
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest
from clients import Client

import tuskml
from tuskml.commands.cli import main
from tuskml.errors import StoreError
from tuskml.kvstore import StoreRoot, list_partitionings, read_partitioning
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.native

PAIRS = """CREATE TABLE pairs AS SELECT i, i % 2 AS y, ARRAY[(i * 7919) % 1000, 1000 + (i * 7919) % 1000] AS ids,
    ARRAY[1.0, 1.0] AS vals FROM generate_series(1, 4000) AS s(i)"""
TRAIN = "SELECT (train_model('logistic', y, sparse(ids, vals), '{}')).store FROM {}"


@pytest.fixture
def duck(tmp_path: Path) -> Any:
    with tuskml.connect(store_root=tmp_path, threads=2) as connection:
        connection.execute(PAIRS)
        yield Client(lambda sql: connection.execute(sql).fetchall(), duckdb.Error)


@pytest.fixture
def post(cluster: Any) -> Any:
    cluster.create_database("kept")
    with cluster.connect("kept") as connection:
        connection.execute(PAIRS)
        yield Client(lambda sql: connection.execute(sql).fetchall(), psycopg.Error)
    cluster.drop_database("kept")


@pytest.fixture(params=["duck", "post"])
def client(request: pytest.FixtureRequest) -> Client:
    found: Client = request.getfixturevalue(request.param)
    return found


def keep(client: Client, **options: Any) -> dict:
    """What partition_model answers."""
    return client.call("partition_model", "ids", f"'{json.dumps(options)}'", rest="FROM pairs")


def train(client: Client, **options: Any) -> str:
    text = json.dumps({"store": "ads", "max_iter": 2, "threads": 1} | options)
    return client.run(TRAIN.format(text, "pairs"))[0][0]


@pytest.mark.sample(1)
@pytest.mark.parametrize("layout", ["id", "affinity"])
def test_a_training_takes_it(client: Client, layout: str) -> None:
    """In both databases; by affinity the two features of a pair share a key."""
    answered = keep(client, name="pairs", top=10, block=8, layout=layout, batch_rows=100)
    index = IndexMap.from_bytes(base64.b64decode(answered["index_map"]))
    keys, _ = index.locate(np.arange(2000))
    together = float((keys[:1000] == keys[1000:]).mean())
    assert (together > 0.9) == (layout == "affinity")
    for partition in ("pairs", "pairs@1"):
        assert train(client, partition=partition).startswith("ads@")
    plan = client.run(
        TRAIN.replace("store", "plan").format('{"store": "ads", "partition": "pairs"}', "pairs")
    )
    assert "blocks of 8" in plan[0][0]


def test_names_that_are_not_there(client: Client) -> None:
    keep(client, name="clicks")
    with pytest.raises(
        client.errors, match=r"no partitioning named 'click'.* did you mean 'clicks'"
    ):
        train(client, partition="click")
    with pytest.raises(client.errors, match="no version 2, expected at most 1"):
        train(client, partition="clicks@2")
    with pytest.raises(
        client.errors, match=r"partition.*expected a whole number from 0 to 1048576, or the name"
    ):
        train(client, partition="no name")
    with pytest.raises(client.errors, match=r"expected .*name"):
        keep(client, name="../up")


def test_versions_are_listed_and_never_change(duck: Client, tmp_path: Path, capsys: Any) -> None:
    first = keep(duck, name="ads", block=4)
    keep(duck, name="ads", block=16)
    keep(duck, name="other")
    listed = list_partitionings(StoreRoot(tmp_path).path)
    assert [(one["partitioning"], one["version"]) for one in listed] == [
        ("ads", 1),
        ("ads", 2),
        ("other", 1),
    ]
    kept = read_partitioning(tmp_path, "ads@1")
    assert base64.b64encode(kept.to_bytes()).decode() == first["index_map"]
    assert read_partitioning(tmp_path, "ads").blocks.sizes == (16,)
    main(["store", "partitionings", "ads", "--root", str(tmp_path)])
    shown = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in shown] == ["ads@1", "ads@2"]
    assert "others in blocks of 4" in shown[0]
    main(["store", "partitionings", "--json", "--root", str(tmp_path)])
    assert len(json.loads(capsys.readouterr().out)) == 3
    assert StoreRoot(tmp_path).names() == [], "it is no store"


def test_what_is_kept_is_a_table(client: Client) -> None:
    """The facts of each version, as partition_model answered them."""
    here = "FROM partitionings() WHERE partitioning = 'listed'"
    assert client.run(f"SELECT * {here}") == []
    made = [keep(client, name="listed", top=10, block=block) for block in (4, 16)]
    columns = "version, features, keys, rows_seen, requests_before, requests_after, others, error"
    found = client.run(f"SELECT {columns} {here} ORDER BY version")
    names = ("features", "partitions", "rows_seen", "requests_before", "requests_after")
    assert [row[:6] for row in found] == [
        (number, *(one[name] for name in names)) for number, one in enumerate(made, 1)
    ]
    assert ["blocks of 4" in found[0][6], "blocks of 16" in found[1][6]] == [True, True]
    assert [row[7] for row in found] == [None, None]
    recent = client.run(f"SELECT now() - created < INTERVAL '1 hour', size > 100 {here}")
    assert recent == [(True, True)] * 2


@pytest.mark.fault(family="damaged files")
def test_damage_is_found(duck: Client, tmp_path: Path) -> None:
    keep(duck, name="ads")
    path = tmp_path / ".partitionings" / "ads" / "1"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(duck.errors, match="damaged"):
        train(duck, partition="ads")
    assert "damaged" in list_partitionings(tmp_path)[0]["error"]


def test_a_feature_that_it_does_not_know(duck: Client, tmp_path: Path) -> None:
    """By id every feature has a place; by affinity others come after those that were there."""
    keep(duck, name="known", layout="affinity", batch_rows=100)
    keep(duck, name="every", layout="id")
    duck.run("INSERT INTO pairs VALUES (0, 1, ARRAY[5000], ARRAY[1.0])")
    found = []
    for name in ("every", "known"):
        with StoreRoot(tmp_path).open(train(duck, partition=name)) as sealed:
            found.append(sealed.weights(np.array([3, 1003, 5000])))
    assert found[0].all()
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)


def test_a_factorization_takes_numbers_alone(duck: Client) -> None:
    with pytest.raises(duck.errors, match="is not available with task 'matrix_factorization'"):
        duck.run(
            """SELECT train_model('matrix_factorization', y, [i % 9, i % 7], '{"store": "f", "partition": "ads"}') FROM pairs"""
        )


def test_reading_from_python(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="expected one that partition_model kept"):
        read_partitioning(tmp_path, "ads")
