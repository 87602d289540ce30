"""A Ray cluster whose head vanishes, or comes back, while groups are trained."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import sharded

import tuskml
from tuskml.cluster import units
from tuskml.groups.execution import choosing

CODE = """
import json, os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
import psutil, ray, tuskml
from tuskml.groups.execution import ray_cluster
from tuskml.learners.events import listening
from tuskml.cluster import units

units.BATCH_ROWS = 2_000
ray_cluster.HEAD_SECONDS = 1.0
cluster = Cluster()
cluster.add_node(num_cpus=1, object_store_memory=80_000_000, include_dashboard=False)
ray.init(address=cluster.address, log_to_driver=False, logging_level="CRITICAL")
when = []

def kill():
    for one in psutil.Process().children(recursive=True):
        one.kill()

def restart():
    cluster.head_node.kill_gcs_server()
    cluster.head_node.start_gcs_server()

def once(event):
    if not when:
        when.append(event)
        {"kill": kill, "restart": restart}[sys.argv[3]]()

source, finished = sys.argv[1:3]
try:
    with listening(once):
        found = tuskml.train(
            tuskml.connect(), "logistic", source=source, label="y", features=["x", "z"],
            group_by="g", executor="ray", deterministic=True, finished=finished)
    print(json.dumps(["", len(found) - when[0].groups]), flush=True)
except tuskml.ClusterError as error:
    print(json.dumps([str(error), len(error.models)]), flush=True)
os._exit(0)  # the cluster is half gone
"""


def after(what: str, source: str, folder: Path) -> tuple[str, int]:
    """In a process of its own, as Ray ends those that have lost their head for a minute."""
    pytest.importorskip("ray")
    done = subprocess.run(
        [sys.executable, "-c", CODE, source, str(folder), what],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr[-2000:]
    sentence, number = json.loads(done.stdout.splitlines()[-1])
    return sentence, number


@pytest.mark.nightly
def test_a_head_that_is_gone_ends_the_run_with_a_sentence_and_finished_groups_are_kept(
    tmp_path: Path,
) -> None:
    with tuskml.connect() as con:
        sharded.table(con, 60_000)
        expected = tuskml.train(con, "logistic", source="rows", **sharded.GIVEN)
        source = sharded.shards(con, tmp_path / "s")
        sentence, kept = after("kill", source, tmp_path / "f")
        assert "groups were not trained: the head of the Ray cluster at " in sentence
        assert 0 < kept < len(expected)
        left = sharded.GIVEN | {"source": source, "executor": "threads"}
        found = tuskml.train(con, "logistic", finished=tmp_path / "f", **left)
    sharded.assert_same_bits(found, expected)


@pytest.mark.nightly
def test_a_head_that_comes_back_costs_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has forgotten all, but the workers and the driver know each other."""
    with tuskml.connect() as con:
        sharded.table(con, 30_000)
        expected = tuskml.train(con, "logistic", source="rows", **sharded.GIVEN)
        source = sharded.shards(con, tmp_path / "s")
        sentence, trained_after = after("restart", source, tmp_path / "f")
        assert sentence == ""
        assert trained_after > 0
        monkeypatch.setattr(choosing.Threads, "run", None)  # nothing is left to be trained
        kept = sharded.GIVEN | {"source": source, "executor": "threads"}
        monkeypatch.setattr(units, "BATCH_ROWS", 2_000)
        found = tuskml.train(con, "logistic", finished=tmp_path / "f", **kept)
    sharded.assert_same_bits(found, expected)
