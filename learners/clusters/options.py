"""The options of the task `kmeans`, with its defaults."""

from dataclasses import dataclass

from tuskml.kernels.clusters import ALGORITHMS, LARGE, MOST_CLUSTERS
from tuskml.learners.options.kinds import BOOLEAN, Option, choice, integer, real, with_option
from tuskml.learners.options.table import Options, OptionTable

ITERATIONS = 300


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(Options):
    """The options of a call whose task is `kmeans`; epsilon: None where it is the algorithm's."""

    clusters: int
    starts: int
    algorithm: str
    batch_size: int
    standardize: bool
    epsilon: float | None  # type: ignore[assignment]

    @property
    def iterations(self) -> int:
        """The most passes over all rows of a start."""
        return self.max_iter or ITERATIONS


OPTIONS = OptionTable(
    ClusterOptions,
    (
        Option("clusters", integer(1, MOST_CLUSTERS), 8, "the number of centres"),
        Option(
            "starts",
            integer(1, 10_000),
            10,
            "the draws of centres by k-means++; the start with the lowest loss stays",
            unseen="the first start may be the best one",
        ),
        Option(
            "algorithm",
            choice(*ALGORITHMS),
            "auto",
            "`lloyd`: on all rows for each start; `minibatch`: on a sample for each start, then "
            "batches of the other rows, and all rows at the end; `auto`: `minibatch` for more "
            f"than {LARGE:,} different rows",
            unseen="both may end at the same centres",
        ),
        Option(
            "batch_size",
            integer(1, 1_000_000),
            4096,
            "the rows of a batch",
            with_option("algorithm", "auto", "minibatch"),
            "small groups have no batches",
        ),
        Option(
            "max_iter",
            integer(1, 2**31 - 1),
            ITERATIONS,
            "the most iterations over all rows, of each start",
        ),
        Option(
            "epsilon",
            real(0),
            None,
            "the relative fall of the loss that ends the iterations; by default 0 with `lloyd` "
            "and 1e-6 with `minibatch`",
            unseen="iterations may end before",
        ),
        Option(
            "standardize",
            BOOLEAN,
            False,
            "whether features are divided by their standard deviations; centres have the "
            "features' units",
        ),
        *("time", "threads", "seed", "format"),
    ),
)
