"""The manual's k-means: scikit-learn's, on threads and on Ray."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import KMeans

import tuskml
from tuskml.schedule import Static

ROOT = Path(__file__).resolve().parents[3]
REQUIRED = bool(os.environ.get("TUSKML_REQUIRE_RAY"))
WORSE = """
import os


class Failing(KMeans):
    def update(self, p, S_p, D_p, A):
        if self.how == "lost" and p == 1:
            os._exit(1)
        return {}["nothing"]


for how in ("lost", "raises"):
    program = Failing()
    program.how = how
    try:
        tuskml.run_program(program, start, data, Static(2), "ray")
    except Exception as error:
        print(type(error).__name__, error)
"""


def of_the_manual():
    """The block of the program, and what it prints."""
    page = (ROOT / "docs/programs.md").read_text()
    program, shown = page.split("## Static")[1].split("```python\n")[1].split("```text\n")[:2]
    return program.split("```")[0], shown.split("```")[0]


def test_the_program_is_short():
    assert len(of_the_manual()[0].splitlines()) < 100


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_centres_are_scikit_learn_s(workers):
    names = {"__name__": "manual"}
    exec(of_the_manual()[0].split("random = ")[0], names)
    random = np.random.default_rng(1)
    points = random.normal(size=(300, 3)) + 4 * random.integers(2, size=(300, 3))
    start = {"looking": True, "centres": points[:7]}
    data = [{"points": part} for part in np.array_split(points, workers)]
    found = tuskml.run_program(names["KMeans"](), start, data, Static(100))
    reference = KMeans(7, init=points[:7], n_init=1, max_iter=50, tol=0, algorithm="lloyd")
    reference.fit(points)
    assert found.model["centres"] == pytest.approx(reference.cluster_centers_, abs=1e-9)
    assert (np.concatenate(found.local) == reference.labels_).all()


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None and not REQUIRED, reason="ray is not installed"
)
def test_ray_s_workers_do_the_same_and_say_what_fails(tmp_path):
    """A script of a user: Ray's workers get the program of `__main__`."""
    program, shown = of_the_manual()
    script = tmp_path / "kmeans.py"
    own = "address='local', num_cpus=2, log_to_driver=False, include_dashboard=False"
    first = f"import ray\nray.init({own})\n"  # another cluster may run on this machine
    script.write_text(first + program.replace('"threads"', '"ray"') + WORSE)
    run = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(shown)
    failures = [line for line in run.stdout.splitlines() if "Error " in line.partition(":")[0]]
    assert [line.partition(",")[0] for line in failures] == [
        "ClusterError a worker of the Ray cluster was lost",
        "KeyError 'nothing'",
    ]
