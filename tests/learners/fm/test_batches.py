"""Which groups train in one call."""

import numpy as np

from tuskml.kernels.structures import GROUP
from tuskml.learners.fm.options import OPTIONS
from tuskml.learners.fm.training import together
from tuskml.learners.list_size import MOST_TOGETHER


def test_histories_count_as_much_as_weights() -> None:
    """A call has room for each epoch of each group, so that many epochs make fewer groups."""
    groups = np.zeros(100, GROUP)
    groups["dim"] = 3

    def sizes(epochs: int) -> list[int]:
        options = OPTIONS.parse(f'{{"max_iter": {epochs}}}', "fm")
        return [len(places) for places in together(groups, options)]

    assert sizes(10) == [100]
    many = sizes(1_000_000)
    assert sum(many) == 100
    assert max(many) * 1_000_000 <= MOST_TOGETHER + 1_000_000
