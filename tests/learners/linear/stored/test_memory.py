"""What a training beyond its cache takes of the system's memory, whoever asks for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.native,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]

HELPERS = Path(__file__).parents[3] / "helpers"
MIB = 1 << 20
CACHE, SLACK = 16 * 10**6, 9 * MIB

PROGRAM = """
import ctypes, json, sys
from pathlib import Path
import numpy as np
from rows import block
from tuskml.groups.stored import train_stored
from tuskml.learners.learner import Request
from tuskml.learners.registry import options_of, task_named

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

def train(groups):
    options = {"store": "m", "cache": "16MB", "max_iter": 2, "step": 0.02, "threads": 2}
    task = task_named("logistic")
    (model,) = train_stored(groups, Request(task, options_of(task, json.dumps(options))), 0, sys.argv[1])
    return model.plan.pool[0]

d = int(sys.argv[2])
rng, ones = np.random.default_rng(1), np.ones(60)
made = lambda n: block([(ids, ones) for ids in rng.integers(0, d, (n, 60))],
                       np.arange(n) % 2.0, "sparse float32", 20_000, d)
train(made(100))  # what is imported late is no part of it
groups = made(int(d * float(sys.argv[3])) // 60)
ctypes.CDLL(None).malloc_trim(0)
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
plan = train(groups)
print(json.dumps([plan, memory("VmHWM") - before]))
"""  # noqa: E501


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("weights", "each"),
    [(20 * MIB, 1.5), (96 * MIB, 0.3)],
    ids=["common features", "most features in one row"],
)
def test_memory_is_about_the_cache_while_planning_training_and_sealing(
    tmp_path, weights, each
) -> None:
    """With few entries per id nearly each is a feature of its own, and sealing has most to do."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(weights // 4), str(each)]
    paths = os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")])
    # Not what glibc keeps in an arena for each thread, which depends on when they run.
    env = os.environ | {"PYTHONPATH": paths, "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=env)
    plan, held = json.loads(done.stdout.splitlines()[-1])
    assert "weights travel between" in plan
    assert held < CACHE + SLACK, f"{held / MIB:.0f} MiB"
