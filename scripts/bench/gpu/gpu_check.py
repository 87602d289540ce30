"""All checks and figures on a machine with a GPU: `make gpu-check`, in eight minutes at most.

It needs Python with NumPy, SciPy, CuPy, pytest and hypothesis, and a C++ compiler if the CPU's
kernels are not built; it installs nothing. First it runs the tests marked gpu, which compare with
the CPU and with closed forms, then the figures (`gpu.py`). Arguments go to `gpu.py`. The exit
status is that of the tests, or 1 if a part of the figures failed.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpu_checkout import ROOT, built, importable

TESTS = 150
"""Seconds for the tests."""
FIGURES = "240"
"""Seconds after which no part of the figures begins."""
PROCESSES = 8


def tests(links: Path | None) -> int:
    """Runs the tests marked gpu; pytest's exit status."""
    import importlib.util

    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
    if importlib.util.find_spec("xdist") is not None:
        command += ["-n", str(min(PROCESSES, os.cpu_count() or 1))]
    found = dict(os.environ)
    if links is not None:
        known = found.get("PYTHONPATH")
        found["PYTHONPATH"] = os.pathsep.join([str(links)] + ([known] if known else []))
    done = subprocess.run(
        [*command, "tests/kernels/gpu"], cwd=ROOT, env=found, timeout=TESTS, check=False
    )
    return done.returncode


def main() -> int:
    """Both; the exit status."""
    links = importable()
    missing = built()
    if missing is not None:
        print(f"no tests and no comparison with the CPU: {missing}", file=sys.stderr)
    from tuskml.kernels.gpu import cuda

    if cuda.availability() is not None:
        sys.exit(f"no GPU to check: {cuda.availability()}")
    failed = 1 if missing is not None else tests(links)
    import gpu

    report = gpu.main(["--seconds", FIGURES, *sys.argv[1:]])
    return failed or int(bool(report["failed"]))


if __name__ == "__main__":
    sys.exit(main())
