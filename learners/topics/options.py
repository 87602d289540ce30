"""The options of the task `lda`, with its defaults."""

from dataclasses import dataclass

from tuskml.kernels.topics import MOST_TOPICS
from tuskml.learners.options.kinds import (
    NAMES,
    SPARSE,
    WORDS,
    Option,
    choice,
    integer,
    of_features,
    real,
    with_option,
)
from tuskml.learners.options.table import Options, OptionTable

MOST = 1e9
"""Upper limit of alpha and beta: draws are in single precision."""


@dataclass(frozen=True, kw_only=True)
class TopicOptions(Options):
    """The options of a call whose task is `lda`."""

    algorithm: str
    topics: int
    alpha: float
    beta: float
    optimize_interval: int
    batch_size: int
    learning_offset: float
    learning_decay: float
    stop_words: tuple[str, ...] | None

    @property
    def online(self) -> bool:
        """Returns whether variational Bayes trains, batch by batch."""
        return self.algorithm == ONLINE

    @property
    def passes(self) -> int:
        """The number of passes over all documents."""
        return self.max_iter or (MOST_PASSES if self.online else MOST_SWEEPS)


GIBBS, ONLINE = "gibbs", "online_vb"
OF_GIBBS, OF_ONLINE = with_option("algorithm", GIBBS), with_option("algorithm", ONLINE)
MOST_SWEEPS, MOST_PASSES = 200, 10
OPTIONS = OptionTable(
    TopicOptions,
    (
        Option(
            "algorithm",
            choice(GIBBS, ONLINE),
            GIBBS,
            "`gibbs`: collapsed Gibbs sampling; `online_vb`: online variational Bayes, batch by "
            "batch",
        ),
        Option("topics", integer(1, MOST_TOPICS), 20, "the number of topics"),
        Option(
            "alpha",
            real(0, MOST, open_low=True),
            0.1,
            "the Dirichlet parameter of a document's topics: the smaller, the fewer topics",
        ),
        Option(
            "beta",
            real(0, MOST, open_low=True),
            0.01,
            "the Dirichlet parameter of a topic's words: the smaller, the fewer words",
        ),
        Option(
            "max_iter",
            integer(1, 2**31 - 1),
            None,
            f"how often all tokens are read; by default {MOST_SWEEPS} sweeps of `gibbs` and "
            f"{MOST_PASSES} passes of `online_vb`",
        ),
        Option(
            "optimize_interval",
            integer(0, 2**31 - 1),
            0,
            "the sweeps after which alpha is optimised each time, a number per topic; 0: never",
            OF_GIBBS,
        ),
        Option(
            "batch_size",
            integer(1, 1_000_000),
            256,
            "the documents of a step",
            OF_ONLINE,
        ),
        Option(
            "learning_offset",
            real(0, MOST),
            10.0,
            "step t has the size (`learning_offset` + t)^-`learning_decay`",
            OF_ONLINE,
        ),
        Option(
            "learning_decay",
            real(0, 1),
            0.7,
            "the speed at which steps shrink; above 0.5 they converge",
            OF_ONLINE,
        ),
        Option(
            "min_count",
            integer(1, 2**53),
            1,
            "the documents in which a word must occur to stay",
            of_features(WORDS),
        ),
        Option(
            "max_categories",
            integer(1, 2**31 - 1),
            None,
            "the number of words that stay, those of the most documents",
            of_features(WORDS),
        ),
        Option(
            "stop_words",
            NAMES,
            None,
            "words that are left out",
            of_features(WORDS),
        ),
        *("time", "threads", "seed", "format"),
    ),
    features=frozenset((WORDS, SPARSE)),
)
"""Alpha and beta are those of tomotopy; offset and decay are those of scikit-learn."""
