"""Rows of groups of which trees are grown by parts, and what trees have in common."""

import pytest

import tuskml

ROWS = """
SELECT ['big', 'big', 'big', 'large', 'large', 'small'][1 + i % 6] AS g, i,
       hash(i, 1) % 1000 / 500 - 1 AS x, hash(i, 2) % 1000 / 500 - 1 AS z,
       CASE WHEN hash(i, 7) % 5 > 0 THEN hash(i, 6) % 1000003 / 1e6 END AS u,
       hash(i, 3) % 1000 / 1000 < 1 / (1 + exp(0.3 - 3 * x * z - coalesce(u, 0.5))) AS y,
       (hash(i, 4) % 2 + (x > 0.2)::INT + (z > x)::INT)::INT AS k,
       (hash(i, 5) % 3 + 2 * (x + 1) * (z + 1))::INT AS n,
       (hash(i, 8) % 7 * (1 + hash(i, 9) % 3))::INT AS level
FROM range(24000) t(i)
"""


def assert_same_trees(found: tuskml.Models, expected: tuskml.Models) -> None:
    """The same bits, but for the losses, which are added in another order."""
    assert list(found) == list(expected)
    for key, model in expected.items():
        other = found[key]
        assert other is not None
        assert model is not None
        for field in ("coef", "intercept", "status", "iterations", "converged", "classes"):
            assert getattr(other, field) == getattr(model, field), (key, field)
        assert (other.n_rows, other.n_skipped) == (model.n_rows, model.n_skipped)
        assert other.loss == pytest.approx(model.loss, rel=1e-12)
        assert other.history == (model.history and pytest.approx(model.history, rel=1e-12))


def large_ones(models: tuskml.Models) -> tuskml.Models:
    """Those that are trained by parts; sums of the other one follow the order of its rows."""
    return tuskml.Models((key, model) for key, model in models.items() if key != "small")
