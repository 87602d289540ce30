"""The options of the task `lda`, with its defaults."""

from dataclasses import dataclass

from tuskml.kernels.topics.sampling import MOST_TOPICS
from tuskml.learners.options.kinds import Option, integer, real
from tuskml.learners.options.table import Options, OptionTable

MOST = 1e9
"""That alpha and beta are below: draws are by single precision."""


@dataclass(frozen=True, kw_only=True)
class TopicOptions(Options):
    """The options of a call whose task is `lda`."""

    topics: int
    alpha: float
    beta: float
    max_iter: int
    optimize_interval: int


OPTIONS = OptionTable(
    TopicOptions,
    (
        Option("topics", integer(1, MOST_TOPICS), 20, "the number of topics"),
        Option(
            "alpha",
            real(0, MOST, open_low=True),
            0.1,
            "the parameter of the Dirichlet distribution of a document's topics: the smaller, the "
            "fewer topics a document has",
        ),
        Option(
            "beta",
            real(0, MOST, open_low=True),
            0.01,
            "the parameter of the Dirichlet distribution of a topic's words: the smaller, the "
            "fewer words a topic has",
        ),
        Option("max_iter", integer(1, 2**31 - 1), 200, "the sweeps over all tokens"),
        Option(
            "optimize_interval",
            integer(0, 2**31 - 1),
            0,
            "after how many sweeps alpha is optimised each time, a number per topic; 0: never",
        ),
        *("time", "threads", "seed", "format"),
    ),
)
"""Alpha and beta are those of tomotopy."""
