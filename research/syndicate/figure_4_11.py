"""Figure 4.11: iterations of recommendation models, by plan and by other orders, of 128 workers.

A simulation of the hosts of table 4.1 and the models of table 4.2; the plan is the product's.
"""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.syndicate import baselines, dlrm
from research.syndicate.baselines import Judge
from tuskml.schedule.exchange.ordering import Search

PAPER = {"A1": (1.74, 1.26), "A2": (1.44, 1.21), "A3": (1.38, 1.2)}


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """How much faster the plan is than LIFO and the hand-optimised order. off: exchanges in the
    order of asking instead of the plan.
    """
    for model in dlrm.MODELS:
        judge = Judge(dlrm.operations(model), dlrm.cluster())
        search = Search(min(2.0, 2.0 * scale))
        ours = (baselines.fifo(judge) if off else baselines.jointly(judge, search)).seconds
        others = baselines.lifo(judge), baselines.hand_optimised(judge)
        for name, other, paper in zip(("LIFO", "hand-optimised"), others, PAPER[model.name]):  # noqa: B905
            ratio = other.seconds / ours
            yield Found(f"{model.name}, {name} over the plan", f"{paper}", ratio, least=paper)


if __name__ == "__main__":
    report.main(find, simulated=True)
