"""Figure 4.17: an all-reduce beside an all-to-all, on one channel and on two, of 128 workers.

A simulation of the hosts of table 4.1: both are asked for at once.
"""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.syndicate import dlrm
from research.syndicate.baselines import Judge
from tuskml.schedule.exchange.events import Rules
from tuskml.schedule.exchange.plan import Dag, Operation, Option


def find(scale: float) -> Iterator[Found]:
    """Seconds with both on the faster channel over those with the all-to-all on the other one."""
    exchanges = [
        Operation(kind, kind=kind, size=size, after=("step",))
        for kind, size in (("all_reduce", 3e8), ("all_to_all", 1e8))
    ]
    step = Operation("step", 1e-3, after_previous=("all_reduce", "all_to_all"))
    judge = Judge(Dag([step, *exchanges]), dlrm.cluster())

    def seconds(to_all: int) -> float:
        chosen = {
            "all_reduce": Option("scattered"),
            "all_to_all": Option("splined4", channels=(to_all,)),
        }
        return judge.seconds(chosen, Rules())

    one, two = seconds(0), seconds(1)
    yield Found("one channel over two", "above 1", one / two, least=1.05)


if __name__ == "__main__":
    report.main(find, simulated=True)
