"""A Ray cluster whose head vanishes while groups are trained."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import sharded

import tuskml

CODE = """
import json, os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
import psutil, ray, tuskml
from tuskml.groups.execution import head
from tuskml.learners.events import listening
from tuskml.training import units

units.BATCH_ROWS = 2_000
head.LOOK_SECONDS = 1.0
cluster = Cluster()
cluster.add_node(num_cpus=1, object_store_memory=80_000_000, include_dashboard=False)
ray.init(address=cluster.address, log_to_driver=False, logging_level="CRITICAL")
when = []

def kill(event):
    if not when:
        when.append(event)
        for one in psutil.Process().children(recursive=True):
            one.kill()

source, finished = sys.argv[1:]
try:
    with listening(kill):
        tuskml.train(tuskml.connect(), "logistic", source=source, label="y", features=["x", "z"],
                     group_by="g", executor="ray", deterministic=True, finished=finished)
except tuskml.ClusterError as error:
    print(json.dumps([str(error), len(error.models)]), flush=True)
os._exit(0)  # the cluster is half gone
"""


@pytest.mark.nightly
def test_a_head_that_is_gone_ends_the_run_with_a_sentence_and_finished_groups_are_kept(
    tmp_path: Path,
) -> None:
    """In a process of its own, as Ray ends those that have lost their head for a minute."""
    pytest.importorskip("ray")
    with tuskml.connect() as con:
        sharded.table(con, 60_000)
        expected = tuskml.train(con, "logistic", source="rows", **sharded.GIVEN)
        source = sharded.shards(con, tmp_path / "s")
        done = subprocess.run(
            [sys.executable, "-c", CODE, source, str(tmp_path / "f")],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.stdout, done.stderr[-2000:]
        sentence, kept = json.loads(done.stdout.splitlines()[-1])
        assert "groups were not trained: the head of the Ray cluster at " in sentence
        assert 0 < kept < len(expected)
        left = sharded.GIVEN | {"source": source, "executor": "threads"}
        found = tuskml.train(con, "logistic", finished=tmp_path / "f", **left)
    sharded.assert_same_bits(found, expected)
