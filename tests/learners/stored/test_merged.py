"""Merging by Algorithm 3, seen in what a training asks of its store: planted cliques of frequent
features are read in one request each. Without merging it would be one for each feature.
"""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from planted import cliques

import tuskml
from tuskml.partitioner import plan

pytestmark = pytest.mark.native

N, SIZE, PER_ROW = 100, 8, 2
OPTIONS = {"store": "ads", "threads": 1, "epsilon": 0, "step": 0.5, "partition": N * SIZE}


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with tuskml.connect(store_root=tmp_path_factory.mktemp("root"), threads=1) as connection:
        rows, _ = cliques(N, SIZE, PER_ROW, times=40)
        lists = [rows.ids.astype(np.int32), np.ones(len(rows.ids), np.float32)]
        starts = rows.starts.astype(np.int32)
        columns = [pa.ListArray.from_arrays(starts, one) for one in lists]
        labels = pa.array(np.arange(len(rows)) % 2.0)
        connection.register("made", pa.table([*columns, labels], ["ids", "vals", "y"]))
        connection.execute("CREATE TABLE t AS SELECT * FROM made")
        yield connection


def train(con, **options):
    """The model, and its counters."""
    text = json.dumps(OPTIONS | options)
    call = f"SELECT train_model('logistic', y, sparse(ids, vals), '{text}') FROM t"
    model = con.execute(call).fetchall()[0][0]
    return model, json.loads(model["options"])["counters"]


@pytest.fixture
def without_merging(monkeypatch) -> None:
    merged = plan.merge_features

    def unmerged(rows, n_features, *given):
        found = merged(rows, n_features, *given)
        return replace(
            found, partition=np.arange(n_features, dtype=np.int32), steps=found.steps[:0]
        )

    monkeypatch.setattr(plan, "merge_features", unmerged)


def test_a_clique_is_at_most_one_request(con) -> None:
    """Of the first epoch and of all; the other epochs find what they ask for in the cache."""
    for epochs in (1, 3):
        model, counters = train(con, max_iter=epochs)
        assert counters["requests"] <= N
        assert counters["bytes_written"] < N * SIZE * 4 + N * 20
        assert model["iterations"] == epochs


def test_without_merging_each_feature_is_one(con, without_merging: None) -> None:
    """So that merging, and nothing else, is what the test above sees."""
    _, counters = train(con, max_iter=1)
    assert counters["requests"] == N * SIZE
