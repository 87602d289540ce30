"""Table 3.5: rho of short and long apps under Themis and Tiresias. A simulation of 64 GPUs."""

from collections.abc import Iterator

import numpy as np

from research import report
from research.report import Found
from research.themis.runs import POLICIES, simulated
from research.themis.simulation.generated import searches

PAPER = {
    ("Themis", "long"): "~1",
    ("Themis", "short"): "~1.2",
    ("Tiresias", "long"): "~0.9",
    ("Tiresias", "short"): "~1.9",
}


def find(scale: float) -> Iterator[Found]:
    """The mean rho of the quarter of apps with the least and with the most work."""
    rho = {}
    for name in ("Themis", "Tiresias"):
        short, long = [], []
        for seed in range(max(1, round(3 * scale))):
            run, _ = simulated(searches(80, 0.9, 256, seed), 64, POLICIES[name](), seed)
            apps = sorted(run.apps, key=lambda app: app.work)
            quarter = len(apps) // 4
            short += [app.rho for app in apps[:quarter]]
            long += [app.rho for app in apps[-quarter:]]
        rho[name, "short"], rho[name, "long"] = np.mean(short), np.mean(long)
    for key, paper in PAPER.items():
        yield Found(f"rho of {key[1]} apps under {key[0]}", paper, float(rho[key]))
    gain = float(rho["Tiresias", "short"] / rho["Themis", "short"])
    yield Found("short apps, Tiresias over Themis", "1.6", gain, least=1.6)


if __name__ == "__main__":
    report.main(find, simulated=True)
