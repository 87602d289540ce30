"""Rows of groups of which trees are grown by parts, what trees have in common, and parts that
forget.
"""

from collections.abc import Callable
from typing import Any

import pytest
import sharded

import tuskml
from tuskml.cluster.parts import part_rows
from tuskml.groups.execution import leading
from tuskml.groups.execution.leading import Ran

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


def forget() -> None:
    """All parts of this process lose their rows and all that they computed."""
    for part in list(part_rows._held.values()):
        part.free()


def assert_parts_may_forget(
    monkeypatch: pytest.MonkeyPatch, train: Callable[[], tuskml.Models]
) -> None:
    """Parts that forget in the middle of a tree get all again, and the bits stay the same."""
    expected = large_ones(train())
    heard: list[Ran] = []

    def hear(one: Ran) -> None:
        heard.append(one)
        if len(heard) % 97 == 0:
            forget()

    monkeypatch.setattr(leading, "heard", [hear])
    sharded.assert_same_bits(large_ones(train()), expected)
    anew = [one for one in heard if b'"setup"' in one.unit.payload]
    assert len(anew) > 2 * len({one.unit.pin for one in heard})


def assert_parts_may_forget_before(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, train: Callable[[], tuskml.Models]
) -> None:
    """The bits stay the same where parts forget before each step of a leader with this name."""
    expected = large_ones(train())
    step: Callable[..., Any] = getattr(owner, name)

    def step_of_parts_that_forgot(leader: Any, *asked: Any) -> Any:
        forget()
        return step(leader, *asked)

    monkeypatch.setattr(owner, name, step_of_parts_that_forgot)
    sharded.assert_same_bits(large_ones(train()), expected)
