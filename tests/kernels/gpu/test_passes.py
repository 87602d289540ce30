"""Passes on a device give what the CPU's kernels and NumPy give, whatever the rows' shape."""

import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import block, rows_pass, together
from standin import StandIn

from tuskml.kernels.gpu.passes import on_device
from tuskml.learners.linear.tasks import LINEAR

ROUNDING = 1e-12
"""Relative to the sum of what is added up."""


def groups_of(sizes, d, kind="dense float32", task="logistic", seed=0, segment_rows=70):
    """Random groups: their records, and each one's rows and labels."""
    rng = np.random.default_rng(seed)
    dtype = np.float32 if kind.endswith("32") else np.float64
    data = []
    for n in sizes:
        x = (rng.normal(size=(n, d)) * rng.choice([0.1, 1, 10], d) + 1).astype(dtype)
        y = rng.normal(size=n) if task == "linear" else (rng.random(n) < 0.4).astype(float)
        data.append((x, y))
    return together([block(x, y, kind, segment_rows) for x, y in data]), data


def weights_of(n_groups, d, seed=1):
    return np.random.default_rng(seed).normal(size=(n_groups, d + 1)) / (3 * np.sqrt(d))


def close(found, expected, size):
    """Whether sums differ by rounding alone; size: of the sums of absolute terms."""
    assert np.all(np.isfinite(found))
    assert np.max(np.abs(found - expected)) <= ROUNDING * size


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_losses(device, task, smoothing):
    groups, data = groups_of((200, 31), 5, task=task)
    weight = None if task == "linear" else (0.5, 3.0)
    cpu = rows_pass(groups, task, class_weight=weight, smoothing=smoothing)
    w = weights_of(2, 5)
    found = on_device(cpu, device).gradient(w)
    smooth = smoothing if task == "svm" else 0.0
    for g, (x, y) in enumerate(data):
        expected = oracle.sums(task, x, y, w[g], smoothing=smooth, class_weight=weight)
        close(found[g], expected, 1e4)
    close(found, cpu.gradient(w), 1e4)


@pytest.mark.parametrize(
    ("d", "kind"),
    [
        (1, "dense float32"),
        (28, "dense float32"),  # a lane a row, 16 bytes at a time
        (29, "dense float32"),  # rows are no multiples of 16 bytes
        (28, "dense float64"),
        (64, "dense float32"),  # four lanes a row, padded against bank conflicts
        (100, "dense float64"),
        (256, "dense float32"),
        (1021, "dense float32"),  # 32 lanes, value by value
        (1024, "dense float32"),
        (1500, "dense float64"),  # too wide to be fused
    ],
)
def test_shapes(device, d, kind):
    """A group of several chunks, one of a single row, one that ends within a tile."""
    sizes = (1100, 1, 77) if d <= 100 else (90, 1, 35)
    groups, data = groups_of(sizes, d, kind)
    cpu = rows_pass(groups, "logistic")
    w = weights_of(3, d)
    found = on_device(cpu, device).gradient(w)
    for g, (x, y) in enumerate(data):
        close(found[g], oracle.sums("logistic", x, y, w[g]), np.abs(x).sum() + len(y))


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("d", [28, 40])
def test_threads_may_run_in_any_order(order, d):
    """A missing barrier would show in one of these orders; the bits are the same in all."""
    groups, _ = groups_of((700, 40), d)
    cpu = rows_pass(groups, "logistic")
    w, shift = weights_of(2, d), np.full((2, d), 0.5)
    here, first = on_device(cpu, StandIn(order)), on_device(cpu, StandIn(0))
    assert np.array_equal(here.gradient(w), first.gradient(w))
    precise = (w, shift, shift + 1, True)
    assert np.array_equal(here.curvature(*precise), first.curvature(*precise))


@pytest.mark.parametrize(("d", "kind"), [(1001, "dense float32"), (1001, "dense float64")])
def test_devices_of_little_shared_memory_read_rows_twice(d, kind):
    """Of compute capability 8.6 and 8.9: some widths' tiles do not fit into their 99 KiB."""
    groups, _ = groups_of((300, 290), d, kind)
    cpu, w = rows_pass(groups, "logistic"), weights_of(2, d)
    for shared, kernel in ((227 << 10, "gradient"), (99 << 10, "wide_columns")):
        device = StandIn(shared_bytes=shared)
        close(on_device(cpu, device).gradient(w), cpu.gradient(w), 1e6)
        assert kernel in {name for name, _ in device.launches}


