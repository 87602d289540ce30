"""Early stopping of a stored model: held-out rows, and the weights that did best on them.

Weights may be larger than memory, so the best ones are a checkpoint of the working store: links to
LevelDB's files, beside which only what changed since is written.
"""

import math
from dataclasses import dataclass, field

from tuskml.kernels.stored.training import Model, Training
from tuskml.learners.validation import PATIENCE

LEAST_GAIN = 1e-6
"""Of the best loss so far, by which another one is lower."""


@dataclass
class HeldOut:
    """The held-out rows of one group, in chunks of the same store.

    training: of these rows, with the frames of the other rows' training; best: their lowest mean
    loss so far, without penalties; since: epochs without a gain.
    """

    training: Training
    n_rows: int
    best: float = math.inf
    since: int = 0
    passes: int = field(default=0, init=False)

    @property
    def stopped(self) -> bool:
        """Whether the training ends, at the weights that did best."""
        return self.since >= PATIENCE

    def improves(self, model: Model) -> bool:
        """Whether a model's loss is the lowest so far."""
        loss = self.training.loss(model).loss / self.n_rows
        self.passes += 1
        better = loss < self.best * (1 - LEAST_GAIN)
        self.since = 0 if better else self.since + 1
        self.best = loss if better else self.best
        return better
