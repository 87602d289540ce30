"""Losses, gradients and curvatures of the kernels on rows of every storage, by plain formulas."""

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rows import block, rows_pass, together

from tuskml.kernels import library, passes
from tuskml.kernels.instruction_sets import instruction_sets
from tuskml.kernels.structures import KERNELS

pytestmark = pytest.mark.native

LOSSES = [
    pytest.param("linear", 0.0, id="squared"),
    pytest.param("logistic", 0.0, id="logistic"),
    pytest.param("svm", 0.0, id="hinge"),
    pytest.param("svm", 0.5, id="hinge-smoothed"),
    pytest.param("svm", 1e-3, id="hinge-nearly-sharp"),
]
WEIGHTS = [None, (0.25, 3.0)]
D = 5


def formulas(task, m, y, g=0.0):
    """Loss, derivative and curvature by the definitions in losses.hpp; exact in long doubles.

    Long doubles reach exp(11000), so these need none of the kernels' care with large margins.
    """
    m, y = np.asarray(m, np.longdouble), np.asarray(y, np.longdouble)
    if task == "linear":
        return (m - y) ** 2 / 2, m - y, np.ones_like(m)
    if task == "logistic":
        e = np.exp(-y * m)
        return np.log1p(e), -y * e / (1 + e), e / (1 + e) ** 2
    z = 1 - y * m
    if g == 0:
        return np.maximum(z, 0), np.where(z > 0, -y, 0), np.zeros_like(m)
    corner, beyond = (z > 0) & (z < g), z >= g
    loss = np.where(beyond, z - g / 2, np.where(corner, z**2 / (2 * g), 0))
    return loss, -y * np.where(beyond, 1, np.where(corner, z / g, 0)), corner / np.longdouble(g)


def signed(task, y):
    """Labels as the losses see them: numbers, or -1 and +1."""
    return y if task == "linear" else np.where(y == 1, 1.0, -1.0)


def example_weights(task, y, class_weight):
    """The weight of each row's loss."""
    if class_weight is None or task == "linear":
        return np.ones(len(y))
    return np.where(y == 1, class_weight[1], class_weight[0])


