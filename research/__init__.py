"""Reproductions of the papers' tables and figures: simulators, baselines, traces, adversaries.

Nothing here is in the package, and the package imports nothing of it. Each program runs from the
checkout's folder, as `python -m research.themis.figure_3_14`. Programs share the benchmarks of
`scripts/bench`. docs/papers.md lists them.
"""

import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent / "scripts" / "bench"
sys.path += [str(folder) for folder in sorted(BENCH.iterdir()) if folder.is_dir()]
