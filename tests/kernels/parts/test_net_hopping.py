"""A net that hops over parts, against its training on the same rows in one place."""

from dataclasses import replace

import numpy as np
import pytest
from rows import block, rows_pass

from tuskml.kernels.nets.training import LOGISTIC, SOFTMAX, SQUARED, ByGroup, Rules, train_nets
from tuskml.kernels.nets.visits import (
    NetOnRows,
    compute_losses,
    initial_state,
    make_steps,
    weights_of,
)

pytestmark = pytest.mark.native
SIZES = (64, 192, 128)
"""Rows of the parts: whole batches."""
D = 5
RULES = Rules(
    loss=SQUARED, activation=0, algorithm=0, schedule=1, outputs=1, hidden=(9, 20), epochs=4,
    batch=32, patience=9, decay_every=1, learning_rate=0.01, decay=0.5, momentum=0.9,
    weight_decay=0.01, dropout=0.2, seed=7, shuffle=False, standardise=False,
)  # fmt: skip
PLAIN = np.array([*[0.0] * D, *[1.0] * D, 0.0, 1.0, 1.0])


def made(weighted):
    rng = np.random.default_rng(3)
    n = sum(SIZES)
    x, y = rng.normal(size=(n, D)), rng.integers(0, 3, n).astype(float)
    weight = rng.integers(1, 3, n).astype(float) if weighted else None
    ends = np.cumsum(SIZES)
    cut = [slice(end - size, end) for end, size in zip(ends, SIZES, strict=True)]
    own = [None if weight is None else weight[one] for one in cut]
    parts = [block(x[c], y[c], "dense float64", weight=w) for c, w in zip(cut, own, strict=True)]
    whole = block(x, y, "dense float64", segment_rows=n, weight=weight)
    factor = 1.0 if weight is None else n / weight.sum()
    return rows_pass(whole, "linear"), [rows_pass(one, "linear") for one in parts], factor


def hopped(parts, rules, given, units):
    """The state after all epochs, and the mean loss of each epoch's batches."""
    state, steps, history = initial_state(rules, units, None), 0, []
    for epoch in range(rules.epochs):
        loss = before = 0
        for place, rows in enumerate(parts):
            where = {"epoch": epoch, "part": place, "rows_before": before, "steps": steps}
            found = make_steps(NetOnRows(rows, rules, given, units), state, **where)
            loss, steps, before = loss + found.loss, found.steps, before + SIZES[place]
        history.append(loss / before)
    return state, history


@pytest.mark.parametrize("algorithm", [0, 1])
@pytest.mark.parametrize("schedule", [0, 1, 2])
@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC, SOFTMAX])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_bits_are_those_of_rows_in_one_place(loss, schedule, algorithm, weighted) -> None:
    """Moments, the number of steps, dropout and the schedule go on where the part before ended."""
    whole, parts, factor = made(weighted)
    given = ByGroup(classes=np.array([[0.0, 1.0, 2.0]]) if loss == SOFTMAX else None)
    outputs = 3 if loss == SOFTMAX else 1
    rules = replace(RULES, loss=loss, schedule=schedule, algorithm=algorithm, outputs=outputs)
    positive = np.array([2.0])
    whole, parts = (
        replace(whole, positive=positive),
        [replace(one, positive=positive) for one in parts],
    )
    expected = train_nets(whole, rules, 0, given)
    units = np.append(PLAIN[:-1], factor)
    state, history = hopped(parts, rules, given, units)
    assert weights_of(rules, units, state).tolist() == expected.weights.tolist()
    assert history == pytest.approx(expected.history[0].tolist(), rel=1e-12)
    sums = [compute_losses(NetOnRows(one, rules, given, units), state) for one in parts]
    mean = sum(one.loss for one in sums) / sum(one.weight for one in sums)
    assert mean == pytest.approx(expected.about["loss"][0], rel=1e-6)


@pytest.mark.parametrize("lost_state", [1, 2])
def test_all_of_the_state_is_needed(monkeypatch, lost_state) -> None:
    whole, parts, _ = made(False)
    expected = train_nets(whole, RULES, 0, ByGroup())

    state, steps = initial_state(RULES, PLAIN, None), 0
    for epoch in range(RULES.epochs):
        before = 0
        for place, rows in enumerate(parts):
            state[lost_state] = 0
            where = {"epoch": epoch, "part": place, "rows_before": before, "steps": steps}
            steps = make_steps(NetOnRows(rows, RULES, ByGroup(), PLAIN), state, **where).steps
            before += SIZES[place]
    assert weights_of(RULES, PLAIN, state) != pytest.approx(expected.weights, rel=1e-3)


def test_each_part_and_epoch_has_an_order_of_its_own() -> None:
    """Without shuffling a visit leaves another state."""
    _, parts, _ = made(False)
    shuffling = replace(RULES, shuffle=True)
    states = set()
    for rules, epoch, part in [(RULES, 0, 0), (shuffling, 0, 0), (shuffling, 0, 1)]:
        state = initial_state(rules, PLAIN, None)
        where = {"epoch": epoch, "part": part, "rows_before": 0, "steps": 0}
        make_steps(
            NetOnRows(parts[1], replace(rules, dropout=0.0), ByGroup(), PLAIN), state, **where
        )
        states.add(state.tobytes())
    assert len(states) == 3
