"""Table 4 and figure 5: iterations of the eleven plans to a tolerance, from a table."""

from collections.abc import Iterator

from research import report
from research.ml4all.plans import connected, table, trained
from research.report import Found

SAMPLERS = ("shuffled-partition", "random-partition", "bernoulli")
PLANS = [("bgd", "", "")] + [
    (algorithm, transform, sampler)
    for algorithm in ("mgd", "sgd")
    for transform in ("eager", "lazy")
    for sampler in SAMPLERS
    if (transform, sampler) != ("lazy", "bernoulli")  # as in the paper
]
PAPER = {"bgd": "5 to 515", "mgd": "14 to 1,000", "sgd": "4 to 923"}


def find(scale: float) -> Iterator[Found]:
    """Each plan's iterations, and how many of the eleven reach the tolerance."""
    reached = 0
    with connected() as con:
        table(con, max(20_000, round(300_000 * scale)))
        for algorithm, transform, sampler in PLANS:
            more = {"transform": transform, "sampler": sampler} if transform else {}
            _, model = trained(
                con, task="logistic", algorithm=algorithm, epsilon=1e-3, max_iter=40, **more
            )
            reached += bool(model.converged)
            name = " ".join(word for word in (algorithm, transform, sampler) if word)
            yield Found(f"iterations of {name}", PAPER[algorithm], model.iterations, "{:.0f}")
    yield Found("plans that reach the tolerance", "11", reached, "{:.0f}", least=11)


if __name__ == "__main__":
    report.main(find)
