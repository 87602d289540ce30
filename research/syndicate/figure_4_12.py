"""Figures 4.12 and 4.13: idle computation and gains of the plan's parts, model A2, 128 workers.

A simulation of the hosts of table 4.1; the plan is the product's.
"""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.syndicate import baselines, dlrm
from research.syndicate.baselines import Judge
from tuskml.schedule.exchange.ordering import Search

IDLE = {"LIFO": 1.64, "hand-optimised": 1.51, "scheduling only": 1.32, "execution only": 1.26}
SAVED = {"hand-optimised": 15.7, "execution only": 17.1, "scheduling only": 21.9, "plan": 30.6}


def find(scale: float) -> Iterator[Found]:
    """Idle shares over the plan's, and how much of LIFO's seconds each order saves."""
    judge = Judge(dlrm.operations(dlrm.MODELS[1]), dlrm.cluster())
    search = Search(min(2.0, 2.0 * scale))
    seconds = {
        "LIFO": baselines.lifo(judge).seconds,
        "hand-optimised": baselines.hand_optimised(judge).seconds,
        "execution only": baselines.execution_only(judge, search).seconds,
        "scheduling only": baselines.scheduling_only(judge).seconds,
        "plan": baselines.jointly(judge, search).seconds,
    }
    idle = {name: 1 - judge.dag.compute_seconds / took for name, took in seconds.items()}
    yield Found("idle computation with the plan", "27.4 %", 100 * idle["plan"], "{:.1f} %")
    for name, paper in IDLE.items():
        more = idle[name] / idle["plan"]
        yield Found(f"idle, {name} over the plan", f"{paper}", more, least=paper)
    for name, paper in SAVED.items():
        saved = 100 * (1 - seconds[name] / seconds["LIFO"])
        what = f"{name}: seconds saved of LIFO's"
        yield Found(what, f"{paper} %", saved, "{:.1f} %", least=paper)


if __name__ == "__main__":
    report.main(find, simulated=True)
