"""Rows of parts are dealt as those of one place are, however they are cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import account, block, rows_pass

from tuskml.kernels.parts.answering import answer_message
from tuskml.kernels.parts.dealing import dealing_of, dealt, holding_of
from tuskml.kernels.parts.keeping import PartRows
from tuskml.kernels.parts.sharded import ShardedPass, of_parts
from tuskml.kernels.rows.cells import deal
from tuskml.kernels.segments import chunks, labels_of

pytestmark = pytest.mark.native


class Parts:
    """Parts in this process."""

    def __init__(self, blocks):
        self.blocks, self.n_rows, self.folds = blocks, 0, None

    def ask(self, message):
        return [answer_message(PartRows(one), message, 1) for one in self.blocks]

    def ask_some(self, messages):
        return [answer_message(PartRows(self.blocks[at]), one, 1) for at, one in messages.items()]

    def keep(self, places):
        self.blocks = [self.blocks[place] for place in places]


def rows_in(group):
    """Each row with its label and weight, sorted."""
    found = [row for _, part, _ in chunks(group) for row in np.asarray(part).tolist()]
    numbers = [
        pair
        for y, w in labels_of(group)
        for pair in zip(y, np.ones(len(y)) if w is None else w, strict=True)
    ]
    return sorted((*row, *pair) for row, pair in zip(found, numbers, strict=True))


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 150),
    distinct=st.integers(1, 150),
    classes=st.integers(1, 4),
    folds=st.integers(2, 6),
    parts=st.integers(1, 5),
    weighted=st.booleans(),
    by_label=st.booleans(),
    hold=st.booleans(),
    seed=st.integers(0, 2**63),
)
def test_folds_are_those_of_one_place(
    n, distinct, classes, folds, parts, weighted, by_label, hold, seed
):
    random = np.random.default_rng(n * 1000 + distinct)
    x = np.column_stack([random.integers(0, distinct, n), random.integers(0, 2, n)]).astype(float)
    y = random.integers(0, classes, n).astype(float)
    weight = random.integers(1, 4, n).astype(float)
    own = (lambda some: {"weight": weight[some]}) if weighted else (lambda some: {})
    cut = [one for one in np.array_split(random.permutation(n), parts) if len(one)]
    told = Parts([block(x[one], y[one], **own(one)) for one in cut])
    sharded = ShardedPass(of_parts(told), 0, None, None, True, 1, parts=told)
    held = n // 3
    if hold:
        folds, how = 2, {"held": np.array([held])}
        dealing = holding_of(sharded, seed, held)
    else:
        how = {"by_label": by_label}
        dealing = dealing_of(sharded, seed, folds, by_label)
    found = [[] for _ in range(folds)]
    for rows, one in zip(told.blocks, dealing.messages, strict=True):
        with dealt(rows_pass(rows, "linear"), one, account()) as cells:
            for fold in range(folds):
                found[fold] += rows_in(cells.link([fold])[0])
    whole = block(x, y, **own(slice(None)))
    with deal(whole, folds, memory=account(), seed=seed, **how) as cells:
        expected = [rows_in(cells.link([fold])[0]) for fold in range(folds)]
    if hold:
        expected = expected[::-1]
    assert [sorted(one) for one in found] == expected
