"""Methods on a quadratic model, and its spectrum, against NumPy and what theory promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuskml.kernels.speculated import Method, lanczos, speculate, speculate_apart


def quadrature(triangle, gradient, steps, scale=None):
    return lanczos(triangle, gradient, steps, scale).quadrature()


def packed(full):
    return full[np.tril_indices(len(full))]


def definite(seed, p):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((3 * p, p))
    return z.T @ z / (3 * p), rng.standard_normal(p)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 60))
def test_all_steps_give_numpys_eigenvalues(seed, p):
    full, gradient = definite(seed, p)
    values, along = quadrature(packed(full), gradient, p)
    expected, vectors = np.linalg.eigh(full)
    assert np.allclose(values, expected, atol=1e-10)
    assert np.allclose(np.abs(along), np.abs(vectors.T @ gradient), atol=1e-7)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), p=st.integers(1, 40))
def test_a_scale_is_that_of_rows_and_columns(seed, p):
    full, gradient = definite(seed, p)
    scale = np.exp(np.random.default_rng(seed).standard_normal(p))
    values, along = quadrature(packed(full), gradient, p, scale)
    expected = np.linalg.eigvalsh(scale[:, None] * full * scale)
    assert np.allclose(values, expected, rtol=1e-8, atol=1e-9 * expected.max())
    assert along @ along == pytest.approx(np.square(scale * gradient).sum())


def test_fewer_steps_know_the_gradients_moments():
    """k steps integrate polynomials of degree 2k - 1 exactly (Golub and Meurant, theorem 6.2)."""
    full, gradient = definite(3, 80)
    values, along = quadrature(packed(full), gradient, 12)
    for power in range(24):
        exact = gradient @ np.linalg.matrix_power(full, power) @ gradient
        assert along**2 @ values**power == pytest.approx(exact, rel=1e-8)


def test_directions_that_the_gradient_lacks_are_left_out():
    values, along = quadrature(packed(np.diag([1.0, 2.0, 3.0])), np.array([1.0, 0.0, 2.0]), 3)
    assert np.allclose(values, [1, 3])
    assert np.allclose(np.abs(along), [1, 2])
    assert not len(quadrature(packed(np.eye(3)), np.zeros(3), 3)[0])


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 20))
def test_conjugate_gradients_end_after_as_many_steps_as_eigenvalues(seed, k):
    rng = np.random.default_rng(seed)
    values, gradient = rng.uniform(0.5, 2, k), rng.standard_normal(k)
    errors = speculate_apart(Method.CONJUGATE_GRADIENTS, values, gradient, 1.0, 1e-6, 100)
    assert len(errors) <= k + 1
    assert errors[-1] <= 1e-6
    assert errors[0] == pytest.approx(np.linalg.norm(gradient))


@pytest.mark.parametrize("method", [Method.QUASI_NEWTON, Method.SPECTRAL_STEPS])
def test_ill_conditioned_models_take_longer(method):
    taken = []
    for condition in (1.5, 30, 1000):
        values = np.geomspace(1 / condition, 1, 40)
        errors = speculate_apart(method, values, values**0.5, 0.1, 1e-6, 5000)
        assert errors[-1] <= 1e-6
        taken.append(len(errors))
    assert taken == sorted(taken)
    assert taken[-1] > 5 * taken[0]


@pytest.mark.parametrize("method", list(Method))
def test_no_more_errors_than_asked_for(method):
    values = np.geomspace(1e-6, 1, 50)
    assert len(speculate_apart(method, values, values, 0.1, 1e-12, 7)) == 7
    assert len(speculate_apart(method, values, values, 0.1, 1e9, 7)) == 1


def descended(full, gradient, tolerance):
    """L-BFGS by NumPy on f(v) = g.v + v'Hv / 2: the largest component of each gradient."""
    moves, changes, seen = [], [], []
    while True:
        seen.append(np.abs(gradient).max())
        if seen[-1] <= tolerance:
            return seen
        direction, alphas = gradient.copy(), []
        for s, y in zip(moves[::-1], changes[::-1], strict=True):
            alphas.append(s @ direction / (s @ y))
            direction -= alphas[-1] * y
        if moves:
            direction *= moves[-1] @ changes[-1] / (changes[-1] @ changes[-1])
        for s, y, alpha in zip(moves, changes, alphas[::-1], strict=True):
            direction += s * (alpha - y @ direction / (s @ y))
        slope, bent = -direction @ gradient, direction @ full @ direction
        by = 1.0 if moves else 0.1
        while by * slope + by**2 * bent / 2 > 1e-4 * by * slope:
            by *= np.clip(-slope / (by * bent), 0.02, 0.5)
        step = -by * direction
        moves, changes = [*moves, step][-10:], [*changes, full @ step][-10:]
        gradient = gradient + full @ step


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), p=st.integers(2, 30))
def test_a_run_has_the_largest_components_of_one_by_weights(seed, p):
    full, gradient = definite(seed, p)
    expected = descended(full, gradient, 1e-4)
    model = lanczos(packed(full), gradient, p)
    norms, largest = speculate(Method.QUASI_NEWTON, model, 0.1, 1e-4, 200)
    assert np.allclose(largest[:10], expected[:10], rtol=1e-6, atol=1e-9)
    # Later iterations magnify the last digits, which differ between the two.
    assert abs(len(largest) - len(expected)) <= max(1, len(expected) // 5)
    assert np.all(largest <= norms * (1 + 1e-9))
    assert np.all(norms <= largest * np.sqrt(p) * (1 + 1e-9))


def test_the_largest_component_is_not_the_norm():
    """Of a gradient that is spread over many weights at first, and of one at the end."""
    values = np.array([1.0] * 99 + [0.01])
    model = lanczos(packed(np.diag(values)), np.ones(100), 100)
    norms, largest = speculate(Method.SPECTRAL_STEPS, model, 1.0, 1e-3, 100)
    assert largest[0] == pytest.approx(norms[0] / 10)
    assert largest[1] == pytest.approx(norms[1])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(3, 12))
def test_fewer_steps_tell_as_many_iterations(seed, k):
    """k steps of Lanczos' method span what k - 1 iterations of a method can reach."""
    full, gradient = definite(seed, 40)
    whole = lanczos(packed(full), gradient, 40)
    part = lanczos(packed(full), gradient, k)
    for method in Method:
        exact = speculate(method, whole, 0.1, 1e-12, k)[1]
        assert np.allclose(speculate(method, part, 0.1, 1e-12, k)[1], exact, rtol=1e-6)
