"""Newton's systems by NumPy's linear algebra: any size, with columns that depend on others."""

import numpy as np
import pytest

from tuskml.kernels.passes import solve

pytestmark = pytest.mark.native


def packed(h):
    """Lower triangles (G, p(p+1)/2) of symmetric matrices (G, p, p)."""
    return np.ascontiguousarray(h[:, *np.tril_indices(h.shape[1])])


@pytest.mark.parametrize("p", [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 63, 64, 65, 130])
def test_sizes(p):
    """Below, at and above whole blocks and vectors."""
    rng = np.random.default_rng(p)
    x = rng.normal(size=(5, p + 9, p))
    h, g = x.transpose(0, 2, 1) @ x, rng.normal(size=(5, p))
    found = solve(packed(h), g, 2, inverse=True)
    np.testing.assert_allclose(found.step, np.linalg.solve(h, g[..., None])[..., 0], rtol=1e-8)
    inverse = np.diagonal(np.linalg.inv(h), axis1=1, axis2=2)
    np.testing.assert_allclose(found.inverse_diagonal, inverse, rtol=1e-9)
    assert (found.rank == p).all()


@pytest.mark.parametrize("p", [6, 12, 40])
def test_dependent_columns_are_left_out(p):
    """The system of the others is solved exactly, and those left out get no step."""
    rng = np.random.default_rng(p)
    x = rng.normal(size=(3 * p, p))
    x[:, p - 2] = x[:, 0] - 2 * x[:, 1]
    x[:, 3] = 0
    h, g = (x.T @ x)[None], rng.normal(size=(1, p))
    found = solve(packed(h), g, 1, inverse=True)
    kept = np.setdiff1d(np.arange(p), [3, p - 2])
    some = h[0][np.ix_(kept, kept)]
    np.testing.assert_allclose(found.step[0, kept], np.linalg.solve(some, g[0, kept]), rtol=1e-8)
    np.testing.assert_allclose(
        found.inverse_diagonal[0, kept], np.diagonal(np.linalg.inv(some)), rtol=1e-8
    )
    assert found.rank[0] == p - 2
    assert (found.step[0, [3, p - 2]] == 0).all()
    assert np.isnan(found.inverse_diagonal[0, [3, p - 2]]).all()
