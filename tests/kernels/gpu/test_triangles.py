"""Curvatures on a device: solved as the CPU solves them, and used as an array is."""

import numpy as np
import pytest

from tuskml.kernels.gpu.passes import DeviceTriangles
from tuskml.kernels.passes import solve


def systems(n, p, seed=0, rank=None):
    """Packed positive semidefinite matrices and right sides."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(n, p, rank or 2 * p)) * rng.choice([0.1, 1, 10], (n, p, 1))
    whole = a @ a.transpose(0, 2, 1)
    below = np.tril_indices(p)
    return whole, np.ascontiguousarray(whole[:, below[0], below[1]]), rng.normal(size=(n, p))


@pytest.mark.parametrize("p", [1, 2, 17, 33, 65])
def test_solutions(device, p):
    whole, packed, gradient = systems(5, p)
    found = DeviceTriangles(device, device.to_device(packed), p).solve(gradient)
    expected = np.linalg.solve(whole, gradient[:, :, None])[:, :, 0]
    assert np.allclose(found.step, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())
    theirs = solve(packed, gradient, 1)
    assert np.allclose(found.step, theirs.step, rtol=1e-7)
    assert np.array_equal(found.rank, theirs.rank)
    assert np.allclose(found.pivot, theirs.pivot, rtol=1e-6)


def test_dependent_coordinates_are_left_out(device):
    """Coordinates 2 and 4: one repeats coordinate 0, one is constant."""
    _, packed, gradient = systems(3, 6)
    whole = np.zeros((3, 6, 6))
    below = np.tril_indices(6)
    whole[:, below[0], below[1]] = packed
    whole = whole + np.tril(whole, -1).transpose(0, 2, 1)
    for changed in (whole, whole.transpose(0, 2, 1)):
        changed[:, 2, :] = changed[:, 0, :]
        changed[:, 4, :] = 0.0
    packed = np.ascontiguousarray(whole[:, below[0], below[1]])
    found = DeviceTriangles(device, device.to_device(packed), 6).solve(gradient)
    theirs = solve(packed, gradient, 1)
    assert found.rank.tolist() == theirs.rank.tolist() == [4, 4, 4]
    assert np.all(found.step[:, [2, 4]] == 0)
    assert np.allclose(found.step, theirs.step, rtol=1e-8)


def test_it_is_used_as_an_array(device):
    _, packed, _ = systems(6, 4)
    ours = DeviceTriangles(device, device.to_device(packed), 4)
    mask, numbers = np.arange(6) % 2 == 0, np.array([5, 1])
    assert ours.shape == packed.shape
    assert np.array_equal(np.asarray(ours[mask]), packed[mask])
    copy = ours.copy()
    copy[numbers] = ours[np.array([0, 2])]
    copy[mask] = packed[mask] + 1
    expected = packed.copy()
    expected[numbers] = packed[[0, 2]]
    expected[mask] = packed[mask] + 1
    assert np.array_equal(np.asarray(copy), expected)
    assert np.array_equal(np.asarray(ours), packed)
    halved = ours / np.full((6, 1), 2.0)
    halved.add_to_diagonal(np.arange(24.0).reshape(6, 4))
    halved.clear_last_row()
    expected = packed / 2
    expected[:, [0, 2, 5, 9]] += np.arange(24.0).reshape(6, 4)
    expected[:, 6:] = 0
    assert np.allclose(np.asarray(halved), expected)
    assert ours.room(9).shape == (9, 10)
