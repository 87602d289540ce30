"""Reproductions of the papers' tables and figures: simulators, baselines, traces, adversaries.

Nothing here is in the package, and the package imports nothing of it. Each program runs from the
checkout's folder, as `python -m research.themis.contention`. Programs share the harness of
`scripts/bench`.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts" / "bench" / "common"))
