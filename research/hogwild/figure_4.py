"""Figure 4: losses, processor seconds and requests of KV and KV-VP.

4c and the seconds with more threads need more than two cores. Requests are the keys that a store
without a cache is asked for in a pass.
"""

from collections.abc import Iterator

from research import report
from research.hogwild.stores import data_of, run, stored
from research.report import Found

SECONDS = {"skewed": 3.0, "splice": 2.0, "matrix": 2.0, "movielens": 7.0}
EPOCHS = 3


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """KV over KV-VP, one thread; then what pushing to a second thread saves. off: KV as both."""
    for name, paper in SECONDS.items():
        data = data_of(name, scale)
        one = run(data, stored("KV"), EPOCHS)
        other = run(data, stored("KV" if off else "KV-VP"), EPOCHS)
        loss = other.model.loss / one.model.loss
        yield Found(f"4a: {name}, loss of KV-VP over that of KV", "at most 1", loss, most=1.01)
        ratio = one.seconds / other.seconds
        yield Found(
            f"4a, 4b: {name}, processor seconds, KV over KV-VP", f"{paper:g}", ratio, least=paper
        )
        fewer = one.model.asked / other.model.asked
        yield Found(f"4d: {name}, requests, KV over KV-VP", "4 to 100", fewer, least=4)
        if name == "skewed":
            two = run(data, stored("pushed", threads=2, cache="16MB"), EPOCHS).model
            pushed = two.counters["saved_by_pushing"]
            share = 100 * pushed / max(pushed + two.asked * two.passes, 1)
            what = f"4d: {name}, requests saved by pushing to a second thread, 16 MB"
            yield Found(what, "above 0", share, "{:.3g} %", least=1.0)


if __name__ == "__main__":
    report.main(find)
