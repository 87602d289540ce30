"""Features that occur together share blocks: seen in what a training asks of its store."""

import json

import numpy as np
import pyarrow as pa
import pytest
from planted import cliques, independent

import tuskml
from tuskml.learners.linear.stored import run as stored_run

pytestmark = pytest.mark.native

CACHE = 1100 << 10
"""Bytes, less than the model has: smaller than option `cache` may be."""
OPTIONS = {"store": "ads", "threads": 1, "max_iter": 2, "epsilon": 0, "step": 0.5}
OPTIONS["method"] = "kv-vp"


@pytest.fixture(autouse=True)
def small_cache(monkeypatch) -> None:
    begun = stored_run.Run.__init__

    def init(self, *given) -> None:
        begun(self, *given)
        self.cache, self.share = CACHE, CACHE // self.plan.threads

    monkeypatch.setattr(stored_run.Run, "__init__", init)
    monkeypatch.setattr(stored_run, "all_fit", lambda *_: False)


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with tuskml.connect(store_root=tmp_path_factory.mktemp("root"), threads=2) as connection:
        for name, rows in (
            ("cliques", cliques(21_000, times=2)[0]),
            ("loose", independent(100_000, 1500, 80, frequent=10)),
        ):
            starts = rows.starts.astype(np.int32)
            lists = [rows.ids.astype(np.int32), np.ones(len(rows.ids), np.float32)]
            columns = [pa.ListArray.from_arrays(starts, one) for one in lists]
            labels = pa.array(np.arange(len(rows)) % 2.0)
            connection.register("made", pa.table([*columns, labels], ["ids", "vals", "y"]))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM made")
        yield connection


def train(con, table: str, **options):
    text = json.dumps(OPTIONS | options)
    call = f"SELECT train_model('logistic', y, sparse(ids, vals), '{text}') FROM {table}"
    model = con.execute(call).fetchall()[0][0]
    return model, json.loads(model["options"])["counters"]


@pytest.mark.nightly
def test_cliques_are_asked_for_together(con) -> None:
    """With the same loss; how large blocks are is chosen for each layout."""
    by_id, plain = train(con, "cliques", layout="id", max_iter=1)
    model, counters = train(con, "cliques", max_iter=1)
    assert "by affinity" in model["plan"]
    assert model["loss"] == pytest.approx(by_id["loss"], rel=1e-3)
    assert counters["features"] == pytest.approx(plain["features"], rel=0.15)
    assert counters["requests"] < plain["requests"] / 4


@pytest.mark.nightly
def test_blocks_of_one_size_are_fewer(con, monkeypatch) -> None:
    monkeypatch.setattr("tuskml.partitioner.affinity.SIZES", (16,))
    _, counters = train(con, "cliques", layout="affinity")
    for layout, times in (("id", 4), ("frequency", 3)):
        _, plain = train(con, "cliques", layout=layout)
        assert counters["bytes_read"] < plain["bytes_read"] / times, layout
        assert counters["requests"] < plain["requests"] / times, layout


def test_every_layout_is_the_same_model(con) -> None:
    """Of data without affinity, too; the plan compares the costs."""
    losses = [
        train(con, "loose", layout=one, max_iter=1)[0]["loss"]
        for one in ("affinity", "frequency", "id")
    ]
    assert losses[1:] == pytest.approx([losses[0]] * 2, rel=0.05)
    model, _ = train(con, "loose", max_iter=1)
    assert "blocks per chunk" in model["plan"]


@pytest.mark.nightly
def test_a_number_of_frequent_features_leaves_the_others_alone(con) -> None:
    model, counters = train(con, "loose", partition=20)
    assert "20 features in" in model["plan"]
    assert "others in a key each" in model["plan"]
    assert counters["saved_by_partitioning"] < counters["features"] / 5


def test_another_name_is_refused(con) -> None:
    with pytest.raises(Exception, match="affinity"):
        train(con, "loose", layout="afinity")
