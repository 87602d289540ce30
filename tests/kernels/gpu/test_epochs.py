"""Stochastic epochs on a device make the CPU's steps: the same rows in the same order."""

import numpy as np
import pytest
from rows import rows_pass
from standin import StandIn
from test_passes import groups_of, weights_of

from tuskml.kernels.gpu import passes
from tuskml.kernels.gpu.passes import on_device
from tuskml.kernels.passes import Epoch


def epoch_of(n_groups, d, batch_size, power=1, shuffle=True, l1=0.0, l2=0.0):
    rng = np.random.default_rng(5)
    step = np.full(n_groups, 0.05)
    shift, scale = rng.normal(size=(n_groups, d)), 0.05 + rng.random((n_groups, d))
    scale[:, -1] = 0.0  # a constant feature
    return Epoch(batch_size, power, 2.0, l1, l2, step, shift, scale, None, 7, shuffle)


CASES = [  # features, kind, rows of the groups, batch, schedule, shuffled
    (5, "dense float32", (700, 1, 40), 1, 0, True),
    (28, "dense float32", (1300, 64), 32, 1, True),
    (28, "dense float64", (90, 200), 100, 2, False),
    (40, "dense float32", (600, 3), 7, 4, True),  # a warp a row
    (200, "dense float32", (150,), 64, 1, True),
]


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("case", CASES)
def test_the_same_steps(device, case, task):
    d, kind, sizes, batch_size, power, shuffle = case
    groups, _ = groups_of(sizes, d, kind, task)
    cpu = rows_pass(groups, task, class_weight=None if task == "linear" else (1.0, 2.0))
    epoch = epoch_of(len(sizes), d, batch_size, power, shuffle, 0.001, 0.01)
    start = weights_of(len(sizes), d)
    found = []
    for rows in (cpu, on_device(cpu, device)):
        v, mean = start.copy(), np.empty_like(start)
        loss = rows.sgd(epoch, v, mean, shared=False)
        found.append((v, mean, loss))
    for ours, theirs in zip(*found, strict=True):
        assert np.allclose(theirs, ours, rtol=1e-9, atol=1e-10)
    assert not np.allclose(found[1][0], start)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_variance_reduced_steps(device, fit_intercept):
    groups, _ = groups_of((300, 20), 12)
    plain = rows_pass(groups, "logistic")
    cpu = type(plain)(**{**vars(plain), "fit_intercept": fit_intercept})
    epoch, anchor = epoch_of(2, 12, 32, 0), weights_of(2, 12)
    full = 0.1 * weights_of(2, 12, 8)
    found = []
    for rows in (cpu, on_device(cpu, device)):
        v, mean = anchor + 0.01, np.empty_like(anchor)
        rows.svrg(epoch, anchor, full, v, mean)
        found.append((v, mean))
    for ours, theirs in zip(*found, strict=True):
        assert np.allclose(theirs, ours, rtol=1e-9, atol=1e-11)


def test_runs_visit_every_row_once():
    groups, _ = groups_of((1300, 5, 700), 3, segment_rows=450)
    rows = rows_pass(groups)
    offset, places, n = rows.runs(epoch_of(3, 3, 1))
    for g, size in enumerate((1300, 5, 700)):
        mine = slice(offset[g], offset[g + 1])
        visited = np.concatenate(
            [np.arange(at, at + k) for at, k in zip(places[mine], n[mine], strict=True)]
        )
        assert not np.array_equal(visited, np.arange(size)) or size == 5
        assert np.array_equal(np.sort(visited), np.arange(size))


def test_every_so_maniest_partition_is_the_cpu_s(device):
    groups, _ = groups_of((3000,), 4, segment_rows=1000)
    cpu = rows_pass(groups, "logistic", stride=2)
    epoch, start = epoch_of(1, 4, 16), weights_of(1, 4)
    found = []
    for rows in (cpu, on_device(cpu, device)):
        v = start.copy()
        found.append((rows.sgd(epoch, v, None, shared=False), v))
    assert np.allclose(found[0][0], found[1][0], rtol=1e-9)
    assert np.allclose(found[0][1], found[1][1], rtol=1e-9)


def test_epochs_of_rows_that_do_not_fit_are_the_cpu_s():
    groups, _ = groups_of((900,), 6)
    cpu = rows_pass(groups, "logistic")
    device = StandIn()
    placed = on_device(cpu, device, budget=600 * 32)
    epoch, v, w = epoch_of(1, 6, 32), weights_of(1, 6), weights_of(1, 6)
    cpu.sgd(epoch, v, None, shared=False)
    placed.sgd(epoch, w, None, shared=False)
    assert np.array_equal(v, w)
    assert device.launches == []


@pytest.mark.parametrize("anchored", [False, True])
def test_an_epoch_in_pieces_is_the_epoch(device, monkeypatch, anchored):
    """Each ends with a batch, and a cancel is looked for before the next one."""
    groups, _ = groups_of((700, 90, 333), 6)
    rows = on_device(rows_pass(groups, "logistic"), device)
    epoch, anchor = epoch_of(3, 6, 32, l2=0.01), weights_of(3, 6)
    found, launches = [], []
    real = type(device).launch

    def counted(*given):
        launches.append(1)
        real(*given)

    monkeypatch.setattr(type(device), "launch", counted)
    for values in (1 << 23, 6 * 100):
        monkeypatch.setattr(passes, "PIECE_VALUES", values)
        v, mean = anchor + 0.1, np.empty_like(anchor)
        loss = np.zeros(3)
        if anchored:
            rows.svrg(epoch, anchor, 0.1 * anchor, v, mean)
        else:
            loss = rows.sgd(epoch, v, mean, shared=False)
        found.append((v, mean))
        assert np.isfinite(loss).all()
    assert len(launches) == 1 + 7
    for whole, pieces in zip(*found, strict=True):
        assert np.array_equal(whole, pieces)