def data(task, n=203, seed=1):
    """Rows x (n, D) with zeros among them, exact as floats, labels, and weights (D + 1,)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.7)
    y = rng.normal(size=n) if task == "linear" else (rng.random(n) < 0.4).astype(float)
    return x.astype(np.float32).astype(float), y, rng.normal(size=D + 1)


def far_from_corners(x, y, w, g):
    """The rows whose hinge has no corner near w, where derivatives are numeric."""
    z = 1 - signed("svm", y) * (x @ w[:-1] + w[-1])
    kept = (np.abs(z) > 0.02) & (np.abs(z - g) > 0.02)
    return x[kept], y[kept]


def five_point(f, h):
    """The derivative at 0 of a function of a number, with error O(h^4)."""
    return (f(-2 * h) - 8 * f(-h) + 8 * f(h) - f(2 * h)) / (12 * h)


def expected_sums(task, x, y, w, class_weight, g):
    """Loss, gradient (D + 1,) and curvature (D + 1, D + 1), summed over rows in long doubles."""
    z = np.column_stack([x, np.ones(len(x))]).astype(np.longdouble)
    c = example_weights(task, y, class_weight)
    loss, slope, bend = formulas(task, z @ w.astype(np.longdouble), signed(task, y), g)
    return (c * loss).sum(), z.T @ (c * slope), (z.T * (c * bend)) @ z


def unpacked(packed):
    """A symmetric matrix from its lower triangle, row by row."""
    p = int(np.sqrt(2 * len(packed)))
    lower = np.zeros((p, p))
    lower[np.tril_indices(p)] = packed
    return lower + np.tril(lower, -1).T


def plain(n_groups=1, d=D):
    """Shift and scale of z = x."""
    return np.zeros((n_groups, d)), np.ones((n_groups, d))


def in_z(sums, shift, scale):
    """The gradient with respect to the weights of z = (x - shift) * scale."""
    gradient = sums[2 : D + 3].copy()
    gradient[:-1] = (gradient[:-1] - shift * gradient[-1]) * scale
    return gradient


@pytest.mark.parametrize("y", [1.0, 0.0])
@pytest.mark.parametrize(("task", "g"), LOSSES)
def test_values_over_all_margins(task, g, y):
    """One row a group, its weight the margin: nothing overflows, cancels or turns to NaN."""
    steps = np.concatenate([np.arange(-800, 801), np.linspace(-2, 2, 401), 10.0 ** -np.arange(20)])
    groups = together([block(np.ones((1, 1)), np.array([y]))] * len(steps))
    rows = rows_pass(groups, task, smoothing=g)
    weights = np.column_stack([steps, np.zeros_like(steps)])
    sums = rows.curvature(weights, *plain(len(steps), 1), precise=True)
    expected = formulas(task, steps, signed(task, np.array([y])), g)
    for got, want in zip((sums[:, 0], sums[:, 3], sums[:, 4]), expected, strict=True):
        np.testing.assert_allclose(got, want.astype(float), rtol=1e-13, atol=1e-300)
    np.testing.assert_array_equal(sums[:, 1], 1)


@pytest.mark.parametrize("kind", passes.KINDS)
@pytest.mark.parametrize(("task", "g"), LOSSES)
def test_every_row_of_a_block_gets_its_own_derivative(task, g, kind):
    """With unit vectors as rows, feature i's gradient is row i's derivative."""
    margins = np.linspace(-3, 3, 71)
    y = np.tile([1.0, 0.0], 36)[:71]
    rows = rows_pass(block(np.eye(71), y, kind), task, smoothing=g)
    sums = rows.gradient(np.append(margins, 0.0)[None])[0]
    loss, slope, _ = formulas(task, margins, signed(task, y), g)
    np.testing.assert_allclose(sums[2:-1], slope.astype(float), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(sums[0], float(loss.sum()), rtol=1e-13)


@pytest.mark.parametrize("kind", passes.KINDS)
@pytest.mark.parametrize("class_weight", WEIGHTS)
@pytest.mark.parametrize(("task", "g"), LOSSES)
def test_sums_are_those_of_the_formulas(task, g, class_weight, kind):
    x, y, w = data(task)
    rows = rows_pass(block(x, y, kind), task, class_weight, g)
    loss, gradient, curvature = expected_sums(task, x, y, w, class_weight, g)
    for sums in (rows.gradient(w[None])[0], rows.curvature(w[None], *plain(), precise=True)[0]):
        np.testing.assert_allclose(sums[0], float(loss), rtol=1e-13)
        assert sums[1] == len(x)
        np.testing.assert_allclose(sums[2 : D + 3], gradient.astype(float), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(
        unpacked(sums[D + 3 :]), curvature.astype(float), rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("kind", passes.KINDS)
@pytest.mark.parametrize("class_weight", WEIGHTS)
@pytest.mark.parametrize(("task", "g"), LOSSES)
def test_gradient_is_the_numeric_derivative_of_the_loss(task, g, class_weight, kind):
    x, y, w = data(task)
    if task == "svm":
        x, y = far_from_corners(x, y, w, g)
    rows = rows_pass(block(x, y, kind), task, class_weight, g)
    along = np.eye(D + 1)
    numeric = [
        five_point(lambda h, e=e: rows.gradient((w + h * e)[None])[0, 0], 1e-3) for e in along
    ]
    got = rows.gradient(w[None])[0, 2:]
    np.testing.assert_allclose(got, numeric, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", passes.KINDS)
@pytest.mark.parametrize("class_weight", WEIGHTS)
@pytest.mark.parametrize(("task", "g"), LOSSES)
def test_curvature_is_the_numeric_derivative_of_the_gradient(task, g, class_weight, kind):
    """In shifted and scaled coordinates; sparse rows are never shifted."""
    x, y, w = data(task)
    if task == "svm":
        x, y = far_from_corners(x, y, w, g)
    shift, scale = np.array([0.3, -1.0, 0.0, 2.0, 0.5]), np.array([2.0, 1.0, 0.5, 0.1, 1.5])
    if kind.startswith("sparse"):
        shift = np.zeros(D)
    rows = rows_pass(block(x, y, kind), task, class_weight, g)

    def gradient(v):
        coef = v[:-1] * scale
        weights = np.append(coef, v[-1] - coef @ shift)
        return in_z(rows.gradient(weights[None])[0], shift, scale)

    v = np.append(w[:-1] / scale, w[-1] + w[:-1] @ shift)
    numeric = [five_point(lambda h, e=e: gradient(v + h * e), 1e-3) for e in np.eye(D + 1)]
    sums = rows.curvature(w[None], shift[None], scale[None], precise=True)[0]
    np.testing.assert_allclose(unpacked(sums[D + 3 :]), numeric, rtol=1e-8, atol=1e-7)


@pytest.mark.parametrize("kind", passes.KINDS)
@pytest.mark.parametrize(("task", "g"), LOSSES)
def test_curvature_brings_the_gradient_of_gradient(task, g, kind):
    """With imprecise products of floats too: only the curvature may be less exact."""
    x, y, w = data(task)
    rows = rows_pass(block(x, y, kind), task, (0.25, 3.0), g)
    alone = rows.gradient(w[None])[0]
    exact = rows.curvature(w[None], *plain(), precise=True)[0]
    fast = rows.curvature(w[None], *plain(), precise=False)[0]
    for sums in (exact, fast):
        np.testing.assert_allclose(sums[: D + 3], alone, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fast[D + 3 :], exact[D + 3 :], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", passes.KINDS)
@pytest.mark.parametrize(("task", "g"), LOSSES)
def test_losses_alone_are_those_of_the_whole_pass(task, g, kind):
    x, y, w = data(task)
    rows = rows_pass(block(x, y, kind), task, (0.25, 3.0), g)
    alone = replace(rows, loss_only=True).gradient(w[None])[0, :2]
    np.testing.assert_allclose(alone, rows.gradient(w[None])[0, :2], rtol=1e-13)


@pytest.mark.parametrize("storage", ["dense", "sparse"])
@pytest.mark.parametrize(("task", "g"), LOSSES)
def test_floats_and_doubles_of_the_same_numbers_agree(task, g, storage):
    x, y, w = data(task)
    narrow, wide = (
        rows_pass(block(x, y, f"{storage} {t}"), task, (0.25, 3.0), g).gradient(w[None])
        for t in ("float32", "float64")
    )
    np.testing.assert_allclose(narrow, wide, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("value", ["float32", "float64"])
@pytest.mark.parametrize(("task", "g"), LOSSES)
def test_sparse_rows_say_what_dense_ones_say(task, g, value):
    """Ids in any order, rows without entries, and repeated ids, which add up."""
    x, y, w = data(task)
    rng = np.random.default_rng(3)
    x = np.round(x * 16) / 16  # so that halves add up exactly
    x[::9] = 0
    entries = []
    for row in x:
        ids = rng.permutation(np.flatnonzero(row))
        entries.append(
            (np.concatenate([ids, ids]), np.concatenate([row[ids] / 4, row[ids] * 0.75]))
        )
    rows = [
        rows_pass(groups, task, (0.25, 3.0), g)
        for groups in (
            block(x, y, f"dense {value}"),
            block(x, y, f"sparse {value}"),
            block(entries, y, f"sparse {value}", dim=D),
        )
    ]
    dense, *sparse = (
        (r.gradient(w[None]), r.curvature(w[None], *plain(), precise=True)) for r in rows
    )
    for gradient, curvature in sparse:
        np.testing.assert_allclose(gradient, dense[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(curvature, dense[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", passes.KINDS)
@pytest.mark.parametrize("d", [1, 2, 7, 8, 9, 28, 65, 300])
def test_widths(kind, d):
    """Around the eight lanes of a register, and beyond the stack's room."""
    rng = np.random.default_rng(d)
    x = rng.normal(size=(131, d)).astype(np.float32).astype(float)
    y, w = (rng.random(131) < 0.5).astype(float), rng.normal(size=d + 1) / np.sqrt(d)
    rows = rows_pass(block(x, y, kind, 50), "logistic")
    loss, gradient, curvature = expected_sums("logistic", x, y, w, None, 0.0)
    sums = rows.curvature(w[None], *plain(1, d), precise=True)[0]
    np.testing.assert_allclose(sums[0], float(loss), rtol=1e-13)
    np.testing.assert_allclose(sums[2 : d + 3], gradient.astype(float), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(
        unpacked(sums[d + 3 :]), curvature.astype(float), rtol=1e-10, atol=1e-11
    )
    np.testing.assert_allclose(rows.gradient(w[None])[0], sums[: d + 3], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", passes.KINDS)
@pytest.mark.parametrize("segment_rows", [1, 7, 64, 1000, 20_000])
def test_segments_and_threads_change_nothing(kind, segment_rows):
    """However rows are cut into segments; threads do not even change the rounding."""
    x, y, w = data("logistic", n=20_011 if segment_rows > 7 else 701)
    expected = expected_sums("logistic", x, y, w, None, 0.0)
    groups = block(x, y, kind, segment_rows)
    first = None
    for threads in (1, 2, 4):
        rows = rows_pass(groups, "logistic", threads=threads)
        sums = rows.curvature(w[None], *plain(), precise=True)[0]
        gradient = rows.gradient(w[None])[0]
        first = first or (sums.tobytes(), gradient.tobytes())
        assert (sums.tobytes(), gradient.tobytes()) == first
    np.testing.assert_allclose(gradient[0], float(expected[0]), rtol=1e-12)
    np.testing.assert_allclose(gradient[2:], expected[1].astype(float), rtol=1e-10)


def test_groups_of_a_batch_do_not_mix():
    """Each group gets, to the bit, what it gets alone."""
    rng = np.random.default_rng(0)
    parts = [data("logistic", n, seed) for seed, n in enumerate([1, 300, 7, 64, 9000, 2])]
    weights = rng.normal(size=(len(parts), D + 1))
    blocks = [block(x, y, "dense float32", 64) for x, y, _ in parts]
    batch = rows_pass(together(blocks), "logistic", threads=2).gradient(weights)
    for alone, w, sums in zip(blocks, weights, batch, strict=True):
        assert rows_pass(alone, "logistic").gradient(w[None])[0].tobytes() == sums.tobytes()


def test_smoothing_stays_below_the_hinge_by_half_of_it():
    margins = np.linspace(-3, 3, 601)
    groups = together([block(np.ones((1, 1)), np.ones(1))] * len(margins))
    weights = np.column_stack([margins, np.zeros_like(margins)])
    sharp, smooth = (
        rows_pass(groups, "svm", smoothing=g).gradient(weights)[:, 0] for g in (0.0, 0.2)
    )
    assert (smooth <= sharp + 1e-15).all()
    assert (sharp - smooth).max() == pytest.approx(0.1, rel=1e-12)


def builds():
    """Every build of the kernels that is there and that this processor runs."""
    folder = Path(library.__file__).parent
    names = [f"_native{suffix}.so" for suffix in instruction_sets()]
    return [name for name in names if (folder / name).exists()]


@pytest.mark.parametrize("name", builds()[1:])
@pytest.mark.parametrize("kind", passes.KINDS)
@pytest.mark.parametrize(("task", "g"), LOSSES)
def test_builds_agree(task, g, kind, name, monkeypatch):
    """The best build and each of the others, to rounding: sums, curvatures, epochs.

    Weights are of single precision in sparse epochs.
    """
    x, y, w = data(task, n=1003)
    rows = rows_pass(block(x, y, kind, 100), task, (0.25, 3.0), g)
    epoch = passes.Epoch(1, 1, 0.0, 0.0, 0.01, np.array([0.01]), *plain(), np.ones((1, D)))

    def everything():
        v = np.zeros((1, D + 1))
        mean = np.zeros_like(v)
        loss = rows.sgd(epoch, v, mean, shared=False)
        curvature = rows.curvature(w[None], *plain(), precise=True)
        exact = [rows.gradient(w[None]), curvature, rows.labels()["mean"]]
        return exact, [v, mean, loss]

    best = everything()
    other = ctypes.CDLL(str(Path(library.__file__).parent / name))
    KERNELS.declare(other)
    monkeypatch.setattr(passes, "library", lambda: other)
    roundings = (1e-11, 1e-6 if rows.sparse else 1e-11)
    for part, wanted, rounding in zip(everything(), best, roundings, strict=True):
        for got, want in zip(part, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=rounding, atol=rounding)