def test_losses_alone(device):
    groups, _ = groups_of((300, 20), 28)
    cpu = rows_pass(groups, "logistic")
    w = weights_of(2, 28)
    alone = type(cpu)(**{**vars(cpu), "loss_only": True})
    found = on_device(alone, device).gradient(w)
    assert found.shape == (2, 2)
    close(found, cpu.gradient(w)[:, :2], 1e4)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("d", "kind", "precise", "tolerance"),
    [
        (1, "dense float32", True, 1e-12),
        (16, "dense float32", False, 1e-5),
        (16, "dense float32", True, 1e-12),
        (28, "dense float64", False, 1e-12),
        (64, "dense float32", True, 1e-12),
        (64, "dense float32", False, 1e-5),
        (80, "dense float32", True, 1e-12),  # by cuBLAS
        (80, "dense float32", False, 1e-5),
    ],
)
def test_curvature(device, d, kind, precise, tolerance):
    groups, data = groups_of((150, 1, 1100), d, kind)
    cpu = rows_pass(groups, "logistic", class_weight=(2.0, 1.0))
    w = weights_of(3, d)
    rng = np.random.default_rng(3)
    shift, scale = rng.normal(size=(3, d)), 0.1 + rng.random((3, d))
    found = on_device(cpu, device).curvature(w, shift, scale, precise)
    close(found[:, : d + 3], cpu.gradient(w), 1e6)
    for g, (x, y) in enumerate(data):
        expected = oracle.curvature(
            "logistic", x, y, w[g], shift[g], scale[g], class_weight=(2.0, 1.0)
        )
        assert np.allclose(found[g, d + 3 :], expected, rtol=0, atol=tolerance * expected.max())


def test_some_of_the_groups(device):
    groups, _ = groups_of((40, 300, 3, 90), 5)
    cpu = rows_pass(groups, "logistic")
    w, which = weights_of(4, 5), np.array([1, 3])
    placed = on_device(cpu, device).of(which)
    close(placed.gradient(w[which]), cpu.gradient(w)[which], 1e4)
    again = placed.of(np.array([1]))
    close(again.gradient(w[3:]), cpu.gradient(w)[3:], 1e4)


def test_rows_that_are_not_there_are_the_cpus(device):
    """Held-out rows take the groups' place in a pass: the device must not answer for its own."""
    groups, _ = groups_of((40, 30), 5)
    others, _ = groups_of((20, 10), 5, seed=9)
    cpu = rows_pass(groups, "logistic")
    placed = on_device(cpu, device)
    held = type(placed)(**{**vars(placed), "groups": others})
    w = weights_of(2, 5)
    assert np.array_equal(held.gradient(w), rows_pass(others, "logistic").gradient(w))
    head = placed.head(7)
    assert np.array_equal(head.gradient(w), cpu.head(7).gradient(w))


def test_a_sample_of_the_rows(device):
    """Every k-th chunk: whole chunks of neighbours, the first among them."""
    groups, data = groups_of((5000,), 3, segment_rows=900)
    placed = on_device(rows_pass(groups, "linear", stride=3), device)
    x, y = data[0]
    taken = np.arange(5000) // 1024 % 3 == 0
    w = weights_of(1, 3)
    close(placed.gradient(w)[0], oracle.sums("linear", x[taken], y[taken], w[0]), 1e5)


def test_rows_beyond_the_device_s_memory_come_in_parts():
    """The same sums, whatever fits; each pass copies all parts, a buffer ahead."""
    groups, data = groups_of((900, 5, 700, 1), 6)
    cpu = rows_pass(groups, "logistic")
    w, shift = weights_of(4, 6), np.zeros((4, 6))
    device = StandIn(order=1)
    placed = on_device(cpu, device, budget=600 * 32)
    rows = placed.on_device
    assert not rows.resident
    parts = -(-int(rows.start[-1]) // rows.part_rows)
    assert parts > 3
    for passes in (1, 2, 3):
        found = placed.gradient(w)
        assert rows.uploads == parts * passes
    for g, (x, y) in enumerate(data):
        close(found[g], oracle.sums("logistic", x, y, w[g]), 1e4)
    whole = on_device(cpu, StandIn()).curvature(w, shift, shift + 1, True)
    close(placed.curvature(w, shift, shift + 1, True), whole, 1e4)
    close(placed.of(np.array([2])).gradient(w[2:3]), cpu.gradient(w)[2:3], 1e4)


@pytest.mark.parametrize("order", [0, 1])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.lists(st.integers(1, 150), min_size=1, max_size=6),
    seed=st.integers(0, 2**16),
    task=st.sampled_from(["linear", "logistic", "svm"]),
    room=st.sampled_from([None, 3000, 9000]),
    segment_rows=st.integers(1, 200),
)
def test_any_groups(order, sizes, seed, task, room, segment_rows):
    groups, _ = groups_of(sizes, 5, task=task, seed=seed, segment_rows=segment_rows)
    cpu = rows_pass(groups, task)
    w = weights_of(len(sizes), 5, seed)
    found = on_device(cpu, StandIn(order), budget=room).gradient(w)
    close(found, cpu.gradient(w), 1e5)


def test_tasks_and_losses_have_the_kernels_numbers():
    assert [LINEAR[name].loss for name in ("linear", "logistic", "svm")] == [0, 1, 2]
