"""Figure 3.19: the fairness knob f and the length of leases. A simulation of 64 GPUs."""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.themis.runs import medians
from research.themis.simulation.events import Rules
from research.themis.simulation.policies.themis import Themis


def find(scale: float) -> Iterator[Found]:
    """Greatest rho by f; rho and GPU time by lease."""
    by_f = {f: medians(lambda f=f: Themis(f=f), 64, scale) for f in (0.0, 0.8, 1.0)}
    rho = {f: one["most"] for f, one in by_f.items()}
    yield Found("greatest rho, f = 0 over 0.8", "above 1", rho[0.0] / rho[0.8], least=1.02)
    yield Found("f = 1 over 0.8", "about 1.5", rho[1.0] / rho[0.8], least=1.2)
    hours = by_f[0.8]["gpu_hours"] / by_f[0.0]["gpu_hours"]
    yield Found("GPU time, f = 0.8 over 0", "above 1", hours, least=1.0)
    short, long = (medians(Themis, 64, scale, rules=Rules(lease=s)) for s in (300.0, 2400.0))
    rhos = long["most"] / short["most"]
    yield Found("greatest rho, leases of 40 minutes over 5", "above 1", rhos, least=1.02)
    spent = long["gpu_hours"] / short["gpu_hours"]
    yield Found("GPU time, leases of 40 minutes over 5", "below 1", spent, most=0.98)


if __name__ == "__main__":
    report.main(find, simulated=True)
