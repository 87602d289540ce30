"""The cost function, and its measurement on a store whose cost is known."""

import numpy as np
import pytest

from tuskml.errors import OptionError
from tuskml.partitioner import Cost, measure_cost
from tuskml.partitioner.cost import fit_cost


class Store:
    """A store in memory that counts what it is asked."""

    def __init__(self) -> None:
        self.dtype = np.dtype(np.float32)
        self.held: dict[int, np.ndarray] = {}
        self.gets: list[int] = []

    def put(self, keys: np.ndarray, starts: np.ndarray, values: np.ndarray) -> None:
        self.held.update(zip(keys.tolist(), np.split(values, starts[1:-1]), strict=True))

    def get(self, keys: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
        self.gets.append(len(keys))
        for key, start, end in zip(keys.tolist(), starts[:-1], starts[1:], strict=True):
            out[start:end] = self.held[key]


def test_a_line_is_found_again() -> None:
    sizes = np.array([1.0, 16, 256, 4096])
    cost = fit_cost(sizes, 2e-6 + 3e-9 * sizes)
    assert cost.t_seek == pytest.approx(2e-6, rel=1e-9)
    assert cost.t_unit == pytest.approx(3e-9, rel=1e-9)


@pytest.mark.parametrize("seconds", [[3e-6, 2e-6], [1e-9, 1e-3], [0, 0]])
def test_a_fit_is_a_cost(seconds: list[float]) -> None:
    cost = fit_cost(np.array([1.0, 1000.0]), np.array(seconds))
    assert cost.t_seek > 0
    assert cost.t_unit >= 0


def test_a_store_is_written_beyond_a_model_and_read() -> None:
    store = Store()
    cost = measure_cost(store, sizes=(1, 64), requests=50, repeats=3)
    assert store.gets == [50] * 6
    assert min(store.held) > 2**62 + 2**40
    assert {len(payload) for payload in store.held.values()} == {1, 64}
    assert cost.t_seek > 0


def test_measuring_needs_two_sizes() -> None:
    with pytest.raises(OptionError, match="at least two sizes"):
        measure_cost(Store(), sizes=(8,))


@pytest.mark.parametrize(
    ("seek", "unit"), [(0, 1), (-1, 1), (1, -1), (float("nan"), 1), (1, float("inf"))]
)
def test_impossible_costs(seek: float, unit: float) -> None:
    with pytest.raises(OptionError, match="t_seek must be above 0"):
        Cost(seek, unit)


@pytest.mark.parametrize("cost", [Cost(1e-6, 1e-9), Cost(1e-2, 1e-7), Cost(5, 0), Cost(3, 7)])
def test_whole_numbers_are_near_and_small_enough(cost: Cost) -> None:
    seek, unit, second = cost.whole_numbers(10_000, 1_000)
    assert seek * second == pytest.approx(cost.t_seek, rel=1e-6)
    assert unit * second == pytest.approx(cost.t_unit, rel=1e-6)
    assert 10_000 * (seek + 1_000 * unit) <= 2**53
